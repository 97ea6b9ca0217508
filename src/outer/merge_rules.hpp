#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "atoll/outer/merge.hpp"

// Internal to outer: what the merge rules are made of.
namespace Atoll::outer {

/// The gradients that take part, with their weights.
struct Contributors {
  std::vector<const float*> values;
  std::vector<float> weights;
  std::vector<double> squares;  ///< sum of squares of each, as far as they were read
  double merged_squares = 0;    ///< of the merged values so far
  std::size_t size = 0;         ///< values of each

  [[nodiscard]] std::size_t count() const noexcept { return values.size(); }
};

/// sum[i] = sum over the contributors of factors[k] * values[k][begin + i], fused, in the order of the list.
void weighted_sum(std::span<float> sum, const Contributors& from, std::span<const float> factors, std::size_t begin);

/// The weighted mean of values that fit one block, and on the way their squares added to from.squares, and its own.
void mean_and_squares(std::span<float> mean, Contributors& from, std::size_t begin);

/// square_sum() of the differences a[i] - b[i].
[[nodiscard]] double square_distance(std::span<const float> a, std::span<const float> b);

/// Position of the contributor that Krum takes.
[[nodiscard]] std::size_t krum(const Contributors& from, std::uint32_t faulty);

/// Each gives the merged values [begin, begin + merged.size()).
void merge_mean(std::span<float> merged, const Contributors& from, std::size_t begin);
void merge_trimmed(std::span<float> merged, const Contributors& from, std::size_t begin, std::uint32_t faulty);
void merge_median(std::span<float> merged, const Contributors& from, std::size_t begin);

/// Merges the matrix [begin, begin + matrix.size()) in the place `matrix` and gives it to the sink; adds to
/// from.squares and from.merged_squares.
void merge_radial(std::span<float> matrix, Contributors& from, std::size_t begin, const Merger::Sink& sink);

}  // namespace Atoll::outer
