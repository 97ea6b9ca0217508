#pragma once

#include <set>
#include <vector>

#include "atoll/app/federation_file.hpp"
#include "atoll/app/inner_loop.hpp"
#include "atoll/federation/adoption_queue.hpp"
#include "atoll/federation/gateway.hpp"

namespace Atoll::app {

/// What happens between two inner steps on rank 0: offers that are due go out, commits that came are taken up.
/// Local; the training thread of rank 0.
class OuterLoop {
 public:
  OuterLoop(const FederationFile& federation, InnerLoop& inner, federation::Gateway& gateway);

  /// Tells the protocol of the inner step that was just made.
  void stepped();
  /// Fragments whose parameters changed. Waits only where the federation file says so (outer.wait_seconds).
  [[nodiscard]] std::set<FragmentId> between_steps();
  /// Takes up every commit that waits; gives the protocol's fragments of that very moment, for a checkpoint.
  std::vector<federation::FragmentState> settle(std::set<FragmentId>& changed);
  /// The end of training: the parameters become the anchors, the model that all sites share.
  void take_anchors();
  /// For the next inner step, by the federation's progress as of between_steps().
  [[nodiscard]] double learning_rate() const { return federation_.learning_rate.at(progress_tokens_); }
  /// All anchors as one flat parameter vector.
  [[nodiscard]] std::vector<float> anchors();

 private:
  void exchange(federation::Protocol& protocol, Seconds now, std::set<FragmentId>& changed);
  [[nodiscard]] bool is_due(FragmentId f);
  void collect(federation::Protocol& protocol, Seconds now);
  void take_up(const std::vector<federation::Adoption>& adoptions, std::set<FragmentId>& changed);
  void wait_for_commits();

  const FederationFile& federation_;
  InnerLoop& inner_;
  federation::Gateway& gateway_;
  std::set<FragmentId> due_;  ///< for an offer, but the gateway was busy
  federation::AdoptionQueue adoptions_;
  std::vector<std::optional<std::uint64_t>> last_due_;  ///< by fragment: inner step of its last offer
  std::uint64_t local_steps_ = 0;        ///< between two of them, where steps are dynamic
  std::uint64_t untold_steps_ = 0;
  double progress_tokens_ = 0;
};

}  // namespace Atoll::app
