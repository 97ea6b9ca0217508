#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "atoll/device/session.hpp"
#include "atoll/outer/merge.hpp"
#include "session_environment.hpp"

namespace Atoll::outer {
namespace {

constexpr MergeRule rules[] = {MergeRule::mean, MergeRule::radial_directional, MergeRule::trimmed_mean,
                               MergeRule::median, MergeRule::krum};
constexpr std::size_t size = 3 * device::block_values / 2 + 5;

using Values = std::vector<float>;

std::vector<Values> random_offers(std::size_t count, std::size_t values = size, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<Values> offers(count, Values(values));
  for (auto& offer : offers)
    for (float& value : offer) value = normal(random);
  return offers;
}

Values merged(const Merger& merger, const std::vector<Values>& offers, const Values& weights,
              const std::vector<Segment>& segments) {
  const std::vector<std::span<const float>> gradients(offers.begin(), offers.end());
  return merger.merge(gradients, weights, segments);
}

std::vector<Segment> one_matrix(std::size_t values = size) {
  return {{0, values, TensorKind::matrix}};
}

class Rule : public ::testing::TestWithParam<MergeRule> {
 protected:
  const Merger merger_{.rule = GetParam(), .faulty = 1};
};

TEST_P(Rule, OfOneOfferIsThatOffer) {
  const auto offers = random_offers(1);
  EXPECT_EQ(merged(merger_, offers, {1.0F}, one_matrix()), offers[0]);
}

TEST_P(Rule, NormsComeWithTheMerge) {
  for (const std::size_t count : {1U, 2U, 4U, 6U}) {
    auto offers = random_offers(count);
    const std::vector<std::span<const float>> gradients(offers.begin(), offers.end());
    Values weights(count, 1.0F / static_cast<float>(count));
    if (count > 1) weights[1] = 0;
    const auto segments = one_matrix(9001);
    const auto [merged_norm, norms] = merger_.merge_blocks(gradients, weights, segments, [](auto) {});
    EXPECT_NEAR(merged_norm, norm(merged(merger_, offers, weights, segments)), 1e-9 * merged_norm);
    for (std::size_t k = 0; k < count; ++k)
      EXPECT_NEAR(norms[k], weights[k] > 0 ? norm(offers[k]) : 0.0, 1e-9 * norm(offers[k])) << count;
    if (merger_.rule == MergeRule::mean) {
      EXPECT_EQ(norms[0], norm(offers[0]));
    }
    offers[0][12345] = NAN;
    EXPECT_FALSE(std::isfinite(merger_.merge_blocks(gradients, weights, segments, [](auto) {}).gradients[0]));
  }
}

TEST_P(Rule, OfEqualOffersIsOneOfThem) {
  const auto offer = random_offers(1)[0];
  const auto result = merged(merger_, {offer, offer, offer, offer, offer}, Values(5, 0.2F), one_matrix());
  for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(result[i], offer[i], 2e-6 * (1 + std::abs(offer[i])));
}

TEST_P(Rule, OffersOfWeightZeroTakeNoPart) {
  auto offers = random_offers(5);
  const auto without = merged(merger_, {offers[0], offers[2], offers[4]}, {0.5F, 0.25F, 0.25F}, one_matrix());
  std::ranges::fill(offers[1], NAN);
  std::ranges::fill(offers[3], 1e30F);
  EXPECT_EQ(merged(merger_, offers, {0.5F, 0, 0.25F, 0, 0.25F}, one_matrix()), without);
}

TEST_P(Rule, DoesNotDependOnTheOrderOfTheOffers) {
  auto offers = random_offers(5);
  const auto result = merged(merger_, offers, Values(5, 0.2F), one_matrix());
  std::ranges::rotate(offers, offers.begin() + 2);
  const auto turned = merged(merger_, offers, Values(5, 0.2F), one_matrix());
  for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(turned[i], result[i], 2e-6);
}

TEST_P(Rule, BlocksAreThoseOfTheWhole) {
  const auto offers = random_offers(4);
  const std::vector<std::span<const float>> gradients(offers.begin(), offers.end());
  const std::vector<Segment> segments{{0, 7, TensorKind::vector}, {7, 20000, TensorKind::matrix}};
  Values joined;
  merger_.merge_blocks(gradients, Values(4, 0.25F), segments, [&](std::span<const float> block) {
    EXPECT_LE(block.size(), device::block_values);
    joined.insert(joined.end(), block.begin(), block.end());
  });
  EXPECT_EQ(joined, merged(merger_, offers, Values(4, 0.25F), segments));
}

INSTANTIATE_TEST_SUITE_P(Merger, Rule, ::testing::ValuesIn(rules),
                         [](const auto& info) { return "Index" + std::to_string(info.index); });

// Offers of independent directions: what RDA is for (Decoupled DiLoCo: M = 16 loses with the plain mean).
TEST(RadialDirectional, NormStaysWhereThatOfTheMeanFallsWithTheRootOfM) {
  for (const std::size_t m : {1U, 2U, 4U, 8U, 16U}) {
    const auto offers = random_offers(m, 20000);
    const Values weights(m, 1.0F / static_cast<float>(m));
    double mean_norm = 0;
    for (const auto& offer : offers) mean_norm += norm(offer) / static_cast<double>(m);
    const auto radial = merged({.rule = MergeRule::radial_directional}, offers, weights, one_matrix(20000));
    EXPECT_NEAR(norm(radial) / mean_norm, 1.0, 1e-5) << m;
    const auto mean = merged({}, offers, weights, {});
    EXPECT_NEAR(norm(mean) / mean_norm * std::sqrt(static_cast<double>(m)), 1.0, 0.05) << m;
  }
}

TEST(RadialDirectional, IsTakenPerMatrixAndTheRestIsTheMean) {
  const auto offers = random_offers(3, 40);
  const Values weights{0.5F, 0.3F, 0.2F};
  const std::vector<Segment> segments{{0, 10, TensorKind::embedding},
                                      {10, 12, TensorKind::matrix},
                                      {22, 8, TensorKind::vector},
                                      {30, 10, TensorKind::matrix}};
  const Merger radial{.rule = MergeRule::radial_directional};
  const auto result = merged(radial, offers, weights, segments);
  const auto mean = merged({}, offers, weights, {});
  for (const auto& [offset, count, kind] : segments) {
    std::vector<Values> parts;
    for (const auto& offer : offers) parts.emplace_back(offer.begin() + offset, offer.begin() + offset + count);
    const auto expected = kind == TensorKind::matrix ? merged(radial, parts, weights, one_matrix(count))
                                                     : Values(mean.begin() + offset, mean.begin() + offset + count);
    EXPECT_EQ(Values(result.begin() + offset, result.begin() + offset + count), expected) << offset;
  }
}

TEST(RadialDirectional, DirectionsThatCancelFallBackToTheMean) {
  const Merger radial{.rule = MergeRule::radial_directional};
  EXPECT_EQ(merged(radial, {{3, 0}, {-1, 0}}, {0.5F, 0.5F}, one_matrix(2)), (Values{1, 0}));
  const auto offer = random_offers(1, 5000)[0];
  auto opposite = offer;
  for (float& value : opposite) value *= -1.1F;
  const auto result = merged(radial, {offer, opposite}, {0.5F, 0.5F}, one_matrix(5000));
  EXPECT_NEAR(norm(result) / norm(offer), 0.05, 1e-5);
}

TEST(RadialDirectional, TinyAndZeroOffersGiveNoDirectionButCount) {
  const Merger radial{.rule = MergeRule::radial_directional};
  const auto result = merged(radial, {{0, 0}, {4, 0}, {1e-44F, 1e-44F}}, {0.5F, 0.25F, 0.25F}, one_matrix(2));
  EXPECT_EQ(result, (Values{1, 0}));
}

TEST(RadialDirectional, SharesThatSumToLessDampTheResult) {
  const auto offers = random_offers(3, 1000);
  const Merger radial{.rule = MergeRule::radial_directional};
  auto half = merged(radial, offers, {0.5F, 0.25F, 0.25F}, one_matrix(1000));
  for (float& value : half) value *= 0.5F;
  EXPECT_EQ(merged(radial, offers, {0.25F, 0.125F, 0.125F}, one_matrix(1000)), half);
  EXPECT_EQ(merged(radial, {{4, -8}}, {0.5F}, one_matrix(2)), (Values{2, -4}));
}

// f offers far away, whatever they claim to weigh, do not pull the result out of what the others span.
TEST(RobustRules, FaultyOffersDoNotLead) {
  for (const auto rule : {MergeRule::trimmed_mean, MergeRule::median, MergeRule::krum}) {
    auto offers = random_offers(7, 5000);
    std::ranges::fill(offers[1], 1e20F);
    std::ranges::transform(offers[4], offers[4].begin(), [](float value) { return -1000 * value; });
    const auto result =
        merged({.rule = rule, .faulty = 2}, offers, {0.01F, 0.9F, 0.01F, 0.01F, 0.05F, 0.01F, 0.01F}, {});
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto honest = {offers[0][i], offers[2][i], offers[3][i], offers[5][i], offers[6][i]};
      ASSERT_GE(result[i], std::ranges::min(honest));
      ASSERT_LE(result[i], std::ranges::max(honest));
    }
  }
}

TEST(RobustRules, ValuesAreSortedOneByOne) {
  const std::vector<Values> offers{{1, 50, 3}, {4, 20, -7}, {2, 10, 5}, {3, 40, 4}};
  const Values weights(4, 0.25F);
  EXPECT_EQ(merged({MergeRule::median}, offers, weights, {}), (Values{2, 20, 3}));
  EXPECT_EQ(merged({MergeRule::trimmed_mean, 1}, offers, weights, {}), (Values{2.5F, 30, 3.5F}));
  EXPECT_EQ(merged({MergeRule::trimmed_mean, 0}, offers, weights, {}), (Values{2.5F, 30, 1.25F}));
}

TEST(RobustRules, MoreFaultyOffersThanCanBeLeftOutLeaveTheMiddle) {
  const std::vector<Values> offers{{1}, {4}, {2}, {30}};
  EXPECT_EQ(merged({MergeRule::trimmed_mean, 9}, offers, Values(4, 0.25F), {}), Values{3});
  EXPECT_EQ(merged({MergeRule::krum, 9}, offers, Values(4, 0.25F), {}), Values{1});
}

}  // namespace
}  // namespace Atoll::outer
