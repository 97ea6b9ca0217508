// Radial-directional averaging of one matrix (Decoupled DiLoCo, section 3).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "merge_rules.hpp"

namespace Atoll::outer {
namespace {

// Below this the directions cancel and what is left of them is rounding.
constexpr double degenerate = 1e-6;

ATOLL_KERNEL void scale(float* values, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = factor * values[i];
}

}  // namespace

void merge_mean(std::span<float> merged, const Contributors& from, std::size_t begin) {
  weighted_sum(merged, from, from.weights, begin);
}

void merge_radial(std::span<float> merged, Contributors& from, std::size_t begin) {
  std::vector<float> factors;  // of the sum of directions: weight / norm
  double mean_norm = 0, directed = 0;
  for (std::size_t k = 0; k < from.count(); ++k) {
    const double weight = from.weights[k];
    const double square = square_sum({from.values[k] + begin, merged.size()});
    const double own = std::sqrt(square);
    from.squares[k] += square;
    mean_norm += weight * own;
    // A norm that is not a normal fp32 number has no reciprocal in fp32; it is as good as zero.
    const bool has_direction = own >= double{std::numeric_limits<float>::min()};
    if (has_direction) directed += weight;
    factors.push_back(has_direction ? static_cast<float>(weight / own) : 0.0F);
  }
  weighted_sum(merged, from, factors, begin);
  const double length = norm(merged);
  if (!(length > degenerate * directed)) return merge_mean(merged, from, begin);
  scale(merged.data(), static_cast<float>(mean_norm / length), merged.size());
}

}  // namespace Atoll::outer
