#include "atoll/outer/outer_optimizer.hpp"

#include <cmath>
#include <string>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"

namespace Atoll::outer {
namespace {

// One block of values; `second` is the second slot of the state, for methods that have one.
struct Block {
  float* anchor;
  float* first;
  float* second;
  const float* gradient;
  std::size_t count;
};

ATOLL_KERNEL void sgd_block(Block b, float eta, float mu) {
  for (std::size_t i = 0; i < b.count; ++i) {
    const float scaled = mu * b.first[i];
    b.first[i] = scaled + b.gradient[i];
    b.anchor[i] = std::fma(-eta, b.first[i], b.anchor[i]);
  }
}

ATOLL_KERNEL void nesterov_block(Block b, float eta, float mu) {
  for (std::size_t i = 0; i < b.count; ++i) {
    const float scaled = mu * b.first[i];
    const float g = b.gradient[i];
    const float m = scaled + g;
    b.first[i] = m;
    b.anchor[i] = std::fma(-eta, std::fma(mu, m, g), b.anchor[i]);
  }
}

ATOLL_KERNEL void gathering_block(Block b, float eta, float factor, float delay) {
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    b.second[i] = b.second[i] + g;
    b.anchor[i] = std::fma(-eta, std::fma(factor, b.first[i], g / delay), b.anchor[i]);
  }
}

ATOLL_KERNEL void refreshing_block(Block b, float eta, float mu, float factor, float delay) {
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float gathered = b.second[i] + g;
    const float scaled = mu * b.first[i];
    const float m = scaled + gathered / delay;
    b.first[i] = m;
    b.anchor[i] = std::fma(-eta, std::fma(factor, m, g / delay), b.anchor[i]);
    b.second[i] = 0;
  }
}

void delayed_nesterov_block(Block b, const OuterOptimizer& o, Version version) {
  const auto delay = static_cast<float>(o.delay);
  if ((version + 1) % o.delay != 0) return gathering_block(b, o.learning_rate, o.delay_share * o.momentum, delay);
  const float spread = o.delay_share * delay;
  const float factor = ((1 - spread) + o.delay_share) * o.momentum;
  refreshing_block(b, o.learning_rate, o.momentum, factor, delay);
}

ATOLL_KERNEL void adam_block(Block b, float eta, float beta1, float beta2, float tau) {
  const float rest1 = 1 - beta1, rest2 = 1 - beta2;
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float square = g * g;
    const float m = std::fma(beta1, b.first[i], rest1 * g);
    const float v = std::fma(beta2, b.second[i], rest2 * square);
    b.first[i] = m;
    b.second[i] = v;
    b.anchor[i] = std::fma(-eta, m / (std::sqrt(v) + tau), b.anchor[i]);
  }
}

ATOLL_KERNEL void yogi_block(Block b, float eta, float beta1, float beta2, float tau) {
  const float rest1 = 1 - beta1, rest2 = 1 - beta2;
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float square = g * g;
    const float m = std::fma(beta1, b.first[i], rest1 * g);
    const float old = b.second[i];
    const float towards = old > square ? -rest2 : old < square ? rest2 : 0.0F;
    const float v = std::fma(towards, square, old);
    b.first[i] = m;
    b.second[i] = v;
    b.anchor[i] = std::fma(-eta, m / (std::sqrt(v) + tau), b.anchor[i]);
  }
}

ATOLL_KERNEL void adagrad_block(Block b, float eta, float beta1, float tau) {
  const float rest1 = 1 - beta1;
  for (std::size_t i = 0; i < b.count; ++i) {
    const float g = b.gradient[i];
    const float square = g * g;
    const float m = std::fma(beta1, b.first[i], rest1 * g);
    const float v = b.second[i] + square;
    b.first[i] = m;
    b.second[i] = v;
    b.anchor[i] = std::fma(-eta, m / (std::sqrt(v) + tau), b.anchor[i]);
  }
}

void step_block(Block b, const OuterOptimizer& o, Version version) {
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
  ATOLL_EXPECT(gradient.size() == anchor.size() && state.size() == slots() * anchor.size(),
               "a gradient and slots of the anchor's size");
  ATOLL_EXPECT(delay > 0, "a delay of no commits");
  device::for_blocks(anchor.size(), [&](std::size_t begin, std::size_t end) {
    float* second = slots() > 1 ? state.data() + anchor.size() + begin : nullptr;
    step_block({anchor.data() + begin, state.data() + begin, second, gradient.data() + begin, end - begin}, *this,
               version);
  });
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
