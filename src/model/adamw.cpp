#include "adamw.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "atoll/core/error.hpp"

namespace Atoll::model {

namespace {

constexpr std::int64_t block = 1 << 15;  // values that one thread takes at a time

// Eight partial sums, so that the order is fixed and the compiler may still use vector registers.
double sum_of_squares(std::span<const float> values) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size())
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  for (; i < values.size(); ++i) lanes[i % lanes.size()] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// The constants of one step, rounded to fp32 once.
struct Coefficients {
  float scale;        // clips the gradient
  float beta1, rest1, beta2, rest2;
  float keep;         // what weight decay leaves
  float rate;         // learning rate / bias correction of the first moment
  float inverse_root_correction2;
  float epsilon;
};

void update(float* __restrict parameters, const float* __restrict gradient, float* __restrict first,
            float* __restrict second, std::int64_t count, const Coefficients& c) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * c.scale;
    first[i] = c.beta1 * first[i] + c.rest1 * g;
    second[i] = c.beta2 * second[i] + c.rest2 * (g * g);
    const float root = std::sqrt(second[i]) * c.inverse_root_correction2 + c.epsilon;
    parameters[i] = c.keep * parameters[i] - c.rate * (first[i] / root);
  }
}

void require(bool holds, const std::string& name, double value, const std::string& range) {
  if (!holds)
    throw ConfigError("AdamW cannot work with " + name + " = " + std::to_string(value), "it must be " + range,
                      "change " + name);
}

}  // namespace

double global_norm(std::span<const float> values) {
  const auto blocks = (static_cast<std::int64_t>(values.size()) + block - 1) / block;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto first = static_cast<std::size_t>(i * block);
      const auto count = std::min<std::size_t>(block, values.size() - first);
      sums[static_cast<std::size_t>(i)] = sum_of_squares(values.subspan(first, count));
    }
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

AdamW::AdamW(const AdamWConfig& config, std::size_t parameter_count)
    : config_(config), first_moment_(parameter_count), second_moment_(parameter_count) {
  require(config.beta1 >= 0 && config.beta1 < 1, "beta1", config.beta1, "in [0, 1)");
  require(config.beta2 >= 0 && config.beta2 < 1, "beta2", config.beta2, "in [0, 1)");
  require(config.epsilon > 0, "epsilon", config.epsilon, "above 0");
  require(config.weight_decay >= 0, "weight_decay", config.weight_decay, "0 or more");
  require(config.clip_norm >= 0, "clip_norm", config.clip_norm, "0 (never clip) or more");
}

void AdamW::step(std::span<float> parameters, std::span<const float> gradient,
                 const std::vector<ParameterInfo>& layout, double learning_rate, double gradient_norm) {
  ++steps_;
  const bool clip = config_.clip_norm > 0 && gradient_norm > config_.clip_norm;
  const double correction1 = 1 - std::pow(config_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(config_.beta2, static_cast<double>(steps_));
  Coefficients c{.scale = clip ? static_cast<float>(config_.clip_norm / gradient_norm) : 1.0F,
                 .beta1 = static_cast<float>(config_.beta1),
                 .rest1 = static_cast<float>(1 - config_.beta1),
                 .beta2 = static_cast<float>(config_.beta2),
                 .rest2 = static_cast<float>(1 - config_.beta2),
                 .keep = 1.0F,
                 .rate = static_cast<float>(learning_rate / correction1),
                 .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2)),
                 .epsilon = static_cast<float>(config_.epsilon)};
  for (const auto& info : layout) {
    c.keep = info.shape.size() >= 2 ? static_cast<float>(1 - learning_rate * config_.weight_decay) : 1.0F;
    at::parallel_for(0, info.count, block, [&](std::int64_t begin, std::int64_t end) {
      const auto at = info.offset + begin;
      update(parameters.data() + at, gradient.data() + at, first_moment_.data() + at, second_moment_.data() + at,
             end - begin, c);
    });
  }
}

}  // namespace Atoll::model
