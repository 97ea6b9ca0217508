#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atoll/app/federation_file.hpp"
#include "atoll/data/batch_order.hpp"
#include "atoll/data/token_file.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/model/trainer.hpp"
#include "atoll/outer/fragment_plan.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::app {

/// This process among the ranks of its island.
struct RankOf {
  int rank = 0;
  int ranks = 1;
};

/// One rank's share of an island's local training: network, optimizer, batches, and the model's cut into fragments.
/// Equal on all ranks after every step. Local but for step(), which is collective through `average`. One thread.
class InnerLoop {
 public:
  /// @throws ConfigError  the token file does not fit the model, or the batch the ranks
  InnerLoop(const FederationFile& federation, const data::TokenFile& tokens, SiteId site, RankOf rank,
            model::AverageInPlace average);

  /// One inner step; the loss is the mean over the island.
  model::StepReport step(double learning_rate);

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }  ///< sequences used by this site
  [[nodiscard]] std::uint64_t tokens_per_step() const noexcept { return tokens_per_step_; }
  [[nodiscard]] const FederationFile& federation() const noexcept { return federation_; }
  [[nodiscard]] const outer::FragmentPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] model::Trainer& trainer() noexcept { return trainer_; }

  /// The fragment's parameters now.
  [[nodiscard]] store::Values fragment(FragmentId fragment);
  /// Takes up a new anchor by the federation's mixing rule.
  void adopt(const federation::Adoption& adoption);
  /// Sets the fragment's parameters to what rank 0 has.
  void replace(FragmentId fragment, std::span<const float> values);
  /// Goes on after `steps` steps and `cursor` sequences.
  void resume(std::uint64_t steps, std::uint64_t cursor);

  /// The first `batches` batches of the validation part. @throws ConfigError  it is too short for one sequence
  [[nodiscard]] std::vector<model::Batch> validation(std::uint64_t batches) const;

 private:
  void read(data::Part part, std::uint64_t first, model::Batch& batch) const;

  const FederationFile& federation_;
  const data::TokenFile& tokens_;
  RankOf rank_;
  model::AverageInPlace average_;
  data::BatchOrder order_;
  model::Trainer trainer_;
  outer::FragmentPlan plan_;
  std::uint64_t tokens_per_step_;
  std::uint64_t steps_ = 0;
  std::uint64_t cursor_ = 0;
};

/// The federation's settings of the protocol, and the tensors of every fragment.
[[nodiscard]] federation::ProtocolConfig protocol_config(const FederationFile& federation,
                                                         const outer::FragmentPlan& plan);
/// The same without tokens.
[[nodiscard]] federation::ProtocolConfig protocol_config(const FederationFile& federation);

/// The common beginning: version 0 of every fragment is the initialisation.
[[nodiscard]] std::vector<federation::FragmentState> initial_fragments(InnerLoop& loop);
/// The same without tokens: what every site of the federation begins with.
[[nodiscard]] std::vector<federation::FragmentState> initial_fragments(const FederationFile& federation);

}  // namespace Atoll::app
