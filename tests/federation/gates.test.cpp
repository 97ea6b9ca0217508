#include <gtest/gtest.h>

#include <limits>

#include "atoll/outer/merge.hpp"
#include "session_environment.hpp"
#include "sites_in_memory.hpp"

namespace Atoll::federation::test {
namespace {

using store::LetterKind;

TEST(Gates, OffersThatAreNotFiniteTogetherDoNotPoisonTheAnchor) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  sites.step(0, 1.0F);
  for (int step = 0; step < 3; ++step) sites.step(1, 1.1e38F);
  sites.offer(1);
  sites.offer(0);
  sites.deliver();
  sites.pass(sites.config().grace.longest.count() + 1);
  sites.deliver();
  EXPECT_EQ(sites.protocol(0).refused().at("merge_not_finite"), 1);
  EXPECT_EQ(sites.state(0).version, 1);
  EXPECT_TRUE(outer::all_finite(*sites.state(0).anchor));
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
}

TEST(Gates, LettersThatFailAGateAreSetAsideAndCounted) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  store::Letter good;
  good.kind = LetterKind::offer;
  good.federation = "test";
  good.configuration = sites.config().configuration;
  good.site = {1};
  good.incarnation = sites.site(1).incarnation;
  good.parent = sites.state(0).digest;
  good.serial = 5;
  good.steps = 1;
  good.tokens = 10;
  good.values = values({0, 0, 0});
  const auto refused_for = [&](auto change) {
    auto letter = good;
    change(letter);
    const auto before = sites.protocol(0).refused();
    sites.protocol(0).receive(letter, sites.now());
    for (const auto& [reason, count] : sites.protocol(0).refused())
      if (!before.contains(reason) || before.at(reason) < count) return reason;
    return std::string("accepted");
  };
  EXPECT_EQ(refused_for([](auto& l) { l.federation = "another"; }), "other_federation");
  EXPECT_EQ(refused_for([](auto& l) { l.configuration = {}; }), "other_configuration");
  EXPECT_EQ(refused_for([](auto& l) { l.site = {7}; }), "unknown_site");
  EXPECT_EQ(refused_for([](auto& l) { l.incarnation = 1; }), "old_incarnation");
  EXPECT_EQ(refused_for([](auto& l) { l.fragment = {9}; }), "layout");
  EXPECT_EQ(refused_for([](auto& l) { l.values = values({0, 0}); }), "layout");
  EXPECT_EQ(refused_for([](auto& l) { l.values = nullptr; }), "layout");
  EXPECT_EQ(refused_for([](auto& l) { l.parent = store::digest_of("elsewhere"); }), "other_branch");
  EXPECT_EQ(refused_for([](auto& l) { l.tokens = 0; }), "no_tokens");
  EXPECT_EQ(refused_for([](auto& l) { l.tokens = std::uint64_t{1} << 62; }), "implausible");
  EXPECT_EQ(refused_for([](auto&) {}), "accepted");
}

TEST(Gates, AnOfferThatIsNotFiniteIsSetAsideAndItsSiteGivesUpWhatItHolds) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int i = 0; i < 2; ++i) sites.step(i, 1.0F);
  sites.offer(1);
  sites.deliver([&](SiteId from, const Send& send) {
    if (send.letter.kind != LetterKind::offer) return false;
    auto damaged = send.letter;
    damaged.values = values({0, std::numeric_limits<float>::infinity(), 0});
    sites.protocol(0).receive(damaged, sites.now());
    return from.value == 1;
  });
  sites.offer(0);
  sites.deliver();
  EXPECT_EQ(sites.protocol(0).refused().at("not_finite"), 1);
  EXPECT_EQ(sites.protocol(1).tokens_lost().at("refused"), SitesInMemory::tokens_per_step);
  sites.pass(sites.config().grace.longest.count() + 1);
  sites.deliver();
  EXPECT_EQ(sites.state(0).version, 1);
  EXPECT_EQ(sites.state(0).tokens_merged, SitesInMemory::tokens_per_step);
  EXPECT_EQ(sites.parameters(1), *sites.state(1).anchor);
}

TEST(Gates, AnOfferFarBeyondTheRunningMedianIsSetAside) {
  SitesInMemory sites(2);
  sites.config().norm_factor = 10;
  sites.start(0);
  sites.start(1);
  sites.deliver();
  const auto round = [&](float far) {
    sites.step(0, 1.0F);
    sites.step(1, far);
    sites.offer(1);
    sites.deliver();
    sites.offer(0);
    sites.pass(sites.config().grace.longest.count() + 1);
    sites.deliver();
  };
  for (int i = 0; i < 10; ++i) round(1.0F);
  EXPECT_EQ(sites.state(0).tokens_merged, 20 * SitesInMemory::tokens_per_step);
  round(1000.0F);
  EXPECT_EQ(sites.protocol(0).refused().at("norm"), 1);
  EXPECT_EQ(sites.state(0).tokens_merged, 21 * SitesInMemory::tokens_per_step);
  for (int again = 0; again < 29; ++again) round(100.0F);  // it does not wear the gate down
  EXPECT_EQ(sites.protocol(0).refused().at("norm"), 30);
  EXPECT_EQ(sites.state(0).tokens_merged, 50 * SitesInMemory::tokens_per_step);
  round(1.0F);  // the site goes on from the anchor
  EXPECT_EQ(sites.state(0).tokens_merged, 52 * SitesInMemory::tokens_per_step);
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
}

TEST(Gates, ParametersThatAreNotFiniteAreNeverOffered) {
  SitesInMemory sites(1);
  sites.start(0);
  sites.step(0, std::numeric_limits<float>::quiet_NaN());
  sites.offer(0);
  EXPECT_EQ(sites.state(0).version, 0);
  EXPECT_EQ(sites.parameters(0), *sites.state(0).anchor);
}

}  // namespace
}  // namespace Atoll::federation::test
