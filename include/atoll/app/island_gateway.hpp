#pragma once

#include <set>
#include <vector>

#include "atoll/app/federation_file.hpp"
#include "atoll/app/inner_loop.hpp"
#include "atoll/app/island_options.hpp"
#include "atoll/app/outer_loop.hpp"
#include "atoll/app/report.hpp"
#include "atoll/app/run_directory.hpp"
#include "atoll/app/stop_request.hpp"
#include "atoll/core/event_log.hpp"
#include "atoll/federation/gateway.hpp"

namespace Atoll::app {

/// What rank 0 tells the other ranks before every inner step.
enum class Order : std::uint32_t { step, finish, stop };

/// Everything that only the gateway rank of an island does: run directory, log, letters, reports, checkpoints.
/// Local; the training thread of rank 0 (the Gateway inside has a thread of its own).
class IslandGateway {
 public:
  /// @param fragments  as resumed or initial   @throws ConfigError  another island of this site is alive
  IslandGateway(const FederationFile& federation, const IslandOptions& options, const data::TokenFile& tokens,
                RunDirectory& directory, EventLog& log, InnerLoop& inner,
                std::vector<federation::FragmentState> fragments, StopRequest& stop, int ranks);

  /// Waits for the other sites and takes over what they have ahead, at most options.gather.
  /// @throws ConfigError  another site refuses us, because its configuration or program differs
  void gather();
  /// Between two inner steps: exchange, reports, checkpoints. `changed`: fragments whose parameters are new.
  [[nodiscard]] Order between_steps(std::set<FragmentId>& changed);
  [[nodiscard]] double learning_rate() const { return outer_.learning_rate(); }
  void stepped(const model::StepReport& step, double learning_rate);

  /// The federation is finished: serves those who are not yet, then reports and leaves DONE as the last act.
  void finish();
  /// The island was asked to stop: a checkpoint, no more.
  void stop();

 private:
  [[nodiscard]] federation::Gateway make_gateway(std::vector<federation::FragmentState> fragments);
  [[nodiscard]] federation::RecordKeeper make_keeper();
  void note_adopted(const std::set<FragmentId>& fragments);
  void warn_of_refusals();
  void save_checkpoint(std::set<FragmentId>& changed);
  void linger();

  const FederationFile& federation_;
  const IslandOptions& options_;
  RunDirectory& directory_;
  EventLog& log_;
  InnerLoop& inner_;
  StopRequest& stop_;
  SiteId site_;
  int ranks_;
  std::uint64_t resumed_at_;
  federation::Gateway gateway_;
  OuterLoop outer_;
  Report report_;
  std::uint64_t saved_at_;
  std::uint64_t evaluated_at_;
  std::set<SiteId> warned_;
};

}  // namespace Atoll::app
