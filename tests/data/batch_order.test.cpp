#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "atoll/core/error.hpp"
#include "atoll/data/batch_order.hpp"

namespace Atoll::data {
namespace {

std::vector<std::uint64_t> places(const BatchOrder& order, std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> tokens;
  for (std::uint64_t cursor = first; cursor < first + count; ++cursor) tokens.push_back(order.first_token(cursor));
  return tokens;
}

std::set<std::uint64_t> epoch_of(const BatchOrder& order, std::uint64_t epoch) {
  const auto all = places(order, epoch * order.sequences(), order.sequences());
  return {all.begin(), all.end()};
}

TEST(BatchOrder, EveryEpochIsAPermutationOfTheSitesSequences) {
  for (const std::uint64_t tokens : {17ull, 18ull, 100ull, 1000ull, 4097ull, 65537ull}) {
    const BatchOrder order(tokens, 16, SiteId{0}, 1, 5);
    ASSERT_EQ(order.sequences(), (tokens - 1) / 16);
    for (const std::uint64_t epoch : {0, 1, 7}) EXPECT_EQ(epoch_of(order, epoch).size(), order.sequences());
  }
}

TEST(BatchOrder, SitesShareEverythingAndNothingTwice) {
  constexpr std::uint32_t sites = 3;
  constexpr std::uint64_t tokens = 10'000;
  std::set<std::uint64_t> seen;
  std::uint64_t sequences = 0;
  for (std::uint32_t site = 0; site < sites; ++site) {
    const BatchOrder order(tokens, 16, SiteId{site}, sites, 5);
    sequences += order.sequences();
    seen.merge(epoch_of(order, 0));
  }
  EXPECT_EQ(sequences, (tokens - 1) / 16);
  EXPECT_EQ(seen.size(), sequences);
}

TEST(BatchOrder, EverySequenceLiesInsideTheTrainingPart) {
  const BatchOrder order(1000, 16, SiteId{1}, 2, 5);
  for (const auto first : epoch_of(order, 0)) {
    EXPECT_EQ(first % 16, 0u);
    EXPECT_LE(first + 16 + 1, 1000u);
  }
}

TEST(BatchOrder, EpochsSeedsAndSitesDiffer) {
  const BatchOrder order(16'001, 16, SiteId{0}, 1, 5), other_seed(16'001, 16, SiteId{0}, 1, 6);
  EXPECT_NE(places(order, 0, 20), places(order, order.sequences(), 20));
  EXPECT_NE(places(order, 0, 20), places(other_seed, 0, 20));
}

TEST(BatchOrder, NeighboursAreScattered) {
  const BatchOrder order(160'001, 16, SiteId{0}, 1, 5);
  std::uint64_t close = 0;
  for (std::uint64_t cursor = 1; cursor < order.sequences(); ++cursor) {
    const auto a = order.first_token(cursor - 1), b = order.first_token(cursor);
    close += (a < b ? b - a : a - b) < 160 * 16;
  }
  EXPECT_LT(close, order.sequences() / 20);
}

// The order must be the same on every platform and in every later version: checkpoints store only the cursor. The
// values come from a second implementation, in Python.
TEST(BatchOrder, KeepsItsFixedValues) {
  const BatchOrder order(100'000, 128, SiteId{1}, 3, 20261201);
  EXPECT_THAT(places(order, 0, 6), testing::ElementsAre(35840, 78848, 13184, 72704, 512, 61568));
  EXPECT_THAT(places(order, order.sequences(), 6), testing::ElementsAre(36608, 16256, 65408, 93440, 35072, 61568));
}

TEST(BatchOrder, TooLittleTextIsRefused) {
  EXPECT_THROW(BatchOrder(16, 16, SiteId{0}, 1, 5), ConfigError);
  EXPECT_THROW(BatchOrder(0, 16, SiteId{0}, 1, 5), ConfigError);
  EXPECT_THROW(BatchOrder(17, 16, SiteId{1}, 2, 5), ConfigError);
  EXPECT_EQ(BatchOrder(17, 16, SiteId{0}, 2, 5).sequences(), 1u);
}

}  // namespace
}  // namespace Atoll::data
