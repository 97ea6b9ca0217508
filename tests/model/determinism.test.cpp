#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>

#include "small_gpt.hpp"

namespace Atoll::model {
namespace {

std::vector<Batch> batches_of_step(std::uint32_t step) {
  return {random_batch(4, 2 * step), random_batch(4, 2 * step + 1)};
}

TEST(Determinism, TrainersInOneProcessDoNotInfluenceOneAnother) {
  Trainer alone(small_sizes, {}, 1);
  for (std::uint32_t step = 0; step < 10; ++step) alone.inner_step(batches_of_step(step), 1e-2, {});

  Trainer trainer(small_sizes, {}, 1), other(small_sizes, {}, 2);
  for (std::uint32_t step = 0; step < 10; ++step) {
    trainer.inner_step(batches_of_step(step), 1e-2, {});
    other.inner_step(batches_of_step(step + 100), 1e-3, {});
    (void)other.sample(std::vector{1, 2, 3}, 5, 1.0, step);
  }
  EXPECT_EQ(copy_of(trainer.parameters()), copy_of(alone.parameters()));
  EXPECT_EQ(copy_of(trainer.second_moment()), copy_of(alone.second_moment()));
}

TEST(Determinism, ResumedTrainerGoesOnWithTheSameBits) {
  Trainer trainer(small_sizes, {}, 1);
  for (std::uint32_t step = 0; step < 5; ++step) trainer.inner_step(batches_of_step(step), 1e-2, {});

  Trainer resumed(small_sizes, {}, 99);
  std::ranges::copy(trainer.parameters(), resumed.parameters().begin());
  std::ranges::copy(trainer.first_moment(), resumed.first_moment().begin());
  std::ranges::copy(trainer.second_moment(), resumed.second_moment().begin());
  resumed.resume_optimizer(trainer.optimizer_steps());
  for (std::uint32_t step = 5; step < 10; ++step) {
    trainer.inner_step(batches_of_step(step), 1e-2, {});
    resumed.inner_step(batches_of_step(step), 1e-2, {});
  }
  EXPECT_EQ(copy_of(trainer.parameters()), copy_of(resumed.parameters()));
}

// Two ranks with different batches: each gradient is computed first (and the step refused), then both get the mean.
TEST(Determinism, RanksWithTheSameAveragedGradientStayEqual) {
  Trainer ranks[2] = {{small_sizes, {}, 1}, {small_sizes, {}, 1}};
  for (std::uint32_t step = 0; step < 5; ++step) {
    std::vector<float> gradients[2];
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      ranks[rank].inner_step(batches_of_step(2 * step + rank), 1e-2, [&](std::span<float> gradient) {
        gradients[rank] = copy_of(gradient);
        gradient[0] = std::numeric_limits<float>::quiet_NaN();
      });
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      ranks[rank].inner_step(batches_of_step(2 * step + rank), 1e-2, [&](std::span<float> gradient) {
        EXPECT_EQ(copy_of(gradient), gradients[rank]);
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = 0.5F * (gradients[0][i] + gradients[1][i]);
      });
    EXPECT_EQ(copy_of(ranks[0].parameters()), copy_of(ranks[1].parameters()));
  }
}

TEST(Determinism, MovedTrainerGoesOn) {
  Trainer trainer(small_sizes, {}, 1), same(small_sizes, {}, 1);
  trainer.inner_step(batches_of_step(0), 1e-2, {});
  same.inner_step(batches_of_step(0), 1e-2, {});
  Trainer moved(std::move(trainer));
  moved.inner_step(batches_of_step(1), 1e-2, {});
  same.inner_step(batches_of_step(1), 1e-2, {});
  EXPECT_EQ(copy_of(moved.parameters()), copy_of(same.parameters()));
}

// The island decides what a signal means; a library that takes SIGUSR1 or SIGTERM would break its requeue.
TEST(Signals, AreLeftAlone) {
  Trainer trainer(small_sizes, {}, 1);
  trainer.inner_step(batches_of_step(0), 1e-2, {});
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE}) {
    struct sigaction action {};
    ASSERT_EQ(::sigaction(number, nullptr, &action), 0);
    EXPECT_TRUE(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) << number;
  }
}

}  // namespace
}  // namespace Atoll::model
