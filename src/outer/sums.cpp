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

namespace Atoll::outer {

static_assert(Merger::largest_block == device::block_values, "norms are summed by the same blocks");

namespace {

constexpr std::size_t lane_count = 8;
using Lanes = std::array<double, lane_count>;

ATOLL_KERNEL void add_one(float* sum, float weight, const float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = std::fma(weight, values[i], sum[i]);
}

// Four streams at once keep the memory busier than one after the other.
ATOLL_KERNEL void set_four(float* sum, const float* weights, const float* a, const float* b, const float* c,
                           const float* d, std::size_t count) {
  const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
  for (std::size_t i = 0; i < count; ++i)
    sum[i] = std::fma(wd, d[i], std::fma(wc, c[i], std::fma(wb, b[i], std::fma(wa, a[i], 0.0F))));
}

// The same, and the squares of whole groups of lanes with it.
ATOLL_KERNEL void set_four_and_squares(float* sum, const float* weights, const float* a, const float* b, const float* c,
                                       const float* d, Lanes* lanes, std::size_t count) {
  const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
  double la[lane_count] = {}, lb[lane_count] = {}, lc[lane_count] = {}, ld[lane_count] = {};
  for (std::size_t i = 0; i < count; i += lane_count) {
    for (std::size_t lane = 0; lane < lane_count; ++lane) la[lane] += double{a[i + lane]} * double{a[i + lane]};
    for (std::size_t lane = 0; lane < lane_count; ++lane) lb[lane] += double{b[i + lane]} * double{b[i + lane]};
    for (std::size_t lane = 0; lane < lane_count; ++lane) lc[lane] += double{c[i + lane]} * double{c[i + lane]};
    for (std::size_t lane = 0; lane < lane_count; ++lane) ld[lane] += double{d[i + lane]} * double{d[i + lane]};
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const std::size_t j = i + lane;
      sum[j] = std::fma(wd, d[j], std::fma(wc, c[j], std::fma(wb, b[j], std::fma(wa, a[j], 0.0F))));
    }
  }
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    lanes[0][lane] = la[lane];
    lanes[1][lane] = lb[lane];
    lanes[2][lane] = lc[lane];
    lanes[3][lane] = ld[lane];
  }
}

ATOLL_KERNEL void add_squares(double* lanes, const float* values, std::size_t count) {
  double sums[lane_count] = {};
  const std::size_t whole = count - count % lane_count;
  for (std::size_t i = 0; i < whole; i += lane_count)
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  for (std::size_t i = whole; i < count; ++i) sums[i - whole] += double{values[i]} * double{values[i]};
  for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = sums[lane];
}

ATOLL_KERNEL void add_square_differences(double* lanes, const float* a, const float* b, std::size_t count) {
  double sums[lane_count] = {};
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

double tree_sum(const Lanes& l) {
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

template <class LanesOfBlock>
double sum_of_blocks(std::size_t count, const LanesOfBlock& lanes_of_block) {
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += device::block_values) {
    Lanes lanes;
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
  if (from.count() != 4 || mean.size() % lane_count != 0) {
    for (std::size_t k = 0; k < from.count(); ++k) from.squares[k] += square_sum({from.values[k] + begin, mean.size()});
    return weighted_sum(mean, from, from.weights, begin);
  }
  std::array<Lanes, 4> lanes;
  const auto& values = from.values;
  set_four_and_squares(mean.data(), from.weights.data(), values[0] + begin, values[1] + begin, values[2] + begin,
                       values[3] + begin, lanes.data(), mean.size());
  for (std::size_t k = 0; k < lanes.size(); ++k) from.squares[k] += tree_sum(lanes[k]);
}

double norm(std::span<const float> values) {
  return std::sqrt(square_sum(values));
}

bool all_finite(std::span<const float> values) {
  return largest_magnitude(values.data(), values.size()) < std::bit_cast<std::uint32_t>(HUGE_VALF);
}

}  // namespace Atoll::outer
