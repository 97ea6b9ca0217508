#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace Atoll::outer {

/// How much an offer counts in the merge.
enum class WeightRule {
  equal,
  tokens,
  tokens_per_step,  ///< tokens * tokens / steps (Decoupled DiLoCo, section 3)
};

/// Weight of an offer of `tokens` tokens made in `steps` inner steps, not yet normalised; 0 for no tokens.
[[nodiscard]] double offer_weight(WeightRule rule, std::uint64_t tokens, std::uint64_t steps);

/// Weights divided by their sum, rounded to fp32. @pre at least one is positive
[[nodiscard]] std::vector<float> normalised(std::span<const double> weights);

/// sum_i weights[i] * gradients[i], each value one fixed sequence of fp32 fma in the order of the list.
/// @pre all gradients have equal sizes
[[nodiscard]] std::vector<float> weighted_mean(std::span<const std::span<const float>> gradients,
                                               std::span<const float> weights);

/// True when no value is infinite or NaN.
[[nodiscard]] bool all_finite(std::span<const float> values);

}  // namespace Atoll::outer
