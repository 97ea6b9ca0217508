#include "atoll/outer/mixing.hpp"

#include <cmath>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"

namespace Atoll::outer {
namespace {

ATOLL_KERNEL void blend_loop(float* parameters, const float* anchor, float alpha, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) parameters[i] = std::fma(alpha, parameters[i] - anchor[i], anchor[i]);
}

}  // namespace

void rebase(std::span<float> parameters, std::span<const float> anchor, std::span<const float> base) {
  ATOLL_EXPECT(parameters.size() == anchor.size() && parameters.size() == base.size(), "spans of one size");
  device::for_blocks(parameters.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) parameters[i] = anchor[i] + (parameters[i] - base[i]);
  });
}

void blend(std::span<float> parameters, std::span<const float> anchor, float alpha) {
  ATOLL_EXPECT(parameters.size() == anchor.size(), "spans of one size");
  device::for_blocks(parameters.size(), [&](std::size_t begin, std::size_t end) {
    blend_loop(parameters.data(), anchor.data(), alpha, begin, end);
  });
}

}  // namespace Atoll::outer
