#include "atoll/federation/outer_round.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "atoll/store/digest.hpp"
#include "session_environment.hpp"

namespace Atoll::federation {
namespace {

using Floats = std::vector<float>;

Floats random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Case {
  outer::MergeRule rule;
  outer::OuterMethod method;
};

constexpr std::size_t size = 50021;  // several blocks, and a rest

class OuterRoundTest : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<std::span<const float>> gradients() const { return {offers_.begin(), offers_.end()}; }

  const outer::Merger merger_{.rule = GetParam().rule, .faulty = 1};
  const outer::OuterOptimizer optimizer_{.method = GetParam().method, .delay = 2};
  const std::vector<outer::Segment> segments_{{0, 17000, outer::TensorKind::matrix},
                                              {17000, 30000, outer::TensorKind::vector},
                                              {47000, 3021, outer::TensorKind::matrix}};
  const std::vector<Floats> offers_{random_values(size, 1), random_values(size, 2), random_values(size, 3),
                                    random_values(size, 4)};
  const Floats shares_{0.4F, 0.3F, 0.2F, 0.1F};
  Floats anchor_ = random_values(size, 5);
  Floats state_ = Floats(optimizer_.slots() * size, 0.0F);
};

TEST_P(OuterRoundTest, EqualsMergeStepAndDigestOneAfterTheOther) {
  const OuterRound round(merger_, optimizer_);
  for (Version version = 0; version < 3; ++version) {
    const auto next = round.merge(gradients(), shares_, segments_, {anchor_, state_, version});
    const auto follower = round.step(*next.merged, {anchor_, state_, version});
    const auto merged = merger_.merge(gradients(), shares_, segments_);
    optimizer_.step(anchor_, state_, merged, version);

    EXPECT_EQ(*next.merged, merged);
    EXPECT_EQ(*next.anchor, anchor_);
    EXPECT_EQ(*next.state, state_);
    EXPECT_EQ(next.digest, digest_of_anchor(anchor_, state_));
    EXPECT_TRUE(next.finite);
    EXPECT_NEAR(next.merged_norm, outer::norm(merged), 1e-9 * outer::norm(merged));
    for (std::size_t k = 0; k < offers_.size(); ++k)
      EXPECT_NEAR(next.norms[k], outer::norm(offers_[k]), 1e-9 * next.norms[k]);
    EXPECT_EQ(follower.merged, nullptr);
    EXPECT_EQ(*follower.anchor, anchor_);
    EXPECT_EQ(*follower.state, state_);
    EXPECT_EQ(follower.digest, next.digest);
    EXPECT_EQ(follower.merged_norm, outer::norm(merged));
  }
}

INSTANTIATE_TEST_SUITE_P(RulesAndMethods, OuterRoundTest,
                         ::testing::Values(Case{outer::MergeRule::mean, outer::OuterMethod::nesterov},
                                           Case{outer::MergeRule::radial_directional, outer::OuterMethod::nesterov},
                                           Case{outer::MergeRule::mean, outer::OuterMethod::delayed_nesterov},
                                           Case{outer::MergeRule::trimmed_mean, outer::OuterMethod::adam},
                                           Case{outer::MergeRule::median, outer::OuterMethod::sgd},
                                           Case{outer::MergeRule::krum, outer::OuterMethod::yogi}),
                         [](const auto& info) { return "Index" + std::to_string(info.index); });

TEST(OuterRound, DigestIsThatOfTheAnchorAndEverySlot) {
  const Floats anchor{1, 2}, momentum{3, 4}, gathered{5, 6}, both{3, 4, 5, 6};
  EXPECT_EQ(digest_of_anchor(anchor, momentum), store::digest_of_values({anchor, momentum}));
  EXPECT_EQ(digest_of_anchor(anchor, both), store::digest_of_values({anchor, momentum, gathered}));
}

TEST(OuterRound, SaysWhenAResultIsNotFinite) {
  const OuterRound round({}, {.learning_rate = 1, .momentum = 0});
  const Floats anchor{1, -3e38F}, state{0, 0}, good{1, 1}, large{0, 3e38F}, broken{INFINITY, 0};
  EXPECT_TRUE(round.step(good, {anchor, state, 0}).finite);
  EXPECT_FALSE(round.step(large, {anchor, state, 0}).finite);
  EXPECT_FALSE(round.step(broken, {anchor, state, 0}).finite);
  const std::vector<std::span<const float>> offers{good, broken};
  const auto next = round.merge(offers, Floats{0.5F, 0.5F}, {}, {anchor, state, 0});
  EXPECT_FALSE(next.finite);
  EXPECT_TRUE(std::isfinite(next.norms[0]));
  EXPECT_FALSE(std::isfinite(next.norms[1]));
}

TEST(OuterRound, ResultsKeepTheirValuesWhileOthersComeAndGo) {
  std::vector<NextAnchor> kept;
  const Floats anchor(1000, 1.0F), state(1000, 0.0F);
  {
    const OuterRound round({}, {.learning_rate = 1, .momentum = 0});
    for (int i = 0; i < 20; ++i) {
      const auto next = round.step(Floats(1000, static_cast<float>(i)), {anchor, state, 0});
      if (i % 5 == 0) kept.push_back(next);
    }
  }
  for (std::size_t k = 0; k < kept.size(); ++k)
    EXPECT_EQ(*kept[k].anchor, Floats(1000, 1.0F - 5.0F * static_cast<float>(k)));
  std::thread([&] { kept.clear(); }).join();
}

}  // namespace
}  // namespace Atoll::federation
