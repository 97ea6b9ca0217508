#include "atoll/outer/outer_optimizer.hpp"

#include <cmath>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"

namespace Atoll::outer {
namespace {

ATOLL_KERNEL void nesterov_loop(float* anchor, float* momentum, const float* gradient, std::size_t begin,
                                std::size_t end, float learning_rate, float momentum_factor) {
  for (std::size_t i = begin; i < end; ++i) {
    const float scaled = momentum_factor * momentum[i];
    momentum[i] = scaled + gradient[i];
    anchor[i] = std::fma(-learning_rate, std::fma(momentum_factor, momentum[i], gradient[i]), anchor[i]);
  }
}

}  // namespace

void nesterov_step(std::span<float> anchor, std::span<float> momentum, std::span<const float> gradient,
                   float learning_rate, float momentum_factor) {
  ATOLL_EXPECT(anchor.size() == momentum.size() && anchor.size() == gradient.size(), "spans of one size");
  device::for_blocks(anchor.size(), [&](std::size_t begin, std::size_t end) {
    nesterov_loop(anchor.data(), momentum.data(), gradient.data(), begin, end, learning_rate, momentum_factor);
  });
}

std::vector<float> pseudo_gradient(std::span<const float> anchor, std::span<const float> parameters) {
  ATOLL_EXPECT(anchor.size() == parameters.size(), "spans of one size");
  std::vector<float> gradient(anchor.size());
  device::for_blocks(gradient.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) gradient[i] = anchor[i] - parameters[i];
  });
  return gradient;
}

}  // namespace Atoll::outer
