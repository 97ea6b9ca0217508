#include "gpt.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "initialisation.hpp"
#include "layout.hpp"
#include "small_gpt.hpp"

namespace Atoll::model {
namespace {

class GptTest : public testing::Test {
 protected:
  std::vector<ParameterInfo> layout_ = parameter_layout(small_sizes);
  at::Tensor flat_ = at::empty({static_cast<std::int64_t>(parameter_count(layout_))}, at::kFloat);
  Gpt network_{small_sizes, layout_, flat_};
  at::Tensor tokens_;

  void SetUp() override {
    initialise({flat_.data_ptr<float>(), parameter_count(layout_)}, layout_, small_sizes.layers, 1);
    flat_.mul_(5);  // far from the symmetric start, so that every part of the network counts
    const auto batch = random_batch(3, 1);
    const std::vector<std::int64_t> ids(batch.tokens.begin(), batch.tokens.end());
    tokens_ = at::tensor(ids).view({3, small_sizes.context + 1});
  }
};

// No position sees a later token: the loss of a batch is the mean over its prefixes, each computed alone.
TEST_F(GptTest, LossIsTheMeanOverPrefixes) {
  double sum = 0;
  for (std::int64_t row = 0; row < 3; ++row)
    for (std::int64_t time = 1; time <= small_sizes.context; ++time) {
      const auto logits = network_.next_logits(tokens_.narrow(0, row, 1).narrow(1, 0, time));
      sum -= logits.log_softmax(0)[tokens_[row][time].item<std::int64_t>()].item<double>();
    }
  EXPECT_NEAR(network_.loss(tokens_).item<double>(), sum / (3.0 * small_sizes.context), 1e-4);
}

// The gradient that is collected in the flat vector is the slope of the loss along itself.
TEST_F(GptTest, GradientIsTheSlopeOfTheLoss) {
  const auto gradient = at::zeros_like(flat_);
  network_.collect_gradient(gradient);
  network_.loss(tokens_).backward();
  const double norm = gradient.norm().item<double>();

  const double step = 1e-3;
  const auto loss_at = [&](double distance) {
    const auto moved = (flat_ + gradient * (distance / norm)).detach();
    return Gpt(small_sizes, layout_, moved).loss(tokens_).item<double>();
  };
  EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), norm, 0.02 * norm);
}

TEST_F(GptTest, EveryParameterHasAGradient) {
  const auto gradient = at::zeros_like(flat_);
  network_.collect_gradient(gradient);
  network_.loss(tokens_).backward();
  for (const auto& info : layout_)
    EXPECT_GT(gradient.narrow(0, info.offset, info.count).abs().max().item<float>(), 0) << info.name;
}

}  // namespace
}  // namespace Atoll::model
