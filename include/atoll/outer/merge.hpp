#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "atoll/outer/fragment_plan.hpp"  // Segment

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

/// sum_i weights[i] * gradients[i], each value one fixed sequence of fp32 fma in the order of the list; gradients of
/// weight 0 are not read. @pre all gradients have equal sizes
[[nodiscard]] std::vector<float> weighted_mean(std::span<const std::span<const float>> gradients,
                                               std::span<const float> weights);

/// True when no value is infinite or NaN.
[[nodiscard]] bool all_finite(std::span<const float> values);

/// Sum of squares in fp64, in one fixed order on every site: value i of each block of 32768 goes to lane i mod 16, the
/// lanes are added in a tree, the blocks in order. A float's square is exact in fp64, so only the additions round.
[[nodiscard]] double square_sum(std::span<const float> values);
/// L2 norm in fp64, the root of square_sum(); finite exactly when all values are.
[[nodiscard]] double norm(std::span<const float> values);

/// L2 norms in fp64 that a merge finds on its way, equal to norm() but for the last bits. Where a value is not finite,
/// the norm is not.
struct MergeNorms {
  double merged = 0;
  std::vector<double> gradients;  ///< 0 for a gradient of weight 0
};

/// How the offers of one fragment become one merged pseudo-gradient.
enum class MergeRule {
  mean,                ///< weighted mean
  radial_directional,  ///< RDA (Decoupled DiLoCo, section 3): mean norm times mean direction, so it does not shrink
  trimmed_mean,        ///< of each value, without its f largest and f smallest (Yin 2018)
  median,              ///< of each value, the lower one of two (Yin 2018)
  krum,                ///< the offer closest to its n - f - 2 nearest others (Blanchard 2017)
};

/// Merges offers. A value; local, any thread. Equal arguments in an equal order give equal bits.
///
/// An offer of weight 0 takes no part and is not read. mean and radial_directional use the weights as they come: shares
/// that sum to 1, or to less where late offers are damped. The robust rules ask only who takes part: a faulty site may
/// claim any weight, so the size of a weight means nothing to them.
///
/// radial_directional, for each segment that is a matrix, with n_i the norm of offer i there:
///     (sum w_i n_i) * phi(sum w_i phi(v_i)),  phi(v) = v / norm(v),  phi(0) = 0
/// An offer that is zero gives no direction but counts in the mean norm. Where the directions cancel (to less than a
/// millionth of what they would sum to), and in all other segments, it is the weighted mean; of one offer too.
///
/// trimmed_mean and median of n offers leave out at most (n - 1) / 2 on either side. krum looks at one other offer at
/// least; of equal ones the first of the list is taken.
struct Merger {
  MergeRule rule = MergeRule::mean;
  std::uint32_t faulty = 0;  ///< f: so many offers may be arbitrarily wrong

  /// @param segments  the tensors of the fragment, ordered by offset; only radial_directional reads them, and values
  ///                  that none covers take the weighted mean
  /// @pre gradients have equal sizes, weights are not negative and at least one is positive
  [[nodiscard]] std::vector<float> merge(std::span<const std::span<const float>> gradients,
                                         std::span<const float> weights, std::span<const Segment> segments) const;

  /// Takes consecutive blocks of the merged values, from the first value to the last; a block is valid during the call.
  using Sink = std::function<void(std::span<const float> block)>;
  static constexpr std::size_t largest_block = 32768;  ///< [values]
  /// The same values without a place for all of them.
  MergeNorms merge_blocks(std::span<const std::span<const float>> gradients, std::span<const float> weights,
                          std::span<const Segment> segments, const Sink& sink) const;
};

}  // namespace Atoll::outer
