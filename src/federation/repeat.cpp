#include "atoll/federation/repeat.hpp"

#include "atoll/outer/merge.hpp"

namespace Atoll::federation {

Repetition repeat(const ProtocolConfig& config, const FragmentState& before, const store::Letter& commit,
                  std::span<const store::Letter> offers) {
  Repetition done;
  std::vector<double> weights;
  for (const auto& offer : commit.offers)
    weights.push_back(outer::offer_weight(config.weights, offer.tokens, offer.steps));
  done.weights = outer::normalised(weights);
  if (!offers.empty()) {
    std::vector<std::span<const float>> gradients;
    for (const auto& offer : offers) gradients.emplace_back(*offer.values);
    done.merged = std::make_shared<const std::vector<float>>(outer::weighted_mean(gradients, done.weights));
  }
  done.next = before.advanced(*commit.values, commit.offers, config.outer_learning_rate, config.outer_momentum);
  return done;
}

FragmentState taken_over(const FragmentState& before, const store::Letter& snapshot) {
  FragmentState next = before;
  next.version = snapshot.version;
  next.anchor = snapshot.values;
  next.momentum = snapshot.momentum;
  next.tokens_merged = snapshot.tokens;
  next.newest = snapshot.offers;
  next.remember();
  return next;
}

}  // namespace Atoll::federation
