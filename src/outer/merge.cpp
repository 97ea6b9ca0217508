#include "atoll/outer/merge.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"

namespace Atoll::outer {
namespace {

ATOLL_KERNEL void add_weighted(float* sum, float weight, const float* values, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) sum[i] = std::fma(weight, values[i], sum[i]);
}

}  // namespace

double offer_weight(WeightRule rule, std::uint64_t tokens, std::uint64_t steps) {
  if (tokens == 0) return 0;
  const auto n = static_cast<double>(tokens);
  switch (rule) {
    case WeightRule::equal: return 1;
    case WeightRule::tokens: return n;
    case WeightRule::tokens_per_step: return n * n / static_cast<double>(std::max<std::uint64_t>(steps, 1));
  }
  return 0;
}

std::vector<float> normalised(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  ATOLL_EXPECT(sum > 0, "no weight is positive");
  std::vector<float> shares(weights.size());
  std::ranges::transform(weights, shares.begin(), [sum](double weight) { return static_cast<float>(weight / sum); });
  return shares;
}

std::vector<float> weighted_mean(std::span<const std::span<const float>> gradients, std::span<const float> weights) {
  ATOLL_EXPECT(!gradients.empty() && gradients.size() == weights.size(), "one weight per gradient");
  std::vector<float> mean(gradients.front().size(), 0.0F);
  device::for_blocks(mean.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t g = 0; g < gradients.size(); ++g)
      add_weighted(mean.data(), weights[g], gradients[g].data(), begin, end);
  });
  return mean;
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace Atoll::outer
