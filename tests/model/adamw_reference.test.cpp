// AdamW against torch::optim::AdamW: both take the same random gradients, which AverageInPlace puts in place of the
// real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "small_gpt.hpp"

namespace Atoll::model {
namespace {

std::vector<float> random_gradient(std::size_t count, std::uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> gradient(count);
  for (float& value : gradient) value = normal(random);
  return gradient;
}

// The trainer's parameters as separate tensors, matrices in a group that decays, the rest in one that does not.
struct Reference {
  std::vector<at::Tensor> tensors;
  std::unique_ptr<torch::optim::AdamW> optimizer;

  Reference(Trainer& trainer, const AdamWConfig& config) {
    std::vector<at::Tensor> matrices, vectors;
    for (const auto& info : trainer.layout()) {
      auto* values = trainer.parameters().data() + info.offset;
      tensors.push_back(torch::from_blob(values, info.shape, at::kFloat).clone().requires_grad_(true));
      (info.shape.size() >= 2 ? matrices : vectors).push_back(tensors.back());
    }
    const auto options = [&](double decay) {
      return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(1e-3)
                                                              .betas({config.beta1, config.beta2})
                                                              .eps(config.epsilon)
                                                              .weight_decay(decay));
    };
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(matrices, options(config.weight_decay));
    groups.emplace_back(vectors, options(0));
    optimizer = std::make_unique<torch::optim::AdamW>(std::move(groups));
  }

  double step(const Trainer& trainer, std::vector<float> gradient, double learning_rate, double clip_norm) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& info = trainer.layout()[i];
      tensors[i].mutable_grad() = torch::from_blob(gradient.data() + info.offset, info.shape, at::kFloat).clone();
    }
    const double norm = torch::nn::utils::clip_grad_norm_(tensors, clip_norm);
    for (auto& group : optimizer->param_groups()) group.options().set_lr(learning_rate);
    optimizer->step();
    return norm;
  }
};

void compare(const AdamWConfig& config, float gradient_scale) {
  Trainer trainer(small_sizes, config, 1);
  Reference reference(trainer, config);
  const std::vector batches{random_batch(1, 1)};
  for (std::uint32_t step = 0; step < 20; ++step) {
    const double learning_rate = 1e-3 * (1 + step % 3);
    const auto gradient = random_gradient(trainer.parameter_count(), step, gradient_scale);
    const auto report = trainer.inner_step(batches, learning_rate, [&](std::span<float> span) {
      std::ranges::copy(gradient, span.begin());
    });
    const double norm = reference.step(trainer, gradient, learning_rate, config.clip_norm > 0 ? config.clip_norm : 1e9);
    EXPECT_NEAR(report.gradient_norm, norm, 1e-5 * norm);
  }
  for (std::size_t i = 0; i < reference.tensors.size(); ++i) {
    const auto& info = trainer.layout()[i];
    const auto own = trainer.parameters().subspan(static_cast<std::size_t>(info.offset), reference.tensors[i].numel());
    const std::span<float> expected(reference.tensors[i].data_ptr<float>(), own.size());
    EXPECT_THAT(own, testing::Pointwise(testing::FloatNear(1e-6F), expected)) << info.name;
  }
}

TEST(AdamWReference, EqualsTorchWithDecayOnMatricesOnly) { compare({.weight_decay = 0.1, .clip_norm = 0}, 0.01F); }
TEST(AdamWReference, EqualsTorchWithClipping) { compare({.weight_decay = 0.5, .clip_norm = 1}, 0.5F); }
TEST(AdamWReference, EqualsTorchWithOtherConstants) {
  compare({.beta1 = 0.8, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0, .clip_norm = 2}, 0.001F);
}

}  // namespace
}  // namespace Atoll::model
