#pragma once

#include <array>
#include <cstddef>

#include "atoll/device/session.hpp"

// Internal to outer: the inner loops of sums of squares. They are built with contraction of a * b + c, alone in Atoll:
// the square of a float is exact in fp64, so a fused addition rounds as an ordinary one does.
namespace Atoll::outer {

inline constexpr std::size_t lane_count = 16;
using Lanes = std::array<double, lane_count>;

// What is read twice lies in the innermost cache the second time, and so little of it that memory is never idle.
inline constexpr std::size_t piece_values = 128;
static_assert(piece_values % lane_count == 0 && device::block_values % piece_values == 0);

/// lanes[i mod 16] += values[i]^2.
void add_squares(double* lanes, const float* values, std::size_t count);

/// sum[i] = sum_k weights[k] four[k][i] as in weighted_sum(), and the squares of the four and of their sum to the five
/// lanes. @pre count is a multiple of piece_values
void set_four_and_squares(float* __restrict sum, const float* weights, const float* const* four,
                          Lanes* __restrict lanes, std::size_t count);

}  // namespace Atoll::outer
