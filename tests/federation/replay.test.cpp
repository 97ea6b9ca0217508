#include "atoll/federation/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atoll/core/error.hpp"
#include "recorded_run.hpp"
#include "sample_letters.hpp"
#include "session_environment.hpp"

namespace Atoll::federation::test {
namespace {

using ::testing::HasSubstr;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  return at == std::string::npos ? "'" + from + "' is not there" : text.replace(at, from.size(), to);
}

class ReplayTest : public ::testing::Test {
 protected:
  /// Both sites train `rounds` rounds together and end.
  void train(int rounds = 4) {
    run_.start(0);
    run_.start(1);
    run_.sites().deliver();
    run_.rounds(rounds);
    run_.end();
  }
  /// Changes the line of the log that is the commit of fragment 0 to `version`.
  void change_commit(Version version, const std::string& from, const std::string& to) {
    auto lines = run_.lines(0);
    auto& line = lines.at(run_.line_of_commit(0, version) - 1);
    line = replaced(line, from, to);
    run_.rewrite(0, lines);
  }
  /// A difference at the commit of fragment 0 to `version`, about `what`.
  void expect_difference_at(Version version, const std::string& what) {
    const auto done = run_.replayed(0);
    ASSERT_TRUE(done.difference) << "nothing differs";
    EXPECT_EQ(done.difference->line, run_.line_of_commit(0, version)) << text_of(done);
    EXPECT_EQ(done.difference->event, "commit of fragment 0 to version " + std::to_string(version));
    EXPECT_THAT(text_of(done), HasSubstr(what));
  }
  void flip_bit(const std::filesystem::path& file, std::uintmax_t from_end) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(std::filesystem::file_size(file) - from_end);
    stream.seekg(at);
    const auto byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(at);
    stream.put(byte);
  }

  RecordedRun run_;
};

TEST_F(ReplayTest, StewardAndOthersAreRepeatedToTheSameDigests) {
  train();
  for (std::size_t i = 0; i < 2; ++i) {
    const auto done = run_.replayed(i);
    EXPECT_EQ(text_of(done), "equal");
    EXPECT_EQ(done.site, "site" + std::to_string(i));
    EXPECT_EQ(done.merges, i == 0 ? 8 : 0);
    EXPECT_EQ(done.commits, i == 0 ? 0 : 8);
    EXPECT_EQ(done.checked, 1);
    for (std::uint32_t f = 0; f < 2; ++f) {
      EXPECT_EQ(done.fragments[f].version, 4);
      EXPECT_EQ(done.fragments[f].digest, run_.sites().state(i, f).digest);
    }
  }
}

TEST_F(ReplayTest, OneBitOfAnOffersValuesIsNamedWithItsCommit) {
  train();
  flip_bit(run_.letter(0, 2, "offer", 1), 1);
  expect_difference_at(3, "-offer.h5 is damaged");
}

TEST_F(ReplayTest, AnOfferThatWasChangedTogetherWithItsDigestIsFoundByItsBits) {
  train();
  const auto file = run_.letter(0, 2, "offer", 1);
  const auto name = file.filename().string();
  auto lines = run_.lines(0);
  const auto kept = std::ranges::find_if(lines, [&](const auto& line) { return line.find(name) != std::string::npos; });
  std::ifstream stream(file, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(stream), {}};
  auto offer = store::decode(std::as_bytes(std::span(before)));
  auto changed = *offer.values;
  changed[0] += 0.001F;
  offer.values = values(changed);
  const auto image = store::test::image_of(offer);
  const std::string bytes(reinterpret_cast<const char*>(image.data()), image.size());
  std::ofstream(file, std::ios::binary) << bytes;
  *kept = replaced(*kept, kept->substr(kept->find(R"("digest":")"), 43),
                   R"("digest":")" + store::digest_of(bytes).hex() + '"');
  run_.rewrite(0, lines);
  expect_difference_at(3, "merged gradient at value 0");
}

TEST_F(ReplayTest, AWeightThatWasChangedInTheLogIsNamed) {
  train();
  change_commit(2, R"("weights":[0.5,)", R"("weights":[0.25,)");
  expect_difference_at(2, "weight of the offer of site0: expected 0.5");
}

TEST_F(ReplayTest, TokensDigestsAndSerialsOfTheLogAreCompared) {
  train();
  const auto good = run_.lines(0);
  change_commit(3, R"("offer_tokens":[10,)", R"("offer_tokens":[11,)");
  expect_difference_at(3, "tokens of offer 0: expected 10, found 11");
  run_.rewrite(0, good);
  change_commit(3, R"("tokens":60)", R"("tokens":61)");
  expect_difference_at(3, "tokens merged in the letter: expected 61, found 60");
  run_.rewrite(0, good);
  change_commit(3, R"("anchor":")", R"("anchor":"0)");
  expect_difference_at(3, "the log says nothing of a letter");
}

TEST_F(ReplayTest, CommitsInAnotherOrderAreNamed) {
  train();
  auto lines = run_.lines(0);
  const auto second = run_.line_of_commit(0, 2), third = run_.line_of_commit(0, 3);
  std::swap(lines.at(second - 1), lines.at(third - 1));
  run_.rewrite(0, lines);
  const auto done = run_.replayed(0);
  EXPECT_THAT(text_of(done), HasSubstr(std::to_string(second) + ": commit of fragment 0 to version 3: version: "
                                                                "expected 2, found 3"));
}

TEST_F(ReplayTest, ALetterThatWasDeletedIsNamed) {
  train();
  std::filesystem::remove(run_.letter(0, 3, "commit"));
  expect_difference_at(3, "commit.h5 is missing");
}

TEST_F(ReplayTest, ACommitLineThatIsMissingIsFoundAtTheNextOne) {
  train();
  auto lines = run_.lines(0);
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(run_.line_of_commit(0, 2) - 1));
  run_.rewrite(0, lines);
  expect_difference_at(3, "version: expected 2, found 3");
}

TEST_F(ReplayTest, ALogThatWasCutShortDiffersFromTheCheckpointAndNotFromItself) {
  train();
  const auto at_the_end = run_.sites().protocol(0).fragments();
  auto lines = run_.lines(0);
  lines.resize(run_.line_of_commit(0, 3));
  run_.rewrite(0, lines);
  std::ofstream(run_.log(0), std::ios::app) << R"({"time":1,"event":"comm)";
  Replay replay(run_.input(0));
  const auto done = replay.run();
  EXPECT_EQ(text_of(done), "equal");
  EXPECT_TRUE(done.last_line_is_cut);
  const auto difference = replay.compare("the checkpoint", at_the_end);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->line, lines.size());
  EXPECT_THAT(difference->found, HasSubstr("version 4"));
}

TEST_F(ReplayTest, AnEndWithOtherDigestsIsNamed) {
  train();
  auto lines = run_.lines(0);
  lines.back() = replaced(lines.back(), R"("versions":[4,)", R"("versions":[3,)");
  run_.rewrite(0, lines);
  const auto done = run_.replayed(0);
  ASSERT_TRUE(done.difference);
  EXPECT_EQ(done.difference->line, lines.size());
  EXPECT_EQ(done.difference->event, "end");
}

TEST_F(ReplayTest, ALineThatIsNoEventIsNamedUnlessAStartEndedThere) {
  train();
  auto lines = run_.lines(0);
  const auto at = run_.line_of_commit(0, 2);
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at - 1), R"({"time":1,"ev)");
  run_.rewrite(0, lines);
  const auto done = run_.replayed(0);
  ASSERT_TRUE(done.difference);
  EXPECT_EQ(done.difference->line, at);
}

TEST_F(ReplayTest, ASiteThatComesBackFromAnOlderCheckpointIsFollowed) {
  run_.start(0);
  run_.start(1);
  run_.sites().deliver();
  run_.rounds(2);
  const auto saved = run_.checkpoint(1);
  run_.rounds(2);
  run_.kill(1);
  std::ofstream(run_.log(1), std::ios::app) << R"({"time":1,"event":"st)" << '\n';
  run_.start(1, saved);
  for (int i = 0; i < 3; ++i) {
    run_.sites().deliver();
    run_.sites().pass(run_.sites().config().catch_up_after.count());
  }
  run_.rounds(2);
  run_.end();
  ASSERT_EQ(run_.sites().state(1).digest, run_.sites().state(0).digest);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(text_of(run_.replayed(i)), "equal");
  const auto done = run_.replayed(1);
  EXPECT_EQ(done.starts, 2);
  EXPECT_EQ(done.snapshots, 2);
  EXPECT_EQ(done.fragments[0].digest, run_.sites().state(1).digest);

  auto input = run_.input(1);
  input.beginning = saved;
  input.from = ReplayInput::From::checkpoint;
  const auto from_there = Replay(input).run();
  EXPECT_EQ(text_of(from_there), "equal");
  EXPECT_EQ(from_there.fragments[1].digest, run_.sites().state(1, 1).digest);
  EXPECT_LT(from_there.commits, done.commits);
}

TEST_F(ReplayTest, TheHeavierBranchIsFollowedWhenAPartitionEnds) {
  run_.start(0);
  run_.start(1);
  run_.sites().deliver();
  run_.rounds(1);
  run_.sites().connect(0, 1, false);
  for (int round = 0; round < 3; ++round) {
    run_.sites().step(1, 0.75F);
    run_.sites().offer_all(1);
  }
  run_.sites().step(0, 0.5F);
  run_.sites().offer_all(0);
  run_.sites().connect(0, 1, true);
  for (int i = 0; i < 10; ++i) {
    run_.sites().pass(1);
    run_.sites().deliver();
  }
  run_.rounds(2);
  run_.end();
  ASSERT_TRUE(run_.sites().saw(0, "joined"));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto done = run_.replayed(i);
    EXPECT_EQ(text_of(done), "equal");
    EXPECT_EQ(done.snapshots, i == 0 ? 2 : 0);
    EXPECT_EQ(done.fragments[0].digest, run_.sites().state(i).digest);
  }
}

TEST_F(ReplayTest, AStartFromAStateThatWasNeverReachedIsNamed) {
  run_.start(0);
  run_.start(1);
  run_.sites().deliver();
  run_.rounds(1);
  auto elsewhere = run_.sites().beginning();
  elsewhere[0] = FragmentState::initial({9, 9, 9});
  run_.kill(1);
  run_.start(1, elsewhere);
  const auto done = run_.replayed(1);
  ASSERT_TRUE(done.difference);
  EXPECT_EQ(done.difference->event, "opened");
  EXPECT_EQ(done.difference->what, "fragment 0");
}

std::string refusal_of(const ReplayInput& input) {
  try {
    (void)Replay(input);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(ReplayTest, LogsThatCannotBeReplayedAreRefusedBeforeAnyWork) {
  train();
  const auto good = run_.lines(0);
  auto lines = good;
  lines[0] = replaced(lines[0], R"("format_version":1)", R"("format_version":7)");
  run_.rewrite(0, lines);
  EXPECT_THAT(refusal_of(run_.input(0)), HasSubstr("the log is of version 7"));
  lines.erase(lines.begin());
  run_.rewrite(0, lines);
  EXPECT_THAT(refusal_of(run_.input(0)), HasSubstr("no event 'opened'"));
  run_.rewrite(0, good);
  auto other = run_.input(0);
  other.config.configuration = {};
  EXPECT_THAT(refusal_of(other), HasSubstr("configuration"));
  auto foreign = run_.input(0);
  foreign.beginning[0] = FragmentState::initial({9, 9, 9});
  foreign.from = ReplayInput::From::checkpoint;
  EXPECT_THAT(refusal_of(foreign), HasSubstr("use a checkpoint of this run"));
}

TEST(Replay, ARunWithoutLettersSaysWhatToSetNextTime) {
  RecordedRun run(KeepLetters::none);
  run.start(0);
  run.start(1);
  run.sites().deliver();
  run.rounds(1);
  EXPECT_THAT(refusal_of(run.input(0)), HasSubstr("--keep-letters"));
  EXPECT_FALSE(std::filesystem::exists(run.folder(0) / "letters"));
}

TEST(Replay, CommitsAloneAreAppliedWithoutTheirOffers) {
  RecordedRun run(KeepLetters::commits);
  run.start(0);
  run.start(1);
  run.sites().deliver();
  run.rounds(3);
  run.end();
  const auto done = run.replayed(0);
  EXPECT_EQ(text_of(done), "equal");
  EXPECT_EQ(done.merges, 0);
  EXPECT_EQ(done.commits, 6);
}

TEST(Replay, ALetterThatFoundNoRoomIsNamedWithTheReason) {
  RecordedRun run(KeepLetters::all, std::uint64_t{1} << 62);
  run.start(0);
  run.start(1);
  run.sites().deliver();
  run.rounds(1);
  run.end();
  EXPECT_EQ(run.sites().state(0).version, 1);
  const auto done = run.replayed(0);
  ASSERT_TRUE(done.difference);
  EXPECT_THAT(done.difference->found, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace Atoll::federation::test
