// The outer step against torch::optim::SGD, to the bit. It lives here, where LibTorch is known.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "atoll/device/session.hpp"
#include "atoll/outer/outer_optimizer.hpp"

namespace Atoll::outer {
namespace {

std::vector<float> random_values(std::size_t count, std::mt19937& random, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::size_t values_that_differ(const at::Tensor& expected, const std::vector<float>& values) {
  std::size_t differing = 0;
  const auto* reference = expected.data_ptr<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    differing += std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(reference[i]);
  return differing;
}

class OuterStep : public testing::TestWithParam<std::tuple<OuterMethod, float, float, std::size_t>> {
 protected:
  static void SetUpTestSuite() { session.emplace(); }
  static void TearDownTestSuite() { session.reset(); }
  inline static std::optional<device::Session> session;
};

TEST_P(OuterStep, EqualsTorchToTheBitOver100Steps) {
  const auto [method, learning_rate, momentum_factor, count] = GetParam();
  const OuterOptimizer ours{.method = method, .learning_rate = learning_rate, .momentum = momentum_factor};
  std::mt19937 random(1);
  auto anchor = random_values(count, random, 1);
  std::vector<float> momentum(count);

  const auto reference = at::from_blob(anchor.data(), {std::ssize(anchor)}, at::kFloat).clone();
  reference.requires_grad_(true);
  torch::optim::SGD optimizer({reference}, torch::optim::SGDOptions(learning_rate)
                                               .momentum(momentum_factor)
                                               .nesterov(method == OuterMethod::nesterov && momentum_factor > 0));
  for (Version step = 0; step < 100; ++step) {
    auto gradient = random_values(count, random, 0.01F);
    reference.mutable_grad() = at::from_blob(gradient.data(), {std::ssize(gradient)}, at::kFloat).clone();
    optimizer.step();
    ours.step(anchor, momentum, gradient, step);
    ASSERT_EQ(values_that_differ(reference, anchor), 0U) << "after step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Constants, OuterStep,
                         testing::Combine(testing::Values(OuterMethod::nesterov, OuterMethod::sgd),
                                          testing::Values(0.7F, 1.0F, 0.1F), testing::Values(0.9F, 0.5F, 0.0F),
                                          testing::Values<std::size_t>(1003, 1, 64)));

}  // namespace
}  // namespace Atoll::outer
