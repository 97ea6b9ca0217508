#include "atoll/federation/protocol.hpp"

#include <gtest/gtest.h>


#include "session_environment.hpp"
#include "sites_in_memory.hpp"

namespace Atoll::federation::test {
namespace {

using store::LetterKind;

TEST(Protocol, AllSitesHoldTheSameBitsAfterACommit) {
  SitesInMemory sites(3, 2, 3);
  for (int i = 0; i < 3; ++i) sites.start(i);
  for (int round = 1; round <= 5; ++round) {
    for (int i = 0; i < 3; ++i) {
      sites.step(i, 0.1F * float(i + round));
      sites.offer_all(i);
    }
    sites.deliver();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(sites.state(i).version, round);
      EXPECT_EQ(sites.state(i).digest, sites.state(0).digest);
      EXPECT_EQ(sites.parameters(i), *sites.state(0).anchor);
      EXPECT_EQ(sites.state(i).tokens_merged, round * 3 * SitesInMemory::tokens_per_step);
    }
  }
}

TEST(Protocol, ASiteAloneCommitsAlone) {
  SitesInMemory sites(2);
  sites.start(1);
  sites.step(1, 1.0F);
  sites.offer(1);
  EXPECT_EQ(sites.state(1).version, 1);
}

TEST(Protocol, TheStewardWaitsForAllWithinTheGraceWindowAndNotLonger) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  sites.step(0, 1.0F);
  sites.offer(0);
  EXPECT_EQ(sites.state(0).version, 0);
  sites.pass(sites.config().grace.longest.count() * 0.9);
  EXPECT_EQ(sites.state(0).version, 0);
  sites.pass(sites.config().grace.longest.count() * 0.2);
  EXPECT_EQ(sites.state(0).version, 1);
}

TEST(Protocol, ProgressThatWasNotMergedStaysAndIsOfferedNextTime) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  sites.step(0, 1.0F);
  sites.step(1, 4.0F);
  sites.offer(0);
  sites.pass(10);
  sites.deliver();  // committed without site 1
  EXPECT_EQ(sites.parameters(1)[0], (*sites.state(0).anchor)[0] + 4.0F);
  EXPECT_EQ(sites.state(1).tokens_since, SitesInMemory::tokens_per_step);
  sites.step(0, 1.0F);
  sites.step(1, 1.0F);
  sites.offer(1);
  sites.offer(0);
  sites.deliver();
  EXPECT_EQ(sites.state(0).version, 2);
  EXPECT_EQ(sites.state(0).tokens_merged, 4 * SitesInMemory::tokens_per_step);
  EXPECT_EQ(sites.parameters(1), *sites.state(1).anchor);
}

TEST(Protocol, RoundsFasterThanStatusesStillWaitForEverySite) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int round = 1; round <= 10; ++round) {
    for (int i = 0; i < 2; ++i) sites.step(i, 1.0F);
    sites.offer(0);
    sites.offer(1);
    sites.deliver();
    EXPECT_EQ(sites.state(0).tokens_merged, round * 2 * SitesInMemory::tokens_per_step);
  }
}

TEST(Protocol, StepsMadeAfterTheOfferAreKeptWhenItsCommitComes) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int i = 0; i < 2; ++i) {
    sites.step(i, 1.0F);
    sites.offer(i);
  }
  sites.step(1, 0.5F);
  sites.deliver();
  EXPECT_EQ(sites.parameters(1)[0], (*sites.state(1).anchor)[0] + 0.5F);
  EXPECT_EQ(sites.state(1).tokens_since, SitesInMemory::tokens_per_step);
}

TEST(Protocol, TheNextSiteTakesTheStewardsDutyAndGetsTheOffersAgain) {
  SitesInMemory sites(3, 2, 2);
  for (int i = 0; i < 3; ++i) sites.start(i);
  sites.deliver();
  for (int i = 1; i < 3; ++i) {
    sites.step(i, 1.0F);
    sites.offer(i);
  }
  sites.deliver([](SiteId, const Send& send) { return send.letter.kind == LetterKind::offer; });
  sites.kill(0);
  sites.deliver();
  for (int i = 1; i < 3; ++i) EXPECT_EQ(sites.state(i).version, 1);
  EXPECT_EQ(sites.state(1).digest, sites.state(2).digest);
  EXPECT_EQ(sites.state(1).newest.size(), 2);
}

TEST(Protocol, ASuccessorTakesTheCommitThatOthersHaveInsteadOfMakingAnother) {
  SitesInMemory sites(3, 1);
  for (int i = 0; i < 3; ++i) sites.start(i);
  sites.deliver();
  for (int i = 0; i < 3; ++i) {
    sites.step(i, 1.0F);
    sites.offer(i);
  }
  // The commit reaches site 2, not site 1; then the steward dies.
  sites.deliver([](SiteId, const Send& send) { return send.letter.kind == LetterKind::commit && send.to.value == 1; });
  sites.kill(0);
  sites.pass(1);
  sites.deliver();
  sites.pass(sites.config().catch_up_after.count());
  sites.deliver();
  sites.pass(sites.config().catch_up_after.count());
  sites.deliver();
  EXPECT_EQ(sites.state(1).digest, sites.state(2).digest);
  EXPECT_EQ(sites.state(1).tokens_merged, 3 * SitesInMemory::tokens_per_step);
}

TEST(Protocol, ALateSiteWithoutHistoryTakesTheWholeModelAndOffersFromThereOn) {
  SitesInMemory sites(2);
  sites.start(0);
  for (int round = 0; round < 7; ++round) {
    sites.step(0, 1.0F);
    sites.offer_all(0);
  }
  sites.start(1);
  sites.step(1, 100.0F);
  sites.deliver();
  EXPECT_TRUE(sites.saw(1, "joined"));
  for (std::uint32_t f = 0; f < 2; ++f) {
    EXPECT_EQ(sites.state(1, f).digest, sites.state(0, f).digest);
    EXPECT_EQ(sites.parameters(1, f), *sites.state(0, f).anchor);  // its own steps from the beginning are dropped
    EXPECT_EQ(sites.state(1, f).tokens_since, 0);
  }
  sites.step(1, 1.0F);
  sites.step(0, 1.0F);
  sites.offer(1);
  sites.offer(0);
  sites.deliver();
  EXPECT_EQ(sites.state(0).version, 8);
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
  EXPECT_EQ(sites.state(0).newest.size(), 2);
}

TEST(Protocol, ASiteWithoutHistoryNeverDonates) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  store::Letter request;
  request.kind = LetterKind::snapshot_request;
  request.federation = "test";
  request.configuration = sites.config().configuration;
  request.site = {1};
  request.incarnation = sites.site(1).incarnation;
  sites.protocol(0).receive(request, sites.now());
  EXPECT_EQ(sites.protocol(0).refused().at("no_history"), 1);
}

TEST(Protocol, ALostCommitIsMadeUpForByASnapshotThatKeepsLocalProgress) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int i = 0; i < 2; ++i) {
    sites.step(i, 1.0F);
    sites.offer(i);
  }
  sites.deliver([](SiteId, const Send& send) { return send.letter.kind == LetterKind::commit; });
  sites.step(1, 0.25F);
  EXPECT_EQ(sites.state(1).version, 0);
  for (int i = 0; i < 3; ++i) {
    sites.pass(sites.config().catch_up_after.count());
    sites.deliver();
  }
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
  EXPECT_EQ(sites.parameters(1)[0], (*sites.state(1).anchor)[0] + 0.25F);
}

TEST(Protocol, AnOfferThatWasMadeAfterTheCheckpointIsNotMergedTwice) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int i = 0; i < 2; ++i) sites.step(i, 1.0F);
  const auto saved = sites.protocol(1).fragments();
  const auto saved_parameters = sites.site(1).parameters;
  for (int i = 0; i < 2; ++i) sites.step(i, 1.0F);
  for (int i = 0; i < 2; ++i) sites.offer(i);
  sites.deliver([](SiteId, const Send& send) { return send.letter.kind == LetterKind::commit; });
  sites.kill(1);
  sites.start(1, saved);
  sites.site(1).parameters = saved_parameters;
  for (int i = 0; i < 3; ++i) {
    sites.deliver();
    sites.pass(sites.config().catch_up_after.count());
  }
  sites.deliver();
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
  EXPECT_EQ(sites.parameters(1), *sites.state(1).anchor);
  EXPECT_EQ(sites.state(1).tokens_since, 0);
}

TEST(Protocol, AStewardThatComesBackMergesNothingBeforeItHasHeardTheOthers) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  sites.step(0, 1.0F);
  sites.offer(0);  // waits for site 1
  const auto saved = sites.protocol(0).fragments();
  ASSERT_TRUE(saved[0].outstanding);
  sites.kill(0);
  for (int round = 0; round < 2; ++round) {
    sites.step(1, 1.0F);
    sites.offer(1);
  }
  sites.begin_by_hand();
  sites.connect(0, 1, false);
  sites.start(0, saved);
  sites.pass(10);
  EXPECT_EQ(sites.state(0).version, 0);
  sites.connect(0, 1, true);
  sites.deliver();
  EXPECT_EQ(sites.state(0).digest, sites.state(1).digest);
}

TEST(Protocol, TheFirstSiteThatComesBackHoldsUpNobodyWhileItCatchesUp) {
  SitesInMemory sites(3);
  for (int i = 0; i < 3; ++i) sites.start(i);
  sites.deliver();
  sites.kill(0);
  sites.begin_by_hand();
  sites.start(0);
  sites.deliver();
  EXPECT_EQ(sites.protocol(1).steward({0}), SiteId{1});
  EXPECT_EQ(sites.protocol(2).steward({0}), SiteId{1});
  for (int i = 1; i < 3; ++i) sites.step(i, 1.0F);
  for (int i = 1; i < 3; ++i) sites.offer(i);
  sites.deliver();
  sites.pass(sites.config().grace.longest.count() + 1);
  sites.deliver();
  EXPECT_EQ(sites.state(1).version, 1);
  EXPECT_EQ(sites.state(2).digest, sites.state(1).digest);
  sites.protocol(0).begin(sites.now());
  sites.deliver();
  EXPECT_EQ(sites.protocol(2).steward({0}), SiteId{0});
}

TEST(Protocol, AFinishedSiteServesOneThatIsAwayForAMoment) {
  SitesInMemory sites(2, 1);
  sites.config().total_tokens = 20;
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int i = 0; i < 2; ++i) sites.step(i, 1.0F);
  sites.offer(1);
  sites.deliver();
  sites.offer(0);
  sites.connect(0, 1, false);  // the last commit is lost
  sites.deliver();
  EXPECT_TRUE(sites.protocol(0).finished());
  EXPECT_FALSE(sites.protocol(0).all_finished());
  sites.connect(0, 1, true);
  sites.deliver();
  for (int i = 0; i < 3; ++i) {
    sites.pass(sites.config().catch_up_after.count());
    sites.deliver();
  }
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
  EXPECT_TRUE(sites.protocol(0).all_finished());
  EXPECT_TRUE(sites.protocol(1).all_finished());
}

TEST(Protocol, MoreTokensWinAlsoAgainstMoreCommits) {
  SitesInMemory sites(2, 1);
  sites.start(0);
  sites.start(1);
  sites.connect(0, 1, false);
  for (int round = 0; round < 3; ++round) {  // many small commits here
    sites.step(1, 1.0F);
    sites.offer(1);
  }
  for (int step = 0; step < 10; ++step) sites.step(0, 1.0F);  // one large one there
  sites.offer(0);
  const auto heavier = sites.state(0).digest;
  sites.connect(0, 1, true);
  for (int i = 0; i < 10; ++i) {
    sites.pass(sites.config().catch_up_after.count());
    sites.deliver();
  }
  EXPECT_EQ(sites.state(0).digest, heavier);
  EXPECT_EQ(sites.state(1).digest, heavier);
}

TEST(Protocol, AfterAPartitionAllFollowTheHeavierBranch) {
  SitesInMemory sites(3, 2);
  for (int i = 0; i < 3; ++i) sites.start(i);
  sites.deliver();
  const auto round = [&](std::vector<int> who) {
    for (const int i : who) sites.step(i, 0.5F);
    for (const int i : who) sites.offer_all(i);
    sites.deliver();
    sites.pass(3);
    sites.deliver();
  };
  round({0, 1, 2});
  sites.connect(0, 1, false);
  sites.connect(0, 2, false);
  round({0});
  round({1, 2});
  round({1, 2});
  EXPECT_NE(sites.state(0).digest, sites.state(1).digest);
  const auto heavier = sites.state(1).digest;
  sites.connect(0, 1, true);
  sites.connect(0, 2, true);
  for (int i = 0; i < 8; ++i) {
    sites.pass(1);
    sites.deliver();
  }
  for (std::uint32_t f = 0; f < 2; ++f)
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sites.state(i, f).digest, sites.state(1, f).digest);
  EXPECT_EQ(sites.state(0).digest, heavier);
}

TEST(Protocol, TrainingEndsForAllAtTheSameVersion) {
  SitesInMemory sites(2, 2, 2);
  sites.config().total_tokens = 100;
  sites.start(0);
  sites.start(1);
  sites.deliver();
  for (int round = 0; round < 20 && !(sites.protocol(0).finished() && sites.protocol(1).finished()); ++round) {
    for (int i = 0; i < 2; ++i) sites.step(i, 0.5F);
    for (int i = 0; i < 2; ++i) sites.offer_all(i);
    sites.deliver();
  }
  EXPECT_EQ(sites.state(0).version, 5);
  EXPECT_EQ(sites.state(1).digest, sites.state(0).digest);
  sites.pass(1);
  sites.deliver();
  EXPECT_TRUE(sites.protocol(0).all_finished());
  EXPECT_FALSE(sites.protocol(0).may_offer({0}));
}

TEST(Protocol, ASiteThatTookLeaveIsNotWaitedFor) {
  SitesInMemory sites(2);
  sites.start(0);
  sites.start(1);
  sites.deliver();
  sites.protocol(1).leave();
  sites.deliver();
  EXPECT_EQ(sites.protocol(0).sites_alive(), 1);
  sites.step(0, 1.0F);
  sites.offer(0);
  EXPECT_EQ(sites.state(0).version, 1);
}

}  // namespace
}  // namespace Atoll::federation::test
