#include "squares.hpp"

#include <cmath>

#include "atoll/device/kernel.hpp"

namespace Atoll::outer {

ATOLL_KERNEL void add_squares(double* lanes, const float* values, std::size_t count) {
  double sums[lane_count];
  for (std::size_t lane = 0; lane < lane_count; ++lane) sums[lane] = lanes[lane];
  const std::size_t whole = count - count % lane_count;
  for (std::size_t i = 0; i < whole; i += lane_count)
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  for (std::size_t i = whole; i < count; ++i) sums[i - whole] += double{values[i]} * double{values[i]};
  for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] = sums[lane];
}

ATOLL_KERNEL void set_four_and_squares(float* __restrict sum, const float* weights, const float* const* four,
                                       Lanes* __restrict lanes, std::size_t count) {
  const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
  for (std::size_t begin = 0; begin < count; begin += piece_values) {
    const float *a = four[0] + begin, *b = four[1] + begin, *c = four[2] + begin, *d = four[3] + begin;
    float* piece = sum + begin;
    for (std::size_t i = 0; i < piece_values; ++i)
      piece[i] = std::fma(wd, d[i], std::fma(wc, c[i], std::fma(wb, b[i], std::fma(wa, a[i], 0.0F))));
    const float* arrays[] = {a, b, c, d, piece};
    for (std::size_t k = 0; k < 5; ++k) {
      const float* values = arrays[k];
      double sums[lane_count];
      for (std::size_t lane = 0; lane < lane_count; ++lane) sums[lane] = lanes[k][lane];
      for (std::size_t i = 0; i < piece_values; i += lane_count)
        for (std::size_t lane = 0; lane < lane_count; ++lane) {
          const double value = values[i + lane];
          sums[lane] += value * value;
        }
      for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[k][lane] = sums[lane];
    }
  }
}

}  // namespace Atoll::outer
