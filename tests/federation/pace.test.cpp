#include "atoll/federation/pace.hpp"

#include <gtest/gtest.h>

#include "atoll/federation/adoption_queue.hpp"

namespace Atoll::federation {
namespace {

TEST(Grace, IsTheShareOfTheSlackThatTheOverlapLeaves) {
  const GraceRule rule{.longest = Seconds{10}, .slack_share = 0.5, .overlap = 4};
  EXPECT_EQ(grace_window(rule, Seconds{2}, Seconds{1}, Seconds{3}), Seconds{2});  // 0.5 (4 x 2 - 1 - 3)
}

TEST(Grace, IsNeverLongerThanAllowedAndNeverNegative) {
  const GraceRule rule{.longest = Seconds{1}, .slack_share = 1, .overlap = 4};
  EXPECT_EQ(grace_window(rule, Seconds{2}, {}, {}), Seconds{1});
  EXPECT_EQ(grace_window(rule, Seconds{2}, Seconds{5}, Seconds{30}), Seconds{0});
}

TEST(Grace, IsTheLongestAllowedWhereItIsFixedOrNothingIsKnown) {
  EXPECT_EQ(grace_window({.longest = Seconds{3}, .slack_share = 0, .overlap = 9}, Seconds{1}, {}, {}), Seconds{3});
  EXPECT_EQ(grace_window({.longest = Seconds{3}, .slack_share = 1, .overlap = 9}, {}, {}, {}), Seconds{3});
}

TEST(StepClock, LearnsTheStepTimeAndHardlyNoticesAPause) {
  StepClock clock;
  double now = 100;
  for (int step = 0; step < 20; ++step) clock.stepped(1, Seconds{now += 0.5});
  EXPECT_DOUBLE_EQ(clock.step()->count(), 0.5);
  clock.stepped(1, Seconds{now += 60});
  EXPECT_LT(clock.step()->count(), 1);
  clock.stepped(4, Seconds{now += 2});  // four at once
  EXPECT_LT(clock.step()->count(), 0.9);
}

Adoption answer(std::uint64_t holds) {
  const auto values = std::make_shared<const std::vector<float>>(1, 0.0F);
  return {{0}, 1, values, values, holds, holds, false};
}

TEST(AdoptionQueue, ACommitThatAnswersAnOfferIsTakenUpTauStepsAfterIt) {
  AdoptionQueue queue(1, 3);
  queue.offered({0}, 10, 7);
  queue.add(answer(7));
  EXPECT_TRUE(queue.due(11).empty());
  EXPECT_TRUE(queue.due(12).empty());
  EXPECT_EQ(queue.due(13).size(), 1);
  EXPECT_TRUE(queue.due(14).empty());
}

TEST(AdoptionQueue, ALateCommitAndOneOfOthersAreTakenUpAtOnce) {
  AdoptionQueue queue(1, 3);
  queue.offered({0}, 10, 7);
  queue.add(answer(5));  // holds what was offered before
  EXPECT_EQ(queue.due(11).size(), 1);
  queue.add(answer(7));
  EXPECT_EQ(queue.due(20).size(), 1);
}

TEST(AdoptionQueue, WhatStandsBeforeAnAnswerDoesNotWaitForIt) {
  AdoptionQueue queue(1, 3);
  queue.offered({0}, 10, 7);
  auto start = answer(5);
  start.is_start = true;
  queue.add(start);
  queue.add(answer(7));
  EXPECT_EQ(queue.due(10).size(), 1);
  EXPECT_EQ(queue.due(13).size(), 1);
}

TEST(AdoptionQueue, KeepsTheOrderAndGivesAllBeforeTheNextOffer) {
  AdoptionQueue queue(1, 3);
  queue.offered({0}, 10, 7);
  queue.add(answer(7));
  queue.add(answer(7));  // the next version, without us
  EXPECT_TRUE(queue.due(11).empty());
  EXPECT_EQ(queue.all({0}).size(), 2);
}

}  // namespace
}  // namespace Atoll::federation
