#include "atoll/model/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "atoll/core/error.hpp"
#include "small_gpt.hpp"

namespace Atoll::model {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Trainer small_trainer(std::uint64_t seed = 1) { return {small_sizes, AdamWConfig{}, seed}; }

double standard_deviation(std::span<const float> values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / count - sum / count * sum / count);
}

TEST(Layout, CoversTheFlatVectorWithoutGapsAndNamesAreUnique) {
  const auto trainer = small_trainer();
  std::set<std::string> names;
  std::int64_t offset = 0;
  for (const auto& info : trainer.layout()) {
    EXPECT_EQ(info.offset, offset) << info.name;
    std::int64_t count = 1;
    for (const auto extent : info.shape) count *= extent;
    EXPECT_EQ(info.count, count) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.layer, info.name.starts_with("layers.") ? info.name[7] - '0' : -1) << info.name;
    offset += info.count;
  }
  EXPECT_EQ(static_cast<std::size_t>(offset), trainer.parameter_count());
  EXPECT_TRUE(names.contains("embedding.tokens"));
  EXPECT_TRUE(names.contains("layers.1.attention.qkv.weight"));
}

TEST(Initialisation, IsEqualForEqualSeedsOnly) {
  auto trainer = small_trainer(7), same = small_trainer(7), other = small_trainer(8);
  auto high_bits = small_trainer(7 + (std::uint64_t{1} << 32));
  EXPECT_EQ(copy_of(trainer.parameters()), copy_of(same.parameters()));
  EXPECT_NE(copy_of(trainer.parameters()), copy_of(other.parameters()));
  EXPECT_NE(copy_of(trainer.parameters()), copy_of(high_bits.parameters()));
}

TEST(Initialisation, IsThatOfGpt2) {
  const GptConfig sizes{.vocabulary = 256, .context = 128, .layers = 8, .heads = 4, .width = 128};
  Trainer trainer(sizes, AdamWConfig{}, 3);
  for (const auto& info : trainer.layout()) {
    const auto values = trainer.parameters().subspan(static_cast<std::size_t>(info.offset),
                                                     static_cast<std::size_t>(info.count));
    const bool residual = info.name.ends_with("projection.weight") || info.name.ends_with("contract.weight");
    if (info.shape.size() == 2)
      EXPECT_NEAR(standard_deviation(values), residual ? 0.02 / 4 : 0.02, residual ? 2e-4 : 4e-4) << info.name;
    else
      EXPECT_THAT(values, testing::Each(info.name.ends_with("norm.weight") ? 1.0F : 0.0F)) << info.name;
  }
}

TEST(Trainer, FirstLossIsThatOfGuessing) {
  auto trainer = small_trainer();
  const auto report = trainer.inner_step(std::vector{random_batch(8, 1)}, 1e-3, {});
  EXPECT_NEAR(report.loss, std::log(50.0), 0.1);
  EXPECT_GT(report.gradient_norm, 0);
  EXPECT_FALSE(report.skipped);
}

TEST(Trainer, OverfitsATinyBatch) {
  auto trainer = small_trainer();
  const std::vector batches{random_batch(2, 1)};
  double last = 0;
  for (int step = 0; step < 150; ++step) last = trainer.inner_step(batches, 1e-2, {}).loss;
  EXPECT_LT(last, 0.05);
  EXPECT_EQ(trainer.optimizer_steps(), 150U);
}

TEST(Trainer, ParametersAreTheNetwork) {
  auto trainer = small_trainer();
  std::ranges::fill(trainer.parameters(), 0.0F);
  EXPECT_NEAR(trainer.loss(std::vector{random_batch(4, 1)}), std::log(50.0), 1e-5);
}

TEST(Trainer, MicroBatchesEqualOneBatch) {
  auto whole = small_trainer(), halves = small_trainer();
  const auto batch = random_batch(8, 1);
  const auto middle = batch.tokens.begin() + std::ssize(batch.tokens) / 4;
  const std::vector parts{Batch{{batch.tokens.begin(), middle}, 2}, Batch{{middle, batch.tokens.end()}, 6}};

  std::vector<float> gradient, gradient_of_parts;
  const auto first = whole.inner_step(std::vector{batch}, 1e-3, [&](std::span<float> g) { gradient = copy_of(g); });
  const auto second = halves.inner_step(parts, 1e-3, [&](std::span<float> g) { gradient_of_parts = copy_of(g); });
  EXPECT_NEAR(first.loss, second.loss, 1e-6);
  EXPECT_THAT(gradient_of_parts, testing::Pointwise(testing::FloatNear(1e-6F), gradient));
}

TEST(Trainer, GradientAndLossTravelInOneSpan) {
  auto trainer = small_trainer();
  const auto report = trainer.inner_step(std::vector{random_batch(2, 1)}, 1e-3, [&](std::span<float> span) {
    ASSERT_EQ(span.size(), trainer.parameter_count() + 1);
    EXPECT_NEAR(span.back(), std::log(50.0), 0.2);
    span.back() = 2.5F;
  });
  EXPECT_EQ(report.loss, 2.5);
}

TEST(Trainer, SkipsAGradientThatIsNotFinite) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto trainer = small_trainer();
    const std::vector batches{random_batch(2, 1)};
    trainer.inner_step(batches, 1e-3, {});
    const auto parameters = copy_of(trainer.parameters());
    const auto first = copy_of(trainer.first_moment()), second = copy_of(trainer.second_moment());

    const auto report = trainer.inner_step(batches, 1e-3, [&](std::span<float> g) { g[g.size() / 2] = poison; });
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(trainer.optimizer_steps(), 1U);
    EXPECT_EQ(copy_of(trainer.parameters()), parameters);
    EXPECT_EQ(copy_of(trainer.first_moment()), first);
    EXPECT_EQ(copy_of(trainer.second_moment()), second);
    EXPECT_FALSE(trainer.inner_step(batches, 1e-3, {}).skipped);
  }
}

TEST(Trainer, LossOfOtherParametersLeavesItsOwn) {
  auto trainer = small_trainer(1), other = small_trainer(2);
  const std::vector batches{random_batch(3, 1), random_batch(5, 2)};
  for (int step = 0; step < 5; ++step) other.inner_step(batches, 1e-2, {});
  const auto own = copy_of(trainer.parameters());
  const double own_loss = trainer.loss(batches);

  EXPECT_EQ(trainer.loss(batches, other.parameters()), other.loss(batches));
  EXPECT_EQ(copy_of(trainer.parameters()), own);
  EXPECT_EQ(trainer.loss(batches), own_loss);
}

TEST(Trainer, RefusesATokenBeyondTheVocabulary) {
  auto trainer = small_trainer();
  for (const std::int32_t id : {50, -1}) {
    std::vector batches{random_batch(2, 1)};
    batches[0].tokens[20] = id;
    const auto message = ThrowsMessage<Error>(HasSubstr("token id " + std::to_string(id) + " is beyond"));
    EXPECT_THAT([&] { trainer.inner_step(batches, 1e-3, {}); }, message);
    EXPECT_THAT([&] { return trainer.loss(batches); }, message);
    EXPECT_THAT([&] { return trainer.sample(std::vector{id}, 1, 1, 1); }, message);
  }
}

TEST(Trainer, RefusesWhatMakesNoNetworkOrOptimizer) {
  EXPECT_THROW(Trainer({.heads = 3, .width = 32}, {}, 1), ConfigError);
  EXPECT_THROW(Trainer({.layers = 0}, {}, 1), ConfigError);
  EXPECT_THROW(Trainer(small_sizes, {.beta2 = 1}, 1), ConfigError);
  EXPECT_THROW(Trainer(small_sizes, {.clip_norm = -1}, 1), ConfigError);
}

TEST(Sample, IsRepeatableAndInRange) {
  auto trainer = small_trainer();
  const std::vector<std::int32_t> prompt{1, 2, 3};
  const auto tokens = trainer.sample(prompt, 40, 1.0, 5);  // longer than the context
  EXPECT_EQ(tokens.size(), 40U);
  EXPECT_THAT(tokens, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(50))));
  EXPECT_EQ(trainer.sample(prompt, 40, 1.0, 5), tokens);
  EXPECT_NE(trainer.sample(prompt, 40, 1.0, 6), tokens);
  EXPECT_THROW((void)trainer.sample({}, 1, 1.0, 5), Error);
}

TEST(Sample, ContinuesALearntSequence) {
  auto trainer = small_trainer();
  const auto batch = random_batch(1, 1);
  for (int step = 0; step < 100; ++step) trainer.inner_step(std::vector{batch}, 1e-2, {});
  const std::span<const std::int32_t> sequence = batch.tokens;
  const auto tokens = trainer.sample(sequence.first(6), 11, 0, 1);
  EXPECT_THAT(tokens, testing::ElementsAreArray(sequence.subspan(6)));

  auto blank = small_trainer(2);
  EXPECT_EQ(blank.sample(sequence.first(6), 11, 0, 1, trainer.parameters()), tokens);
}

}  // namespace
}  // namespace Atoll::model
