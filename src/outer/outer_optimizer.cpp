#include "atoll/outer/outer_optimizer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"

namespace Atoll::outer {
namespace {

// One block of values. Old and new ones may lie in the same place, but not shifted. `second` is the second slot of the
// state, for methods that have one.
struct Block {
  const float* old_anchor;
  const float* old_first;
  const float* old_second;
  float* anchor;
  float* first;
  float* second;
  const float* gradient;
  std::size_t count;
};

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

// The largest magnitude as bits: those of infinity and NaN are above those of every number.
std::uint32_t larger(std::uint32_t largest, float a, float b) {
  return std::max(largest, std::max(magnitude(a), magnitude(b)));
}

ATOLL_KERNEL std::uint32_t sgd_block(Block b, float eta, float mu) {
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float scaled = mu * b.old_first[i];
    const float m = scaled + b.gradient[i];
    b.first[i] = m;
    const float x = std::fma(-eta, m, b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, m);
  }
  return largest;
}

ATOLL_KERNEL std::uint32_t nesterov_block(Block b, float eta, float mu) {
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float scaled = mu * b.old_first[i];
    const float g = b.gradient[i];
    const float m = scaled + g;
    b.first[i] = m;
    const float x = std::fma(-eta, std::fma(mu, m, g), b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, m);
  }
  return largest;
}

ATOLL_KERNEL std::uint32_t gathering_block(Block b, float eta, float factor, float delay) {
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float m = b.old_first[i];
    b.first[i] = m;
    const float gathered = b.old_second[i] + g;
    b.second[i] = gathered;
    const float x = std::fma(-eta, std::fma(factor, m, g / delay), b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, gathered);
  }
  return largest;
}

ATOLL_KERNEL std::uint32_t refreshing_block(Block b, float eta, float mu, float factor, float delay) {
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float gathered = b.old_second[i] + g;
    const float scaled = mu * b.old_first[i];
    const float m = scaled + gathered / delay;
    b.first[i] = m;
    const float x = std::fma(-eta, std::fma(factor, m, g / delay), b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, m);
    b.second[i] = 0;
  }
  return largest;
}

std::uint32_t delayed_nesterov_block(Block b, const OuterOptimizer& o, Version version) {
  const auto delay = static_cast<float>(o.delay);
  if ((version + 1) % o.delay != 0) return gathering_block(b, o.learning_rate, o.delay_share * o.momentum, delay);
  const float spread = o.delay_share * delay;
  const float factor = ((1 - spread) + o.delay_share) * o.momentum;
  return refreshing_block(b, o.learning_rate, o.momentum, factor, delay);
}

ATOLL_KERNEL std::uint32_t adam_block(Block b, float eta, float beta1, float beta2, float tau) {
  const float rest1 = 1 - beta1, rest2 = 1 - beta2;
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float square = g * g;
    const float m = std::fma(beta1, b.old_first[i], rest1 * g);
    const float v = std::fma(beta2, b.old_second[i], rest2 * square);
    b.first[i] = m;
    b.second[i] = v;
    const float x = std::fma(-eta, m / (std::sqrt(v) + tau), b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, v);
  }
  return largest;
}

ATOLL_KERNEL std::uint32_t yogi_block(Block b, float eta, float beta1, float beta2, float tau) {
  const float rest1 = 1 - beta1, rest2 = 1 - beta2;
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float square = g * g;
    const float m = std::fma(beta1, b.old_first[i], rest1 * g);
    const float old = b.old_second[i];
    const float towards = old > square ? -rest2 : old < square ? rest2 : 0.0F;
    const float v = std::fma(towards, square, old);
    b.first[i] = m;
    b.second[i] = v;
    const float x = std::fma(-eta, m / (std::sqrt(v) + tau), b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, v);
  }
  return largest;
}

ATOLL_KERNEL std::uint32_t adagrad_block(Block b, float eta, float beta1, float tau) {
  const float rest1 = 1 - beta1;
  std::uint32_t largest = 0;
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float square = g * g;
    const float m = std::fma(beta1, b.old_first[i], rest1 * g);
    const float v = b.old_second[i] + square;
    b.first[i] = m;
    b.second[i] = v;
    const float x = std::fma(-eta, m / (std::sqrt(v) + tau), b.old_anchor[i]);
    b.anchor[i] = x;
    largest = larger(largest, x, v);
  }
  return largest;
}

std::uint32_t step_block(Block b, const OuterOptimizer& o, Version version) {
  switch (o.method) {
    case OuterMethod::sgd:
      return sgd_block(b, o.learning_rate, o.momentum);
    case OuterMethod::nesterov:
      return nesterov_block(b, o.learning_rate, o.momentum);
    case OuterMethod::delayed_nesterov:
      return delayed_nesterov_block(b, o, version);
    case OuterMethod::adam:
      return adam_block(b, o.learning_rate, o.momentum, o.second_momentum, o.epsilon);
    case OuterMethod::yogi:
      return yogi_block(b, o.learning_rate, o.momentum, o.second_momentum, o.epsilon);
    case OuterMethod::adagrad:
      return adagrad_block(b, o.learning_rate, o.momentum, o.epsilon);
  }
  return 0;
}

void require(bool holds, const std::string& name, float value, const std::string& range) {
  if (!holds)
    throw ConfigError("the outer optimizer's " + name + " is " + std::to_string(value), "it must be " + range,
                      "choose another");
}

}  // namespace

std::size_t OuterOptimizer::slots() const noexcept {
  return method == OuterMethod::sgd || method == OuterMethod::nesterov ? 1 : 2;
}

void OuterOptimizer::step(std::span<float> anchor, std::span<float> state, std::span<const float> gradient,
                          Version version) const {
  step({anchor, state, anchor.size()}, anchor, state, gradient, version);
}

bool OuterOptimizer::step(const AnchorValues& old, std::span<float> anchor, std::span<float> state,
                          std::span<const float> gradient, Version version) const {
  const auto size = anchor.size();
  ATOLL_EXPECT(old.anchor.size() == size && gradient.size() == size && state.size() == slots() * size &&
                   (size == 0 || old.state.size() >= (slots() - 1) * old.stride + size),
               "a gradient and slots of the anchor's size");
  ATOLL_EXPECT(delay > 0, "a delay of no commits");
  std::uint32_t largest = 0;
  device::for_blocks(size, [&](std::size_t begin, std::size_t end) {
    const auto of_slot = [&](auto* values, std::size_t slot, std::size_t stride) {
      return slot < slots() ? values + slot * stride + begin : nullptr;
    };
    const auto block =
        step_block({old.anchor.data() + begin, of_slot(old.state.data(), 0, old.stride),
                    of_slot(old.state.data(), 1, old.stride), anchor.data() + begin, of_slot(state.data(), 0, size),
                    of_slot(state.data(), 1, size), gradient.data() + begin, end - begin},
                   *this, version);
    largest = std::max(largest, block);
  });
  return largest < std::bit_cast<std::uint32_t>(HUGE_VALF);
}

void OuterOptimizer::check() const {
  require(learning_rate > 0 && std::isfinite(learning_rate), "learning rate", learning_rate, "positive");
  require(momentum >= 0 && momentum < 1, "momentum", momentum, "at least 0 and less than 1");
  require(second_momentum >= 0 && second_momentum < 1, "second momentum", second_momentum,
          "at least 0 and less than 1");
  require(epsilon > 0 && std::isfinite(epsilon), "epsilon", epsilon, "positive");
  require(delay > 0, "delay", static_cast<float>(delay), "at least 1 commit");
  require(delay_share >= 0 && delay_share * static_cast<float>(delay) <= 1, "delay share", delay_share,
          "between 0 and 1 / delay");
}

void nesterov_step(std::span<float> anchor, std::span<float> momentum, std::span<const float> gradient,
                   float learning_rate, float momentum_factor) {
  OuterOptimizer{.learning_rate = learning_rate, .momentum = momentum_factor}.step(anchor, momentum, gradient, 0);
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
