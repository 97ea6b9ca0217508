// Late offers, partitions, other stewards, other ways to go on after an offer.
#include <gtest/gtest.h>

#include "session_environment.hpp"
#include "sites_in_memory.hpp"

namespace Atoll::federation::test {
namespace {

using store::LetterKind;

constexpr auto tokens = SitesInMemory::tokens_per_step;

// Site 0 commits alone; the offer of site 1 arrives one version late.
void let_site_1_be_late(SitesInMemory& sites) {
  for (int i = 0; i < 2; ++i) sites.step(i, 1.0F);
  std::optional<store::Letter> late;
  sites.offer(1);
  sites.deliver([&](SiteId, const Send& send) {
    if (send.letter.kind == LetterKind::offer) late = send.letter;
    return send.letter.kind == LetterKind::offer;
  });
  sites.offer(0);
  sites.pass(sites.config().grace.longest.count() + 0.1);
  sites.deliver();
  ASSERT_EQ(sites.state(0).version, 1);
  sites.protocol(0).receive(*late, sites.now());
  sites.pass(sites.config().grace.longest.count() + 0.1);
  sites.deliver();
}

TEST(LateOffers, AreMergedWithADecayingWeight) {
  SitesInMemory sites(2);
  sites.config().staleness = 1;
  sites.config().staleness_decay = 0.25F;
  sites.config().outer.momentum = 0;
  sites.config().outer.learning_rate = 1;
  sites.start(0);
  sites.start(1);
  sites.deliver();
  const float before = (*sites.state(0).anchor)[0];
  let_site_1_be_late(sites);
  EXPECT_EQ(sites.state(0).version, 2);
  EXPECT_EQ(sites.state(0).tokens_merged, 2 * tokens);
  EXPECT_EQ((*sites.state(0).anchor)[0], before + 1 + 0.25F);
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
  EXPECT_EQ(sites.parameters(1), *sites.state(1).anchor);
}

TEST(LateOffers, BeyondTheLimitAreSetAsideAndTheirWorkGoesIntoTheNext) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  let_site_1_be_late(sites);
  EXPECT_EQ(sites.state(0).version, 1);
  EXPECT_EQ(sites.protocol(0).refused().at("stale"), 1);
  EXPECT_EQ(sites.state(1).tokens_since, tokens);
  EXPECT_TRUE(sites.protocol(1).tokens_lost().empty());
}

TEST(LateOffers, BeyondTheLimitAreLostWhereAnchorsReplaceProgress) {
  SitesInMemory sites(2);
  sites.config().keeps_progress = false;
  sites.start(0);
  sites.start(1);
  sites.deliver();
  let_site_1_be_late(sites);
  EXPECT_EQ(sites.protocol(1).tokens_lost().at("overwritten"), tokens);
  EXPECT_EQ(sites.state(1).tokens_since, 0);
}

TEST(Partitions, AreOnlyALongInnerPhase) {
  SitesInMemory sites(3, 2, 1);
  sites.config().outer.momentum = 0;
  sites.config().outer.learning_rate = 1;
  sites.config().weights = outer::WeightRule::equal;
  for (int i = 0; i < 3; ++i) sites.start(i);
  sites.deliver();
  const auto round = [&](std::vector<int> who) {
    for (const int i : who) sites.step(i, i == 0 ? 0.5F : 1.0F);
    for (const int i : who) sites.offer_all(i);
    sites.deliver();
    sites.pass(3);
    sites.deliver();
  };
  round({0, 1, 2});
  sites.connect(0, 1, false);
  sites.connect(0, 2, false);
  round({0});
  for (int i = 0; i < 3; ++i) round({1, 2});
  sites.connect(0, 1, true);
  sites.connect(0, 2, true);
  for (int i = 0; i < 8; ++i) {
    sites.pass(1);
    sites.deliver();
  }
  // The lighter branch is given up, but the step that site 0 made on it is its progress again.
  EXPECT_EQ(sites.state(0).digest, sites.state(1).digest);
  EXPECT_EQ(sites.parameters(0)[0], (*sites.state(0).anchor)[0] + 0.5F);
  for (const auto& [reason, count] : sites.protocol(0).tokens_lost()) ADD_FAILURE() << reason << " " << count;
  EXPECT_EQ(sites.state(0).tokens_since, 0);  // and weighs nothing: its weight is what it does from now on
}

TEST(Stewards, MayBeSpreadOverTheSites) {
  SitesInMemory sites(3, 3, 3);
  sites.config().stewardship = Stewardship::spread;
  for (int i = 0; i < 3; ++i) sites.start(i);
  sites.deliver();
  for (std::uint32_t f = 0; f < 3; ++f) EXPECT_EQ(sites.protocol(0).steward({f}), SiteId{f});
  std::map<std::uint32_t, std::uint32_t> steward_of;
  for (int i = 0; i < 3; ++i) sites.step(i, 1.0F);
  for (int i = 0; i < 3; ++i) sites.offer_all(i);
  sites.deliver([&](SiteId from, const Send& send) {
    if (send.letter.kind == LetterKind::commit) steward_of[send.letter.fragment.value] = from.value;
    return false;
  });
  EXPECT_EQ(steward_of, (std::map<std::uint32_t, std::uint32_t>{{0, 0}, {1, 1}, {2, 2}}));
  sites.kill(1);
  EXPECT_EQ(sites.protocol(0).steward({1}), SiteId{2});
}

TEST(Branches, ThatDifferInOneFragmentAreComparedByThatOne) {
  SitesInMemory sites(2, 2);
  sites.start(0);
  sites.start(1);
  sites.connect(0, 1, false);
  sites.step(0, 1.0F);
  sites.step(1, 1.0F);
  sites.step(1, 1.0F);
  sites.offer(0, 0);
  sites.offer(1, 0);  // the heavier of the two
  const auto heavier = sites.state(1, 0).digest;
  sites.connect(0, 1, true);
  for (int i = 0; i < 10; ++i) {
    sites.pass(sites.config().catch_up_after.count());
    sites.deliver();
  }
  EXPECT_EQ(sites.state(0, 0).digest, heavier);
  EXPECT_EQ(sites.state(1, 0).digest, heavier);
}

// A round of both sites whose commit is on its way while each goes on from where `way` says.
void offer_both(SitesInMemory& sites, AfterOffer way) {
  sites.config().after_offer = way;
  sites.config().outer.momentum = 0;
  sites.config().outer.learning_rate = 1;
  sites.start(0);
  sites.start(1);
  sites.deliver();
  sites.step(0, 1.0F);
  sites.step(1, 3.0F);
  for (int i = 0; i < 2; ++i) sites.offer(i);
}

TEST(AfterOffer, EagerUpdatesGoOnFromTheOwnShare) {
  SitesInMemory sites(2);
  offer_both(sites, AfterOffer::eager);
  const float anchor = (*sites.state(1).anchor)[0];
  EXPECT_EQ(sites.parameters(1)[0], anchor + 1.5F);  // half of its own 3
  sites.step(1, 0.25F);
  sites.deliver();
  EXPECT_EQ((*sites.state(1).anchor)[0], anchor + 2);
  EXPECT_EQ(sites.parameters(1)[0], anchor + 2 + 0.25F);
}

TEST(AfterOffer, NaiveDelayGoesOnFromTheAnchor) {
  SitesInMemory sites(2);
  offer_both(sites, AfterOffer::anchor);
  const float anchor = (*sites.state(1).anchor)[0];
  EXPECT_EQ(sites.parameters(1)[0], anchor);
  sites.step(1, 0.25F);
  sites.deliver();
  EXPECT_EQ(sites.parameters(1)[0], anchor + 2 + 0.25F);
}

TEST(AfterOffer, WorkOfAnOfferThatIsNotMergedComesBack) {
  SitesInMemory sites(2);
  offer_both(sites, AfterOffer::anchor);
  sites.deliver([](SiteId from, const Send& send) { return from.value == 1 && send.letter.kind == LetterKind::offer; });
  sites.pass(sites.config().grace.longest.count() + 0.1);
  sites.deliver();  // committed without site 1
  EXPECT_EQ(sites.state(1).version, 1);
  EXPECT_EQ(sites.parameters(1)[0], (*sites.state(1).anchor)[0] + 3);
}

TEST(DelayedNesterov, OfOneOfferACommitEqualsOneStepOnTheirMean) {
  SitesInMemory sites(1, 1);
  sites.config().outer = {
      .method = outer::OuterMethod::delayed_nesterov, .learning_rate = 1, .momentum = 0.9F, .delay = 3};
  sites.start(0, {FragmentState::initial({0, 0, 0}, sites.config().outer.slots())});
  for (int arrival = 0; arrival < 3; ++arrival) {
    sites.step(0, -1.0F);
    sites.offer(0);
  }
  EXPECT_EQ(sites.state(0).version, 3);
  EXPECT_FLOAT_EQ((*sites.state(0).anchor)[0], -1.9F);
}

TEST(DynamicSteps, ASlowSiteMakesFewerSoThatAllReturnTogether) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int step = 0; step < 40; ++step) {
    sites.pass(0.5);
    sites.protocol(0).stepped(tokens, sites.now());
    if (step % 4 == 0) sites.protocol(1).stepped(tokens, sites.now());
    sites.deliver();
  }
  EXPECT_EQ(sites.protocol(0).local_steps(100), 100);
  EXPECT_EQ(sites.protocol(1).local_steps(100), 25);
  EXPECT_EQ(sites.protocol(1).local_steps(2), 1);
}

}  // namespace
}  // namespace Atoll::federation::test
