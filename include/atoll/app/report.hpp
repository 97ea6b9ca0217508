#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atoll/app/federation_file.hpp"
#include "atoll/app/inner_loop.hpp"
#include "atoll/app/island_options.hpp"
#include "atoll/app/outer_loop.hpp"
#include "atoll/core/event_log.hpp"
#include "atoll/federation/gateway.hpp"

namespace Atoll::app {

/// What a person sees of an island: the progress line, log.jsonl, evaluations, the end. Rank 0, training thread.
class Report {
 public:
  Report(const FederationFile& federation, const IslandOptions& options, const data::TokenFile& tokens,
         InnerLoop& inner, OuterLoop& outer, federation::Gateway& gateway, EventLog& log);

  void started(std::uint64_t resumed_at, int ranks);
  /// Prints `text` as a line of its own, with the site's name.
  void say(const std::string& text) const;
  void stepped(const model::StepReport& step, double learning_rate);
  /// Validation loss of the island's parameters and of the anchor.
  void evaluate();
  /// Validation loss of the anchor, digests, a sampled paragraph.
  void finished();

 private:
  void print_progress(double loss);

  const FederationFile& federation_;
  const IslandOptions& options_;
  const data::TokenFile& tokens_;
  InnerLoop& inner_;
  OuterLoop& outer_;
  federation::Gateway& gateway_;
  EventLog& log_;
  std::vector<model::Batch> validation_;
  Seconds step_began_{};
  Seconds printed_at_{};
  Seconds progress_began_{};
  double progress_at_start_ = 0;
  double seconds_per_step_ = 0;  ///< smoothed
  std::uint64_t skipped_steps_ = 0;
};

}  // namespace Atoll::app
