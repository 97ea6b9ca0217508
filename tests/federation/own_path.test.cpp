#include "atoll/federation/own_path.hpp"

#include <gtest/gtest.h>

namespace Atoll::federation {
namespace {

store::Values values(float value) {
  return std::make_shared<const std::vector<float>>(std::vector<float>{value});
}

// One value walks from 10: down by 1 to mark 1, by 2 to mark 2, by 4 to mark 3.
OwnPath three_marks() {
  OwnPath path;
  std::uint64_t serial = 0;
  for (const float by : {1.0F, 2.0F, 4.0F}) {
    path.walked(1, 10);
    path.mark(serial + 1, serial, values(by));
    ++serial;
  }
  return path;
}

TEST(OwnPath, ALineThatHoldsTheLastMarkLacksWhatLiesBehindIt) {
  auto path = three_marks();
  path.walked(1, 10);
  const auto anchor = values(10);
  EXPECT_EQ(path.behind(anchor, 3, 3).base, anchor);
  EXPECT_EQ(path.tokens_behind(3), 10);
}

TEST(OwnPath, AnOfferThatIsMergedTakesItsPartOfTheProgressAlong) {
  const auto path = three_marks();
  const auto rest = path.behind(values(10), 2, 3);  // parameters are 10 - 4 and less
  EXPECT_EQ(rest.base->front(), 6);
  EXPECT_EQ(rest.begins, 3);
}

TEST(OwnPath, ABranchThatHoldsLessGivesOwnWorkBack) {
  const auto path = three_marks();
  const auto rest = path.behind(values(10), 3, 1);
  EXPECT_EQ(rest.base->front(), 16);  // what marks 2 and 3 held is progress again
  EXPECT_EQ(rest.tokens_lost, 0);
  EXPECT_EQ(path.behind(values(10), 3, 0).base->front(), 17);
}

TEST(OwnPath, AnOfferThatNobodyRemembersHoldsAllThatWasKnown) {
  const auto path = three_marks();
  const auto rest = path.behind(values(10), 3, 99);
  EXPECT_EQ(rest.base, nullptr);
  EXPECT_EQ(rest.begins, 99);
}

TEST(OwnPath, ForgottenMarksCostWhatLiesBeforeTheNextOne) {
  auto path = three_marks();
  path.forget_before(2);
  EXPECT_EQ(path.marks(), 2);
  const auto rest = path.behind(values(10), 3, 1);
  EXPECT_EQ(rest.begins, 2);
  EXPECT_EQ(rest.base->front(), 14);
  EXPECT_EQ(rest.tokens_lost, 20);
}

TEST(OwnPath, OffersToABranchThatIsGoneAreForgottenWithIt) {
  auto path = three_marks();
  path.forget_before(2);
  path.mark(4, 2, values(8));  // follows 2: was offered to a branch without 3
  path.forget_before(3);
  EXPECT_EQ(path.marks(), 1);
  EXPECT_EQ(path.behind(values(10), 3, 4).base, nullptr);
}

TEST(OwnPath, RemembersFewMarksAndAlwaysTheOldestAndTheLineItIsOn) {
  OwnPath path;
  for (std::uint64_t serial = 1; serial <= 20; ++serial) path.mark(serial, serial - 1, values(1));
  EXPECT_EQ(path.marks(), 4);
  EXPECT_EQ(path.behind(values(10), 20, 0).base->front(), 30);  // 20 offers of 1
  EXPECT_EQ(path.behind(values(10), 20, 19).base->front(), 11);
  EXPECT_EQ(path.behind(values(10), 20, 5).begins, 19);
}

TEST(OwnPath, DroppedWorkDoesNotComeBack) {
  auto path = three_marks();
  path.restart(3);
  EXPECT_EQ(path.behind(values(10), 3, 1).base->front(), 10);
  EXPECT_EQ(path.tokens_behind(3), 0);
  EXPECT_EQ(path.tokens_between(1, 3), 20);
}

}  // namespace
}  // namespace Atoll::federation
