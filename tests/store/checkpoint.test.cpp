#include "atoll/store/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <random>

#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"

namespace Atoll::store::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_equal(const Values& found, const Values& wanted) {
  ASSERT_EQ(found == nullptr, wanted == nullptr);
  if (wanted) {
    EXPECT_EQ(*found, *wanted);
  }
}

void expect_equal(const FragmentCheckpoint& found, const FragmentCheckpoint& wanted) {
  EXPECT_EQ(found.version, wanted.version);
  EXPECT_EQ(found.anchor_digest, wanted.anchor_digest);
  EXPECT_EQ(found.tokens_merged, wanted.tokens_merged);
  EXPECT_EQ(found.steps_since_base, wanted.steps_since_base);
  EXPECT_EQ(found.tokens_since_base, wanted.tokens_since_base);
  expect_equal(found.anchor, wanted.anchor);
  expect_equal(found.momentum, wanted.momentum);
  expect_equal(found.residual, wanted.residual);
  EXPECT_EQ(found.merged, wanted.merged);
  EXPECT_EQ(found.recent, wanted.recent);
  const auto &work = found.own_work, &made = wanted.own_work;
  EXPECT_EQ(work.steps, made.steps);
  EXPECT_EQ(work.tokens, made.tokens);
  EXPECT_EQ(work.steps_dropped, made.steps_dropped);
  EXPECT_EQ(work.tokens_dropped, made.tokens_dropped);
  ASSERT_EQ(work.marks.size(), made.marks.size());
  for (std::size_t i = 0; i < made.marks.size(); ++i) {
    EXPECT_EQ(work.marks[i].serial, made.marks[i].serial);
    EXPECT_EQ(work.marks[i].follows, made.marks[i].follows);
    EXPECT_EQ(work.marks[i].steps, made.marks[i].steps);
    EXPECT_EQ(work.marks[i].tokens, made.marks[i].tokens);
    expect_equal(work.marks[i].gradient, made.marks[i].gradient);
  }
  ASSERT_EQ(found.outstanding.has_value(), wanted.outstanding.has_value());
  if (!wanted.outstanding) return;
  EXPECT_EQ(found.outstanding->serial, wanted.outstanding->serial);
  EXPECT_EQ(found.outstanding->steps, wanted.outstanding->steps);
  EXPECT_EQ(found.outstanding->tokens, wanted.outstanding->tokens);
  EXPECT_EQ(found.outstanding->base, wanted.outstanding->base);
  expect_equal(found.outstanding->values, wanted.outstanding->values);
}

void expect_equal(const Checkpoint& found, const Checkpoint& wanted) {
  EXPECT_EQ(found.configuration_digest, wanted.configuration_digest);
  EXPECT_EQ(found.configuration, wanted.configuration);
  EXPECT_EQ(found.federation, wanted.federation);
  EXPECT_EQ(found.site, wanted.site);
  EXPECT_EQ(found.program_version, wanted.program_version);
  EXPECT_EQ(found.step, wanted.step);
  EXPECT_EQ(found.data_cursor, wanted.data_cursor);
  EXPECT_EQ(found.tokens, wanted.tokens);
  EXPECT_EQ(found.optimizer_steps, wanted.optimizer_steps);
  EXPECT_EQ(found.random_state, wanted.random_state);
  EXPECT_EQ(found.tensors, wanted.tensors);
  EXPECT_EQ(found.parameters, wanted.parameters);
  EXPECT_EQ(found.first_moment, wanted.first_moment);
  EXPECT_EQ(found.second_moment, wanted.second_moment);
  ASSERT_EQ(found.fragments.size(), wanted.fragments.size());
  for (std::size_t i = 0; i < wanted.fragments.size(); ++i) expect_equal(found.fragments[i], wanted.fragments[i]);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

void flip_a_bit(const fs::path& file, std::uint64_t bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(bit / 8));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(bit / 8));
  stream.put(static_cast<char>(byte ^ 1 << bit % 8));
}

/// While it lives no file of this process may grow beyond `bytes`: the system call fails as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class CheckpointTest : public testing::Test {
 protected:
  const ScratchFolder scratch;
  const fs::path folder = scratch.path();
};

TEST_F(CheckpointTest, ComesBackAsItWasSaved) {
  const auto checkpoint = sample_checkpoint(1200);
  const auto file = save(checkpoint, folder);
  EXPECT_EQ(file.filename(), "checkpoint-000000001200.h5");
  expect_equal(load(file), checkpoint);
}

TEST_F(CheckpointTest, HoldsALongConfigurationAndEmptyTexts) {
  auto checkpoint = sample_checkpoint(1);
  checkpoint.configuration.assign(300'000, 'c');
  checkpoint.random_state.clear();
  expect_equal(load(save(checkpoint, folder)), checkpoint);
}

TEST_F(CheckpointTest, EqualCheckpointsAreEqualFiles) {
  const auto first = sha256_of_file(save(sample_checkpoint(5), folder));
  EXPECT_EQ(sha256_of_file(save(sample_checkpoint(5), folder)), first);
}

TEST_F(CheckpointTest, OnlyTheLastTwoAreKept) {
  for (const std::uint64_t step : {8, 9, 10, 11}) save(sample_checkpoint(step), folder);
  EXPECT_THAT(names_in(folder), ElementsAre("checkpoint-000000000010.h5", "checkpoint-000000000011.h5"));
}

TEST_F(CheckpointTest, PartsOfAKilledSaveAreNeverCountedAndGoAway) {
  save(sample_checkpoint(1), folder);
  std::ofstream(folder / "checkpoint-000000000009.h5.part") << "half";
  EXPECT_EQ(load_newest(folder)->checkpoint.step, 1u);
  save(sample_checkpoint(2), folder);
  EXPECT_THAT(names_in(folder), ElementsAre("checkpoint-000000000001.h5", "checkpoint-000000000002.h5"));
}

TEST_F(CheckpointTest, NoCheckpointIsNoError) {
  EXPECT_FALSE(load_newest(folder).has_value());
  EXPECT_FALSE(load_newest(folder / "missing").has_value());
}

TEST_F(CheckpointTest, DamagedNewestIsPassedOverAndReported) {
  save(sample_checkpoint(1), folder);
  const auto newest = save(sample_checkpoint(2), folder);
  fs::resize_file(newest, fs::file_size(newest) / 2);
  std::vector<fs::path> skipped;
  const auto found = load_newest(folder, [&](const fs::path& file, const std::string& why) {
    skipped.push_back(file);
    EXPECT_THAT(why, HasSubstr("truncated"));
  });
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.step, 1u);
  EXPECT_THAT(skipped, ElementsAre(newest));
}

TEST_F(CheckpointTest, AfterAResumeFromAnOlderOneTheDamagedOneIsNotCounted) {
  for (const std::uint64_t step : {100, 200}) save(sample_checkpoint(step), folder);
  fs::resize_file(folder / "checkpoint-000000000200.h5", 1000);
  save(sample_checkpoint(150), folder);
  EXPECT_THAT(names_in(folder), ElementsAre("checkpoint-000000000100.h5", "checkpoint-000000000150.h5",
                                            "checkpoint-000000000200.h5.given-up"));
  EXPECT_EQ(load_newest(folder)->checkpoint.step, 150u);
}

TEST_F(CheckpointTest, WhenNoneIsWholeItRefuses) {
  for (const std::uint64_t step : {1, 2}) fs::resize_file(save(sample_checkpoint(step), folder), 700);
  try {
    (void)load_newest(folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is whole ("));
  }
}

TEST_F(CheckpointTest, NoFlippedBitPassesUnseen) {
  const auto file = save(sample_checkpoint(7), folder);
  const auto damaged = folder / "damaged.h5";
  const auto wanted = sample_checkpoint(7);
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    fs::copy_file(file, damaged, fs::copy_options::overwrite_existing);
    flip_a_bit(damaged, random() % (8 * fs::file_size(file)));
    try {
      expect_equal(load(damaged), wanted);
    } catch (const Atoll::Error&) {
      continue;  // seen
    }
  }
}

TEST_F(CheckpointTest, FullDiskLeavesTheOlderOnesAndNothingElse) {
  save(sample_checkpoint(1), folder);
  const auto descriptors = names_in("/proc/self/fd").size();
  const auto whole = fs::file_size(folder / "checkpoint-000000000001.h5");
  for (const auto limit : {std::uintmax_t{0}, std::uintmax_t{600}, whole / 4, whole / 2, whole - 8}) {
    SCOPED_TRACE(limit);
    {
      const FullDisk full(limit);
      EXPECT_THROW(save(sample_checkpoint(2), folder), SystemError);
    }
    EXPECT_THAT(names_in(folder), ElementsAre("checkpoint-000000000001.h5"));
    EXPECT_EQ(load_newest(folder)->checkpoint.step, 1u);
    EXPECT_EQ(names_in("/proc/self/fd").size(), descriptors) << "a removed part that stays open keeps the disk full";
  }
  save(sample_checkpoint(2), folder);
  EXPECT_EQ(load_newest(folder)->checkpoint.step, 2u);
}

TEST_F(CheckpointTest, AnotherHdf5FileIsNoCheckpoint) {
  const auto letter = image_of(full_letter(LetterKind::status));
  std::ofstream(folder / "letter.h5", std::ios::binary)
      .write(reinterpret_cast<const char*>(letter.data()), static_cast<std::streamsize>(letter.size()));
  EXPECT_THROW((void)load(folder / "letter.h5"), Error);
}

}  // namespace
}  // namespace Atoll::store::test
