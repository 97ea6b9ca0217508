// The sums that decide bits, each in one fixed order.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"
#include "merge_rules.hpp"
#include "squares.hpp"

namespace Atoll::outer {

static_assert(Merger::largest_block == device::block_values, "norms are summed by the same blocks");

namespace {

ATOLL_KERNEL void add_one(float* sum, float weight, const float* values, std::size_t count) {
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) sum[i] = std::fma(weight, values[i], sum[i]);
}

// Four streams at once keep the memory busier than one after the other.
ATOLL_KERNEL void set_four(float* sum, const float* weights, const float* a, const float* b, const float* c,
                           const float* d, std::size_t count) {
  const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i)
    sum[i] = std::fma(wd, d[i], std::fma(wc, c[i], std::fma(wb, b[i], std::fma(wa, a[i], 0.0F))));
}

ATOLL_KERNEL void add_square_differences(double* lanes, const float* a, const float* b, std::size_t count) {
  double sums[lane_count];
  for (std::size_t lane = 0; lane < lane_count; ++lane) sums[lane] = lanes[lane];
  const std::size_t whole = count - count % lane_count;
  for (std::size_t i = 0; i < whole; i += lane_count)
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const double difference = double{a[i + lane]} - double{b[i + lane]};
      sums[lane] += difference * difference;
    }
  for (std::size_t i = whole; i < count; ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sums[i - whole] += difference * difference;
  }
  for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = sums[lane];
}

// Adds the upper half to the lower one until one lane is left.
double tree_sum(Lanes lanes) {
  for (std::size_t half = lane_count / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

template <class LanesOfBlock>
double sum_of_blocks(std::size_t count, const LanesOfBlock& lanes_of_block) {
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += device::block_values) {
    Lanes lanes{};
    lanes_of_block(lanes.data(), begin, std::min(device::block_values, count - begin));
    sum += tree_sum(lanes);
  }
  return sum;
}

// The largest magnitude as bits: those of infinity and NaN are above those of every number.
ATOLL_KERNEL std::uint32_t largest_magnitude(const float* values, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU);
  return largest;
}

}  // namespace

void weighted_sum(std::span<float> sum, const Contributors& from, std::span<const float> factors, std::size_t begin) {
  ATOLL_EXPECT(begin + sum.size() <= from.size && factors.size() == from.count(), "values of the contributors");
  const auto& values = from.values;
  std::size_t k = 0;
  if (from.count() >= 4) {
    set_four(sum.data(), factors.data(), values[0] + begin, values[1] + begin, values[2] + begin, values[3] + begin,
             sum.size());
    k = 4;
  } else {
    std::ranges::fill(sum, 0.0F);
  }
  for (; k < from.count(); ++k) add_one(sum.data(), factors[k], values[k] + begin, sum.size());
}

double square_sum(std::span<const float> values) {
  return sum_of_blocks(values.size(), [&](double* lanes, std::size_t begin, std::size_t count) {
    add_squares(lanes, values.data() + begin, count);
  });
}

double square_distance(std::span<const float> a, std::span<const float> b) {
  ATOLL_EXPECT(a.size() == b.size(), "spans of one size");
  return sum_of_blocks(a.size(), [&](double* lanes, std::size_t begin, std::size_t count) {
    add_square_differences(lanes, a.data() + begin, b.data() + begin, count);
  });
}

void mean_and_squares(std::span<float> mean, Contributors& from, std::size_t begin) {
  ATOLL_EXPECT(begin + mean.size() <= from.size && mean.size() <= device::block_values, "one block");
  std::vector<Lanes> lanes(from.count() + 1, Lanes{});
  std::size_t i = 0;
  if (from.count() == 4) {
    const std::array four{from.values[0] + begin, from.values[1] + begin, from.values[2] + begin,
                          from.values[3] + begin};
    i = mean.size() / piece_values * piece_values;
    set_four_and_squares(mean.data(), from.weights.data(), four.data(), lanes.data(), i);
  }
  const std::size_t step = 4 * piece_values;
  for (; i < mean.size(); i += step) {
    const auto piece = mean.subspan(i, std::min(step, mean.size() - i));
    for (std::size_t k = 0; k < from.count(); ++k)
      add_squares(lanes[k].data(), from.values[k] + begin + i, piece.size());
    weighted_sum(piece, from, from.weights, begin + i);
    add_squares(lanes.back().data(), piece.data(), piece.size());
  }
  for (std::size_t k = 0; k < from.count(); ++k) from.squares[k] += tree_sum(lanes[k]);
  from.merged_squares += tree_sum(lanes.back());
}

double norm(std::span<const float> values) {
  return std::sqrt(square_sum(values));
}

bool all_finite(std::span<const float> values) {
  return largest_magnitude(values.data(), values.size()) < std::bit_cast<std::uint32_t>(HUGE_VALF);
}

}  // namespace Atoll::outer
