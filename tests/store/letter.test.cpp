#include "atoll/store/letter.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "sample_letters.hpp"

namespace Atoll::store::test {
namespace {

constexpr std::array all_kinds{LetterKind::status,           LetterKind::offer,    LetterKind::commit,
                               LetterKind::snapshot_request, LetterKind::snapshot, LetterKind::leave};

void expect_equal(const Values& found, const Values& wanted) {
  ASSERT_EQ(found == nullptr, wanted == nullptr);
  if (wanted) {
    EXPECT_EQ(*found, *wanted);
  }
}

void expect_equal(const Letter& found, const Letter& wanted) {
  EXPECT_EQ(found.kind, wanted.kind);
  EXPECT_EQ(found.federation, wanted.federation);
  EXPECT_EQ(found.configuration, wanted.configuration);
  EXPECT_EQ(found.site, wanted.site);
  EXPECT_EQ(found.incarnation, wanted.incarnation);
  EXPECT_EQ(found.fragment, wanted.fragment);
  EXPECT_EQ(found.version, wanted.version);
  EXPECT_EQ(found.parent, wanted.parent);
  EXPECT_EQ(found.anchor, wanted.anchor);
  EXPECT_EQ(found.serial, wanted.serial);
  EXPECT_EQ(found.steps, wanted.steps);
  EXPECT_EQ(found.tokens, wanted.tokens);
  EXPECT_EQ(found.offers, wanted.offers);
  EXPECT_EQ(found.fragments, wanted.fragments);
  EXPECT_EQ(found.inner_step, wanted.inner_step);
  EXPECT_EQ(found.finished, wanted.finished);
  EXPECT_EQ(found.ready, wanted.ready);
  EXPECT_EQ(found.joining, wanted.joining);
  expect_equal(found.values, wanted.values);
  expect_equal(found.momentum, wanted.momentum);
}

TEST(Letter, EveryKindComesBackAsItWasWritten) {
  for (const auto kind : all_kinds) {
    SCOPED_TRACE(name_of(kind));
    const auto letter = full_letter(kind);
    expect_equal(decode(image_of(letter)), letter);
  }
}

TEST(Letter, DefaultsComeBackAsDefaults) {
  for (const auto kind : all_kinds) {
    Letter letter;
    letter.kind = kind;
    expect_equal(decode(image_of(letter)), letter);
  }
}

TEST(Letter, EmptyValuesAreNotMissingValues) {
  Letter letter;
  letter.values = ramp(0, 0);
  expect_equal(decode(image_of(letter)), letter);
}

TEST(Letter, EqualLettersGiveEqualBytesWhateverTheMemoryHeldBefore) {
  const auto first = image_of(full_letter(LetterKind::commit), std::byte{0x00});
  const auto second = image_of(full_letter(LetterKind::commit), std::byte{0xff});
  EXPECT_EQ(first, second);
}

TEST(Letter, ImageStaysWithinItsBound) {
  auto letter = full_letter(LetterKind::status, 0);
  letter.federation.assign(4096, 'f');
  for (const std::size_t count : {1, 100, 2000}) {
    letter.fragments.resize(count, letter.fragments.front());
    letter.offers.resize(count, letter.offers.front());
    EXPECT_LE(image_of(letter).size(), image_bound(0, count, count));
  }
}

TEST(Letter, MemoryBehindTheSlotIsLeftAlone) {
  const auto letter = full_letter(LetterKind::offer);
  const std::size_t size = image_of(letter).size();
  std::vector<std::byte> memory(size + 64, std::byte{0x5a});
  EXPECT_EQ(encode(letter, std::span(memory).first(size)), size);
  for (std::size_t i = size; i < memory.size(); ++i) EXPECT_EQ(memory[i], std::byte{0x5a});
}

TEST(Letter, SlotThatIsTooSmallIsAnError) {
  const auto letter = full_letter(LetterKind::offer);
  for (const std::size_t size : {0, 100, 1000, 3000}) {
    std::vector<std::byte> memory(size);
    EXPECT_THROW(encode(letter, memory), Error) << size;
  }
}

TEST(Letter, DecodingLeavesTheImageUntouched) {
  const auto image = image_of(full_letter(LetterKind::snapshot));
  const auto before = image;
  (void)decode(image);
  EXPECT_EQ(image, before);
}

TEST(Letter, ThreadsWriteAndReadAtTheSameTime) {
  std::array<bool, 4> whole{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < whole.size(); ++t)
      threads.emplace_back([&whole, t] {
        auto letter = full_letter(LetterKind::offer);
        bool all = true;
        for (std::uint64_t serial = 0; serial < 50; ++serial) {
          letter.serial = serial;
          all = all && decode(image_of(letter)).serial == serial;
        }
        whole[t] = all;
      });
  }
  for (const bool all : whole) EXPECT_TRUE(all);
}

}  // namespace
}  // namespace Atoll::store::test
