#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/resource.h>

#include "atoll/core/error.hpp"
#include "atoll/data/token_file.hpp"
#include "atoll/store/file.hpp"

namespace Atoll::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// Some hundred different lines, with what is hard for a tokenizer: spaces, accents, other scripts.
std::string sample_text() {
  std::string text = "  two spaces, a tab\t, and caf\u00e9 \u65e5\u672c\u8a9e \U0001F3DD\r\n\n\n";
  const char* words[] = {"anchor", "fragment", "letter", "steward", "island", "quorum", "offer", "commit"};
  for (int i = 0; i < 400; ++i)
    text += std::string(words[i % 8]) + " " + words[i / 8 % 8] + " of the " + words[i / 3 % 8] + " " +
            std::to_string(i * i) + ".\n";
  return text + "no line break at the end";
}

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

class TokensTest : public testing::Test {
 protected:
  TokensTest() {
    std::string pattern = (fs::temp_directory_path() / "atoll-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder = pattern;
    request.output = folder / "tokens.h5";
    request.texts = {write("text.txt", sample_text())};
  }
  ~TokensTest() override { fs::remove_all(folder); }

  fs::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder / name;
  }

  std::string all_of(const TokenFile& file, Part part) {
    std::vector<std::int32_t> tokens(file.count(part));
    file.read(part, 0, tokens);
    return file.decode(tokens);
  }

  fs::path folder;
  TokenizeRequest request;
};

TEST_F(TokensTest, BytesComeBackAsTheTextWithItsEndForValidation) {
  tokenize(request);
  const TokenFile file(request.output);
  EXPECT_EQ(file.tokenizer(), TokenizerKind::byte);
  EXPECT_EQ(file.vocabulary(), 256);
  EXPECT_TRUE(file.restores_text());
  EXPECT_EQ(file.bytes_per_token(), 1);
  EXPECT_EQ(all_of(file, Part::training) + all_of(file, Part::validation), sample_text());
  EXPECT_TRUE(all_of(file, Part::training).ends_with('\n'));
  EXPECT_NEAR(static_cast<double>(file.count(Part::validation)), 0.05 * static_cast<double>(sample_text().size()), 40);
}

TEST_F(TokensTest, ATrainedModelRestoresTheTextWithFewerTokens) {
  request.vocabulary = 400;
  tokenize(request);
  const TokenFile file(request.output);
  EXPECT_EQ(file.tokenizer(), TokenizerKind::sentencepiece);
  EXPECT_EQ(file.vocabulary(), 400);
  EXPECT_TRUE(file.restores_text());
  EXPECT_GT(file.bytes_per_token(), 2);
  EXPECT_EQ(all_of(file, Part::training) + all_of(file, Part::validation), sample_text());
  EXPECT_EQ(file.decode(file.encode(sample_text())), sample_text());
}

TEST_F(TokensTest, EqualTextsGiveEqualFiles) {
  request.vocabulary = 400;
  tokenize(request);
  const TokenFile first(request.output);
  request.output = folder / "again.h5";
  tokenize(request);
  const TokenFile second(request.output);
  EXPECT_EQ(first.digest(), second.digest());
  EXPECT_EQ(store::File::open(folder / "tokens.h5").seal(), store::File::open(folder / "again.h5").seal());
}

TEST_F(TokensTest, AModelCanBeGiven) {
  request.vocabulary = 400;
  tokenize(request);
  const auto model = store::File::open(request.output).read<std::uint8_t>("/tokenizer/sentencepiece_model");
  TokenizeRequest given = request;
  given.output = folder / "given.h5";
  given.vocabulary = 0;
  given.sentencepiece_model = write("spm.model", std::string(model.begin(), model.end()));
  tokenize(given);
  EXPECT_EQ(TokenFile(given.output).digest(), TokenFile(request.output).digest());
}

TEST_F(TokensTest, SourcesAreNamedWithSizeAndSha256) {
  request.texts.push_back(write("abc.txt", "abc"));
  tokenize(request);
  const TokenFile file(request.output);
  ASSERT_EQ(file.sources().size(), 2u);
  EXPECT_EQ(file.sources()[1].name, "abc.txt");
  EXPECT_EQ(file.sources()[1].bytes, 3u);
  EXPECT_EQ(file.sources()[1].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(TokensTest, UnigramLossIsThatOfTheTokenShares) {
  // 4 training tokens a, a, a, b and validation a, b: p(a) = (3 + 1) / (4 + 256), p(b) = (1 + 1) / (4 + 256).
  request.texts = {write("few.txt", "aaabab")};
  request.validation_share = 1.0 / 3;
  tokenize(request);
  const TokenFile file(request.output);
  EXPECT_EQ(file.count(Part::training), 4u);
  EXPECT_NEAR(file.unigram_loss(), -(std::log(4.0 / 260) + std::log(2.0 / 260)) / 2, 1e-12);
}

TEST_F(TokensTest, PiecesAreReadFromAnywhere) {
  tokenize(request);
  const TokenFile file(request.output);
  std::vector<std::int32_t> piece(10);
  file.read(Part::training, 2, piece);
  EXPECT_EQ(file.decode(piece), sample_text().substr(2, 10));
}

TEST_F(TokensTest, MissingAndTruncatedTokenFilesAreRefused) {
  EXPECT_THAT(message_of([&] { TokenFile file(folder / "none.h5"); }), HasSubstr("no such file"));
  tokenize(request);
  for (const std::uintmax_t bytes :
       {fs::file_size(request.output) - 1, fs::file_size(request.output) / 2, std::uintmax_t{100}}) {
    fs::resize_file(request.output, bytes);
    EXPECT_THAT(message_of([&] { TokenFile file(request.output); }), HasSubstr("make it again with atoll tokenize"));
  }
}

TEST_F(TokensTest, DamagedBytesAreRefusedUnlessNothingLiesThere) {
  tokenize(request);
  const auto before = TokenFile(request.output).digest();
  std::size_t refused = 0;
  for (std::uintmax_t offset = 0; offset < fs::file_size(request.output); offset += 97) {
    const auto damaged = folder / "damaged.h5";
    fs::copy_file(request.output, damaged, fs::copy_options::overwrite_existing);
    std::fstream stream(damaged, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const int byte = stream.get();
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(static_cast<char>(byte ^ 0x10));
    stream.close();
    std::string digest = before;
    refused += !message_of([&] { digest = TokenFile(damaged).digest(); }).empty();
    EXPECT_EQ(digest, before) << offset;
  }
  EXPECT_GT(refused, 10u);
}

TEST_F(TokensTest, ATokenBeyondTheVocabularyIsRefused) {
  request.vocabulary = 400;
  tokenize(request);
  const auto good = store::File::open(request.output);
  auto bad = store::File::create(folder / "bad.h5");
  bad.create_group("/sources");
  bad.write<std::uint8_t>("/tokenizer/sentencepiece_model", good.read<std::uint8_t>("/tokenizer/sentencepiece_model"));
  bad.write<std::uint16_t>("/training", std::vector<std::uint16_t>{1, 2, 400, 3});
  bad.write<std::uint16_t>("/validation", std::vector<std::uint16_t>{1, 2});
  for (const auto* name : {"format", "tokenizer"})
    bad.write_attribute("/", name, good.attribute<std::string>("/", name));
  for (const auto* name : {"format_version", "bytes", "restores_text"})
    bad.write_attribute("/", name, good.attribute<std::uint64_t>("/", name));
  bad.write_attribute("/", "vocabulary", good.attribute<std::int64_t>("/", "vocabulary"));
  bad.write_attribute("/", "unigram_loss", good.attribute<double>("/", "unigram_loss"));
  bad.publish();
  EXPECT_THAT(message_of([&] { TokenFile file(folder / "bad.h5"); }),
              HasSubstr("/training holds the token id 400 and the vocabulary ends at 399"));
}

TEST_F(TokensTest, AnotherHdf5FileIsNoTokenFile) {
  store::File::create(folder / "other.h5").publish();
  EXPECT_THAT(message_of([&] { TokenFile file(folder / "other.h5"); }), HasSubstr("no token file"));
}

TEST_F(TokensTest, WhatIsNoUtf8IsRefusedWithItsPlace) {
  for (const std::string bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    request.texts = {write("bad.txt", "abc\n" + bad)};
    EXPECT_THAT(message_of([&] { tokenize(request); }), HasSubstr("byte 4 belongs to no character"));
    EXPECT_FALSE(fs::exists(request.output));
  }
}

TEST_F(TokensTest, UnsuitableRequestsAreRefusedBeforeAnyWork) {
  const auto refused = [&](auto change) {
    auto wrong = request;
    change(wrong);
    return message_of([&] { tokenize(wrong); });
  };
  EXPECT_THAT(refused([&](auto& r) { r.texts = {folder / "none.txt"}; }), HasSubstr("cannot read"));
  EXPECT_THAT(refused([&](auto& r) { r.texts = {folder}; }), HasSubstr("cannot read"));
  EXPECT_THAT(refused([&](auto& r) { r.texts.clear(); }), HasSubstr("nothing to tokenize"));
  EXPECT_THAT(refused([&](auto& r) { r.validation_share = 1; }), HasSubstr("share for validation"));
  EXPECT_THAT(refused([&](auto& r) { r.vocabulary = 99'999; }), HasSubstr("cannot train a SentencePiece model"));
  EXPECT_THAT(refused([&](auto& r) { r.vocabulary = 20; }), HasSubstr("cannot train a SentencePiece model"));
  EXPECT_THAT(refused([&](auto& r) { r.sentencepiece_model = r.texts[0]; }),
              HasSubstr("cannot use the SentencePiece model"));
  EXPECT_THAT(refused([&](auto& r) { r.vocabulary = 400, r.sentencepiece_model = r.texts[0]; }),
              HasSubstr("contradicting"));
  EXPECT_THAT(refused([&](auto& r) { r.texts = {write("a.txt", "a")}; }), HasSubstr("too little text"));
  EXPECT_FALSE(fs::exists(request.output));
}

TEST_F(TokensTest, AnExistingOutputIsOverwrittenOnlyWhenAsked) {
  tokenize(request);
  const auto before = TokenFile(request.output).digest();
  request.texts = {write("other.txt", sample_text() + "more")};
  EXPECT_THAT(message_of([&] { tokenize(request); }), HasSubstr("exists already"));
  EXPECT_EQ(TokenFile(request.output).digest(), before);
  request.overwrite = true;
  tokenize(request);
  EXPECT_NE(TokenFile(request.output).digest(), before);
}

TEST_F(TokensTest, FullDiskLeavesNothingAndTheOlderFile) {
  tokenize(request);
  const auto before = TokenFile(request.output).digest();
  request.overwrite = true;
  rlimit limits{};
  std::signal(SIGXFSZ, SIG_IGN);
  ::getrlimit(RLIMIT_FSIZE, &limits);
  const rlimit small{1000, limits.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(tokenize(request), SystemError);
  ::setrlimit(RLIMIT_FSIZE, &limits);
  EXPECT_EQ(TokenFile(request.output).digest(), before);
  EXPECT_FALSE(fs::exists(request.output.string() + ".part"));
}

TEST_F(TokensTest, ADryRunWritesNothing) {
  request.dry_run = true;
  tokenize(request);
  EXPECT_FALSE(fs::exists(request.output));
}

}  // namespace
}  // namespace Atoll::data
