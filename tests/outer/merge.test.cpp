#include "atoll/outer/merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "atoll/device/session.hpp"
#include "session_environment.hpp"

namespace Atoll::outer {
namespace {

TEST(Merge, MeanIsOneFixedSequenceOfFusedOperations) {
  const std::vector<float> a(40000, 0.1F), b(40000, 0.3F);
  const std::vector<std::span<const float>> gradients{a, b};
  const std::vector<float> weights{0.25F, 0.75F};
  const auto mean = weighted_mean(gradients, weights);
  const float expected = std::fma(0.75F, 0.3F, std::fma(0.25F, 0.1F, 0.0F));
  EXPECT_EQ(mean, std::vector<float>(40000, expected));
}

TEST(Merge, WeightsAreNormalised) {
  const std::vector<double> weights{100, 50, 0};
  EXPECT_EQ(normalised(weights), (std::vector<float>{2.0F / 3, 1.0F / 3, 0}));
}

TEST(Merge, NormIsOneFixedSumInFp64) {
  std::vector<float> values(2 * device::block_values + 11);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  double sum = 0, exact = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += device::block_values) {
    double lanes[16] = {};
    for (std::size_t i = begin; i < std::min(begin + device::block_values, values.size()); ++i)
      lanes[i % 16] += double{values[i]} * double{values[i]};
    for (std::size_t half = 8; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    sum += lanes[0];
  }
  for (const float value : values) exact += double{value} * double{value};
  EXPECT_EQ(norm(values), std::sqrt(sum));
  EXPECT_NEAR(norm(values), std::sqrt(exact), 1e-9);
  EXPECT_EQ(norm({}), 0);
}

TEST(Merge, NormIsFiniteExactlyWhenAllValuesAre) {
  std::vector<float> values(100000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(norm(values)));
  values[77777] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(norm(values)));
  values[77777] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(norm(values)));
}

TEST(Merge, ValuesThatAreNotFiniteAreFound) {
  std::vector<float> values(5, 1.0F);
  EXPECT_TRUE(all_finite(values));
  values[3] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(all_finite(values));
  values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(all_finite(values));
}

}  // namespace
}  // namespace Atoll::outer
