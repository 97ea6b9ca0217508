#include "atoll/outer/schedule.hpp"

#include <gtest/gtest.h>

#include <map>

namespace Atoll::outer {
namespace {

TEST(Schedule, EveryFragmentIsOfferedOnceInEveryRound) {
  for (const std::uint64_t fragments : {1, 2, 3, 5, 30, 41})
    for (const std::uint64_t overlap : {0, 1, 5}) {
      const Schedule schedule{.inner_steps = 30, .fragments = fragments, .overlap = overlap};
      std::map<std::uint32_t, int> offers, ends;
      for (std::uint64_t step = 31; step <= 60; ++step)
        for (std::uint32_t f = 0; f < fragments; ++f) {
          offers[f] += schedule.offers({f}, step);
          ends[f] += schedule.ends_round({f}, step);
          EXPECT_EQ(schedule.offers({f}, step), schedule.ends_round({f}, step + overlap));
        }
      for (std::uint32_t f = 0; f < fragments; ++f) EXPECT_EQ(offers[f] * ends[f], 1) << fragments << ' ' << f;
    }
}

TEST(Schedule, NothingIsOfferedBeforeTheFirstStep) {
  const Schedule schedule{.inner_steps = 4, .fragments = 4, .overlap = 1};
  EXPECT_FALSE(schedule.offers({0}, 0));
}

TEST(DynamicSteps, AreSharesOfTheFastestSiteAndAtLeastOne) {
  EXPECT_EQ(dynamic_steps(3, 4, 30), 22);
  EXPECT_EQ(dynamic_steps(0, 4, 30), 1);
  EXPECT_EQ(dynamic_steps(5, 4, 30), 30);
}

TEST(CosineSchedule, WarmsUpThenDecaysToItsFinalShare) {
  const CosineSchedule schedule{.peak = 2, .warmup_tokens = 99, .total_tokens = 299, .final_share = 0.1};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.02);
  EXPECT_DOUBLE_EQ(schedule.at(49), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(99), 2.0);
  EXPECT_DOUBLE_EQ(schedule.at(199), 2 * 0.55);
  EXPECT_DOUBLE_EQ(schedule.at(299), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(1e9), 0.2);
}

}  // namespace
}  // namespace Atoll::outer
