#include "atoll/outer/outer_optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "atoll/core/error.hpp"
#include "atoll/outer/mixing.hpp"
#include "session_environment.hpp"

namespace Atoll::outer {
namespace {

constexpr OuterMethod methods[] = {OuterMethod::sgd,  OuterMethod::nesterov, OuterMethod::delayed_nesterov,
                                   OuterMethod::adam, OuterMethod::yogi,     OuterMethod::adagrad};

OuterOptimizer optimizer_of(OuterMethod method) {
  return {.method = method,
          .learning_rate = 0.4F,
          .momentum = 0.8F,
          .second_momentum = 0.97F,
          .epsilon = 0.01F,
          .delay = 3,
          .delay_share = 0.1F};
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// The formulas of the papers for one value, in fp64 and as they are printed there.
struct Reference {
  OuterOptimizer o;
  double x, m = 0, v = 0;

  void step(double g, Version t) {
    const double eta = o.learning_rate, mu = o.momentum, beta2 = o.second_momentum, c = o.delay_share, n = o.delay;
    switch (o.method) {
      case OuterMethod::sgd:
        m = mu * m + g, x -= eta * m;
        return;
      case OuterMethod::nesterov:
        m = mu * m + g, x -= eta * (g + mu * m);
        return;
      case OuterMethod::delayed_nesterov:
        v += g;
        if ((t + 1) % o.delay == 0)
          m = mu * m + v / n, x -= eta * ((1 - c * n + c) * mu * m + g / n), v = 0;
        else
          x -= eta * (c * mu * m + g / n);
        return;
      case OuterMethod::adam:
        v = beta2 * v + (1 - beta2) * g * g;
        break;
      case OuterMethod::yogi:
        v -= (1 - beta2) * g * g * (v > g * g ? 1 : v < g * g ? -1 : 0);
        break;
      case OuterMethod::adagrad:
        v += g * g;
        break;
    }
    m = mu * m + (1 - mu) * g;
    x -= eta * m / (std::sqrt(v) + o.epsilon);
  }
};

class Method : public ::testing::TestWithParam<OuterMethod> {
 protected:
  const OuterOptimizer optimizer_ = optimizer_of(GetParam());
};

TEST_P(Method, FollowsItsPaperOver50Steps) {
  constexpr std::size_t count = 37;
  auto anchor = random_values(count, 1);
  std::vector<float> state(optimizer_.slots() * count, 0.0F);
  std::vector<Reference> references;
  for (const float value : anchor) references.push_back({optimizer_, value});
  for (Version version = 0; version < 50; ++version) {
    const auto gradient = random_values(count, 2 + static_cast<unsigned>(version));
    optimizer_.step(anchor, state, gradient, version);
    for (std::size_t i = 0; i < count; ++i) {
      references[i].step(gradient[i], version);
      ASSERT_NEAR(anchor[i], references[i].x, 2e-5 * (1 + std::abs(references[i].x))) << "value " << i;
      ASSERT_NEAR(state[i], references[i].m, 2e-5 * (1 + std::abs(references[i].m)));
    }
  }
}

TEST_P(Method, HasTheSameBitsHoweverTheValuesAreSplit) {
  constexpr std::size_t count = 40009;  // three blocks, and a rest
  const auto slots = optimizer_.slots();
  const auto start = random_values(count, 1);
  auto whole = start;
  std::vector<float> whole_state(slots * count, 0.25F);
  auto split = start;
  auto split_state = whole_state;
  for (Version version = 0; version < 4; ++version) {
    const auto gradient = random_values(count, 7 + static_cast<unsigned>(version));
    optimizer_.step(whole, whole_state, gradient, version);
    for (std::size_t begin = 0, size = 1; begin < count; begin += size, size = 3 * size + 1) {
      size = std::min(size, count - begin);
      std::vector<float> part_state;
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const auto part = std::span(split_state).subspan(slot * count + begin, size);
        part_state.insert(part_state.end(), part.begin(), part.end());
      }
      optimizer_.step(std::span(split).subspan(begin, size), part_state, std::span(gradient).subspan(begin, size),
                      version);
      for (std::size_t slot = 0; slot < slots; ++slot)
        std::ranges::copy(std::span(part_state).subspan(slot * size, size),
                          split_state.begin() + static_cast<std::ptrdiff_t>(slot * count + begin));
    }
  }
  EXPECT_EQ(whole, split);
  EXPECT_EQ(whole_state, split_state);
}

TEST_P(Method, GoesDownhill) {
  std::vector<float> anchor{0}, state(optimizer_.slots(), 0.0F);
  for (Version version = 0; version < 3; ++version) optimizer_.step(anchor, state, std::vector<float>{2}, version);
  EXPECT_LT(anchor[0], -0.1F);
}

INSTANTIATE_TEST_SUITE_P(OuterOptimizer, Method, ::testing::ValuesIn(methods),
                         [](const auto& info) { return "Index" + std::to_string(info.index); });

// The documented operations, one by one.
TEST(OuterOptimizer, AdamIsOneFixedSequenceOfOperations) {
  const auto o = optimizer_of(OuterMethod::adam);
  std::vector<float> anchor{0.3F}, state{0.7F, 0.2F};
  const float g = 0.1F;
  const float square = g * g;
  const float m = std::fma(o.momentum, 0.7F, (1 - o.momentum) * g);
  const float v = std::fma(o.second_momentum, 0.2F, (1 - o.second_momentum) * square);
  o.step(anchor, state, std::vector<float>{g}, 0);
  EXPECT_EQ(state, (std::vector<float>{m, v}));
  EXPECT_EQ(anchor[0], std::fma(-o.learning_rate, m / (std::sqrt(v) + o.epsilon), 0.3F));
}

TEST(Nesterov, GoesDownhill) {
  std::vector<float> anchor{1.0F}, momentum{0.0F};
  const std::vector<float> gradient{2.0F};
  nesterov_step(anchor, momentum, gradient, 0.5F, 0.0F);
  EXPECT_EQ(anchor[0], 0.0F);
  nesterov_step(anchor, momentum, gradient, 0.5F, 0.5F);
  EXPECT_EQ(momentum[0], 3.0F);
  EXPECT_EQ(anchor[0], -1.75F);
}

TEST(DelayedNesterov, WithoutDelayIsNesterovToTheBit) {
  OuterOptimizer delayed{.method = OuterMethod::delayed_nesterov, .delay = 1};
  auto expected = random_values(1000, 1), anchor = expected;
  std::vector<float> momentum(1000, 0.0F), state(2000, 0.0F);
  for (Version version = 0; version < 10; ++version) {
    const auto gradient = random_values(1000, 5 + static_cast<unsigned>(version));
    nesterov_step(expected, momentum, gradient, delayed.learning_rate, delayed.momentum);
    delayed.step(anchor, state, gradient, version);
  }
  EXPECT_EQ(anchor, expected);
}

TEST(DelayedNesterov, EqualGradientsMakeTheStepsOfTheirMeans) {
  for (const std::uint32_t delay : {1U, 2U, 3U, 4U, 8U, 16U}) {
    const OuterOptimizer delayed{.method = OuterMethod::delayed_nesterov, .delay = delay};
    std::vector<float> anchor{1}, state{0, 0}, expected{1}, momentum{0};
    Version version = 0;
    for (int round = 1; round <= 5; ++round) {
      const std::vector<float> gradient{0.3F * static_cast<float>(round)};
      for (std::uint32_t arrival = 0; arrival < delay; ++arrival) delayed.step(anchor, state, gradient, version++);
      nesterov_step(expected, momentum, gradient, delayed.learning_rate, delayed.momentum);
      EXPECT_NEAR(anchor[0], expected[0], 1e-5) << "delay " << delay << " round " << round;
      EXPECT_EQ(state[1], 0.0F);
    }
  }
}

TEST(OuterOptimizer, ConstantsOutsideTheirRangesAreRefused) {
  EXPECT_NO_THROW(OuterOptimizer{}.check());
  EXPECT_NO_THROW((OuterOptimizer{.delay = 4, .delay_share = 0.25F}.check()));
  EXPECT_THROW((OuterOptimizer{.learning_rate = 0}.check()), ConfigError);
  EXPECT_THROW((OuterOptimizer{.momentum = 1}.check()), ConfigError);
  EXPECT_THROW((OuterOptimizer{.second_momentum = -1}.check()), ConfigError);
  EXPECT_THROW((OuterOptimizer{.epsilon = 0}.check()), ConfigError);
  EXPECT_THROW((OuterOptimizer{.delay = 0}.check()), ConfigError);
  EXPECT_THROW((OuterOptimizer{.delay = 4, .delay_share = 0.3F}.check()), ConfigError);
}

TEST(PseudoGradient, IsAnchorMinusParameters) {
  EXPECT_EQ(pseudo_gradient(std::vector<float>{3, 1}, std::vector<float>{1, 4}), (std::vector<float>{2, -3}));
}

TEST(Rebase, ParametersThatWereOfferedBecomeTheAnchorExactly) {
  std::vector<float> parameters{0.1F, -7.3F, 1e-30F};
  const auto base = parameters;
  const std::vector<float> anchor{0.3F, 0.7F, 1e10F};
  rebase(parameters, anchor, base);
  EXPECT_EQ(parameters, anchor);
}

TEST(Rebase, ProgressSinceTheOfferStays) {
  std::vector<float> parameters{5};
  rebase(parameters, std::vector<float>{10}, std::vector<float>{3});
  EXPECT_EQ(parameters[0], 12);
}

TEST(Blend, GoesFromAnchorToParameters) {
  for (const float alpha : {0.0F, 0.5F, 1.0F}) {
    std::vector<float> parameters{5};
    blend(parameters, std::vector<float>{1}, alpha);
    EXPECT_EQ(parameters[0], 1 + 4 * alpha);
  }
}

}  // namespace
}  // namespace Atoll::outer
