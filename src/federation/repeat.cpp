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
  for (std::size_t i = 0; i < done.weights.size(); ++i) {
    auto late = offers.empty() ? config.staleness : before.version - offers[i].version;
    // Who did not merge them does not know how late they were: any lateness that is allowed may explain a weight.
    for (auto& weight = done.weights[i]; late > 0 && (!offers.empty() || weight != commit.offers[i].weight); --late)
      weight *= config.staleness_decay;
  }
  if (!offers.empty()) {
    std::vector<std::span<const float>> gradients;
    for (const auto& offer : offers) gradients.emplace_back(*offer.values);
    std::span<const outer::Segment> segments;
    if (commit.fragment.value < config.segments.size()) segments = config.segments[commit.fragment.value];
    done.merged = std::make_shared<const std::vector<float>>(config.merger.merge(gradients, done.weights, segments));
  }
  const OuterRound outer(config.merger, config.outer);
  done.next = before.advanced(outer.step(*commit.values, before.view()), commit.offers);
  return done;
}

}  // namespace Atoll::federation
