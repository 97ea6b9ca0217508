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
  std::size_t size = 0;  ///< values of each

  [[nodiscard]] std::size_t count() const noexcept { return values.size(); }
};

/// sum[i] = sum over the contributors of factors[k] * values[k][begin + i], fused, in the order of the list.
void weighted_sum(std::span<float> sum, const Contributors& from, std::span<const float> factors, std::size_t begin);

/// Sum of squares in fp64: value i of each block of device::block_values goes to lane i mod 8, the lanes are added in a
/// tree, the blocks in order. The square of a float is exact in fp64, so every addition is the only rounding.
[[nodiscard]] double square_sum(std::span<const float> values);
/// The same of the differences a[i] - b[i].
[[nodiscard]] double square_distance(std::span<const float> a, std::span<const float> b);

/// Position of the contributor that Krum takes.
[[nodiscard]] std::size_t krum(const Contributors& from, std::uint32_t faulty);

/// Each gives the merged values [begin, begin + merged.size()).
void merge_mean(std::span<float> merged, const Contributors& from, std::size_t begin);
void merge_trimmed(std::span<float> merged, const Contributors& from, std::size_t begin, std::uint32_t faulty);
void merge_median(std::span<float> merged, const Contributors& from, std::size_t begin);
void merge_radial(std::span<float> merged, const Contributors& from, std::size_t begin);

}  // namespace Atoll::outer
