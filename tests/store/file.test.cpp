#include "atoll/store/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "atoll/store/digest.hpp"
#include "scratch_folder.hpp"

namespace Atoll::store::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class FileTest : public testing::Test {
 protected:
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "sample.h5";

  static std::vector<std::uint16_t> count_to(std::size_t count) {
    std::vector<std::uint16_t> values(count);
    std::iota(values.begin(), values.end(), std::uint16_t{0});
    return values;
  }
};

TEST_F(FileTest, AppearsOnlyWhenItIsPublished) {
  auto file = File::create(path);
  file.write<float>("/a", std::vector{1.0f});
  EXPECT_FALSE(fs::exists(path));
  file.publish();
  EXPECT_TRUE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path.string() + ".part"));
}

TEST_F(FileTest, LeavesNothingWhenItIsGivenUp) {
  { File::create(path).write<float>("/a", std::vector{1.0f}); }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST_F(FileTest, GivesBackDatasetsAttributesAndNames) {
  auto out = File::create(path);
  out.write<std::int32_t>("/group/b.weight", std::vector{1, 2, 3, 4, 5, 6}, {2, 3});
  out.write<std::uint8_t>("/group/a", {});
  out.write_attribute<std::string>("/group", "text", "Atoll");
  out.write_attribute<std::int64_t>("/group/a", "below", -1);
  out.write_attribute<double>("/", "half", 0.5);
  out.publish();

  const auto in = File::open(path);
  EXPECT_THAT(in.members("/group"), ElementsAre("a", "b.weight"));
  EXPECT_THAT(in.shape("/group/b.weight"), ElementsAre(2, 3));
  EXPECT_THAT(in.read<std::int32_t>("/group/b.weight"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(in.read<std::uint8_t>("/group/a").empty());
  EXPECT_EQ(in.attribute<std::string>("/group", "text"), "Atoll");
  EXPECT_EQ(in.attribute<std::int64_t>("/group/a", "below"), -1);
  EXPECT_EQ(in.attribute<double>("/", "half"), 0.5);
  EXPECT_TRUE(in.has("/group/a"));
  EXPECT_FALSE(in.has("/nowhere/a"));
  EXPECT_FALSE(in.has_attribute("/", "none"));
  in.verify();
}

TEST_F(FileTest, AppendedPiecesAreReadFromAnywhere) {
  const auto values = count_to(200'000);
  auto out = File::create(path);
  for (std::size_t first = 0; first < values.size(); first += 30'001)
    out.append<std::uint16_t>("/tokens",
                              std::span(values).subspan(first, std::min<std::size_t>(30'001, values.size() - first)));
  out.append<std::uint16_t>("/none", {});
  out.publish();

  const auto in = File::open(path);
  EXPECT_THAT(in.shape("/tokens"), ElementsAre(200'000));
  EXPECT_THAT(in.shape("/none"), ElementsAre(0));
  EXPECT_EQ(in.element_bytes("/tokens"), 2u);
  std::vector<std::uint16_t> piece(5);
  in.read<std::uint16_t>("/tokens", 65'530, piece);
  EXPECT_THAT(piece, ElementsAre(65'530, 65'531, 65'532, 65'533, 65'534));
  EXPECT_THROW(in.read<std::uint16_t>("/tokens", 199'998, piece), Error);
  in.verify();
}

TEST_F(FileTest, SealIsEqualForEqualContentHoweverItWasWritten) {
  const auto values = count_to(100'000);
  const auto other = scratch.path() / "other.h5";
  auto at_once = File::create(path);
  at_once.write<std::uint16_t>("/tokens", values);
  at_once.publish();
  auto in_pieces = File::create(other);
  in_pieces.append<std::uint16_t>("/tokens", std::span(values).first(777));
  in_pieces.append<std::uint16_t>("/tokens", std::span(values).subspan(777));
  in_pieces.publish();
  EXPECT_EQ(File::open(path).seal(), File::open(other).seal());
}

TEST_F(FileTest, AnotherTypeIsAnErrorAndNotAConversion) {
  auto out = File::create(path);
  out.write<float>("/a", std::vector{1.0f});
  out.write_attribute<std::uint64_t>("/", "n", 1);
  out.publish();
  const auto in = File::open(path);
  EXPECT_THROW((void)in.read<std::int32_t>("/a"), Error);
  EXPECT_THROW((void)in.attribute<double>("/", "n"), Error);
  EXPECT_THROW((void)in.read<float>("/b"), Error);
}

TEST_F(FileTest, MissingTruncatedAndForeignFilesAreErrors) {
  EXPECT_THROW((void)File::open(path), Error);
  std::ofstream(path) << "In the beginning";
  EXPECT_THROW((void)File::open(path), Error);
  EXPECT_THROW((void)File::create(scratch.path() / "missing" / "a.h5"), SystemError);
}

TEST(Digest, AgreesWithPublishedValues) {
  // BLAKE2b-128 and SHA-256 of "abc", from other implementations.
  EXPECT_EQ(digest_of("abc").hex(), "cf4ab791c62b8d2b2109c90275287816");
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "abc") << "abc";
  EXPECT_EQ(sha256_of_file(scratch.path() / "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_THROW((void)sha256_of_file(scratch.path() / "missing"), SystemError);
}

TEST(Digest, OfPartsIsTheDigestOfTheWhole) {
  const std::string text = "abc";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(digest_of({bytes.first(1), bytes.subspan(1)}), digest_of("abc"));
}

TEST(ValuesDigest, AgreesWithAnotherImplementation) {
  // Python's xxhash: xxh3_128 over the joined xxh3_128 digests of the arrays.
  EXPECT_EQ(digest_of_values(std::span<const std::span<const float>>{}).hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of_values({std::vector<float>{1, 2, 3}, std::vector<float>{0.5F}}).hex(),
            "f1d835d08a9cee5b5714d87107f2ffd9");
  std::vector<float> many(100000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i % 1000);
  EXPECT_EQ(digest_of_values({many}).hex(), "e7c3e7060c571fbb1735a461b715ae9d");
}

TEST(ValuesDigest, OfPiecesIsTheDigestOfTheWhole) {
  std::vector<float> a(3000, 0.25F), b(1000, -1.0F);
  ValuesDigest pieces(2);
  pieces.add(1, std::span(b).first(10));
  pieces.add(0, std::span(a).first(1024));
  pieces.add(1, std::span(b).subspan(10));
  pieces.add(0, std::span(a).subspan(1024));
  EXPECT_EQ(pieces.finish(), digest_of_values({a, b}));
  EXPECT_NE(pieces.finish(), digest_of_values({b, a}));
  // Where one array ends and the next begins counts.
  std::vector<float> joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  EXPECT_NE(pieces.finish(), digest_of_values({joined}));
}

}  // namespace
}  // namespace Atoll::store::test
