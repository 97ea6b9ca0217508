#include "atoll/federation/record_keeper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "atoll/core/error.hpp"
#include "sample_letters.hpp"
#include "scratch_folder.hpp"

namespace Atoll::federation::test {
namespace {

using store::LetterFolder;
using store::LetterKind;
using store::test::full_letter;
using store::test::ScratchFolder;

TEST(LetterFolder, ALetterComesBackAsItWasKept) {
  const ScratchFolder scratch;
  const LetterFolder folder(scratch.path() / "letters");
  const auto kept = folder.keep(full_letter(LetterKind::commit));
  EXPECT_EQ(kept.file, "0003-000000000041-0001-00000000000000000007-commit.h5");
  EXPECT_EQ(store::test::image_of(folder.read(kept)), store::test::image_of(full_letter(LetterKind::commit)));
  EXPECT_EQ(std::filesystem::file_size(scratch.path() / "letters" / kept.file), kept.bytes);
}

TEST(LetterFolder, NamesSortByFragmentVersionSiteAndSerial) {
  auto letter = full_letter(LetterKind::offer);
  std::vector<std::string> names{LetterFolder::stem(letter)};
  for (auto grow : {+[](store::Letter& l) { l.serial = 1'790'000'000'000'000; },
                    +[](store::Letter& l) {
                      l.site = {20};
                      l.serial = 1;
                    },
                    +[](store::Letter& l) {
                      l.version = 1000;
                      l.site = {0};
                    },
                    +[](store::Letter& l) {
                      l.fragment = {11};
                      l.version = 0;
                    }}) {
    grow(letter);
    names.push_back(LetterFolder::stem(letter));
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

TEST(LetterFolder, NothingIsOverwritten) {
  const ScratchFolder scratch;
  const LetterFolder folder(scratch.path());
  auto letter = full_letter(LetterKind::offer);
  const auto first = folder.keep(letter);
  letter.tokens = 5;
  const auto second = folder.keep(letter);
  EXPECT_NE(first.file, second.file);
  EXPECT_EQ(folder.read(first).tokens, full_letter(LetterKind::offer).tokens);
  EXPECT_EQ(folder.read(second).tokens, 5);
}

TEST(LetterFolder, DamagedAndMissingLettersAreNamed) {
  const ScratchFolder scratch;
  const LetterFolder folder(scratch.path());
  const auto kept = folder.keep(full_letter(LetterKind::offer));
  std::filesystem::resize_file(scratch.path() / kept.file, kept.bytes - 1);
  EXPECT_THROW((void)folder.read(kept), store::Error);
  std::filesystem::remove(scratch.path() / kept.file);
  EXPECT_THROW((void)folder.read(kept), store::Error);
}

TEST(LetterFolder, ADiskThatFillsInTheMiddleOfALetterLeavesNothingBehind) {
  const ScratchFolder scratch;
  const LetterFolder folder(scratch.path());
  std::signal(SIGXFSZ, SIG_IGN);  // as the program does
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW((void)folder.keep(full_letter(LetterKind::commit)), SystemError);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(RecordKeeper, AFolderThatCannotBeMadeEndsNothingAndIsSaidOnceAndNotedEachTime) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "in the way";
  EventLog log(scratch.path() / "log.jsonl");
  RecordKeeper keeper(KeepLetters::all, LetterFolder(scratch.path() / "file" / "letters"), {"alpha", "beta"}, log);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) keeper.keep({full_letter(LetterKind::commit), {full_letter(LetterKind::offer)}});
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  std::ifstream stream(scratch.path() / "log.jsonl");
  int noted = 0;
  for (std::string line; std::getline(stream, line);) noted += line.find(R"("event":"not_kept")") != std::string::npos;
  EXPECT_EQ(noted, 4);
}

TEST(RecordKeeper, CommitsLeavesTheOffersOut) {
  const ScratchFolder scratch;
  EventLog log;
  RecordKeeper keeper(KeepLetters::commits, LetterFolder(scratch.path()), {"alpha", "beta"}, log);
  keeper.keep({full_letter(LetterKind::commit), {full_letter(LetterKind::offer)}});
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    files += entry.path().filename().string().ends_with("commit.h5");
  EXPECT_EQ(files, 1);
}

TEST(RecordKeeper, BytesPerRoundAreFourForEachParameterAndLetter) {
  EXPECT_EQ(kept_bytes_per_round(KeepLetters::none, 1000, 3), 0);
  EXPECT_EQ(kept_bytes_per_round(KeepLetters::commits, 1000, 3), 4000);
  EXPECT_EQ(kept_bytes_per_round(KeepLetters::all, 1000, 3), 16000);
}

}  // namespace
}  // namespace Atoll::federation::test
