#include "atoll/outer/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
