// Radial-directional averaging of one matrix (Decoupled DiLoCo, section 3).
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
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

std::span<float> block_of(std::span<float> values, std::size_t begin) {
  return values.subspan(begin, std::min(Merger::largest_block, values.size() - begin));
}

// weight / norm of each contributor, for the sum of directions; and the mean of the norms.
struct Directions {
  std::vector<float> factors;
  double mean_norm = 0;
  double weight = 0;  // of those that have a direction
};

Directions directions(Contributors& from, std::size_t begin, std::size_t count) {
  Directions found;
  for (std::size_t k = 0; k < from.count(); ++k) {
    const double weight = from.weights[k];
    const double square = square_sum({from.values[k] + begin, count});
    const double own = std::sqrt(square);
    from.squares[k] += square;
    found.mean_norm += weight * own;
    // A norm that is not a normal fp32 number has no reciprocal in fp32; it is as good as zero.
    const bool has_direction = own >= double{std::numeric_limits<float>::min()};
    if (has_direction) found.weight += weight;
    found.factors.push_back(has_direction ? static_cast<float>(weight / own) : 0.0F);
  }
  return found;
}

}  // namespace

void merge_mean(std::span<float> merged, const Contributors& from, std::size_t begin) {
  weighted_sum(merged, from, from.weights, begin);
}

void merge_radial(std::span<float> matrix, Contributors& from, std::size_t begin, const Merger::Sink& sink) {
  const auto found = directions(from, begin, matrix.size());
  double square = 0;
  for (std::size_t i = 0; i < matrix.size(); i += Merger::largest_block) {
    const auto block = block_of(matrix, i);
    weighted_sum(block, from, found.factors, begin + i);
    square += square_sum(block);
  }
  const double length = std::sqrt(square);
  const bool has_direction = length > degenerate * found.weight;
  const auto factor = static_cast<float>(found.mean_norm / length);
  for (std::size_t i = 0; i < matrix.size(); i += Merger::largest_block) {
    const auto block = block_of(matrix, i);
    if (has_direction)
      scale(block.data(), factor, block.size());
    else
      merge_mean(block, from, begin + i);
    from.merged_squares += square_sum(block);
    sink(block);
  }
}

}  // namespace Atoll::outer
