#include "atoll/outer/outer_optimizer.hpp"

#include <gtest/gtest.h>

#include "atoll/outer/mixing.hpp"
#include "session_environment.hpp"

namespace Atoll::outer {
namespace {

// Bit-equality with torch::optim::SGD is shown in tests/model, behind the door of LibTorch.
TEST(Nesterov, GoesDownhill) {
  std::vector<float> anchor{1.0F}, momentum{0.0F};
  const std::vector<float> gradient{2.0F};
  nesterov_step(anchor, momentum, gradient, 0.5F, 0.0F);
  EXPECT_EQ(anchor[0], 0.0F);
  nesterov_step(anchor, momentum, gradient, 0.5F, 0.5F);
  EXPECT_EQ(momentum[0], 3.0F);
  EXPECT_EQ(anchor[0], -1.75F);
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
