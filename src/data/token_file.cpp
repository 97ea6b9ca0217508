#include "atoll/data/token_file.hpp"

#include <algorithm>
#include <optional>

#include "atoll/core/error.hpp"
#include "atoll/store/digest.hpp"
#include "atoll/store/file.hpp"
#include "token_form.hpp"
#include "tokenizer.hpp"

namespace Atoll::data {
namespace {

const char* dataset_of(Part part) { return part == Part::training ? training_dataset : validation_dataset; }

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw ConfigError("cannot use the token file " + file.string(), why, "make it again with atoll tokenize");
}

// What is wrong with the file; the constructor says which file it is.
[[noreturn]] void unsuitable(const std::string& why) { throw store::Error("unsuitable", why, "make it again"); }

template <class Token>
std::uint64_t largest_token(const store::File& file, const char* dataset, std::uint64_t count) {
  std::vector<Token> piece(std::min<std::uint64_t>(count, 1 << 20));
  Token largest = 0;
  for (std::uint64_t first = 0; first < count; first += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), count - first));
    file.read<Token>(dataset, first, piece);
    largest = std::max(largest, *std::ranges::max_element(piece));
  }
  return largest;
}

std::vector<Source> read_sources(const store::File& file) {
  std::vector<Source> sources(file.members("/sources").size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string group = "/sources/" + std::to_string(i);
    sources[i] = {file.attribute<std::string>(group, "name"), file.attribute<std::uint64_t>(group, "bytes"),
                  file.attribute<std::string>(group, "sha256")};
  }
  return sources;
}

Tokenizer read_tokenizer(const store::File& file) {
  const auto kind = file.attribute<std::string>("/", "tokenizer");
  if (kind == name_of(TokenizerKind::byte)) return Tokenizer();
  if (kind != name_of(TokenizerKind::sentencepiece))
    unsuitable("its tokenizer '" + kind + "' is not known to this version");
  const auto model = file.read<std::uint8_t>(model_dataset);
  return Tokenizer(std::string(model.begin(), model.end()));
}

void expect_format(const store::File& file) {
  if (!file.has_attribute("/", "format") || file.attribute<std::string>("/", "format") != token_format)
    unsuitable("it is an HDF5 file, but no token file");
  const auto version = file.attribute<std::uint64_t>("/", "format_version");
  if (version != token_format_version)
    unsuitable("it has format version " + std::to_string(version));
}

}  // namespace

struct TokenFile::State {
  explicit State(const std::filesystem::path& path) : file(store::File::open(path)) {
    expect_format(file);
    file.verify();
    tokenizer = read_tokenizer(file);
    vocabulary = file.attribute<std::int64_t>("/", "vocabulary");
    bytes = file.attribute<std::uint64_t>("/", "bytes");
    unigram_loss = file.attribute<double>("/", "unigram_loss");
    restores_text = file.attribute<std::uint64_t>("/", "restores_text") != 0;
    sources = read_sources(file);
    if (vocabulary != tokenizer.vocabulary())
      unsuitable("it names a vocabulary of " + std::to_string(vocabulary) + " and its tokenizer has " +
                 std::to_string(tokenizer.vocabulary()));
    training = counted(training_dataset);
    validation = counted(validation_dataset);
  }

  /// The number of tokens, after a look at all of them.
  std::uint64_t counted(const char* dataset) const {
    const auto shape = file.shape(dataset);
    if (shape.size() != 1) unsuitable(std::string(dataset) + " is not one-dimensional");
    const auto largest = with_token_type(
        vocabulary, [&](auto token) { return largest_token<decltype(token)>(file, dataset, shape[0]); });
    if (shape[0] > 0 && largest >= static_cast<std::uint64_t>(vocabulary))
      unsuitable(std::string(dataset) + " holds the token id " + std::to_string(largest) +
                 " and the vocabulary ends at " + std::to_string(vocabulary - 1));
    return shape[0];
  }

  store::File file;
  Tokenizer tokenizer;
  std::int64_t vocabulary = 0;
  std::uint64_t bytes = 0;
  double unigram_loss = 0;
  bool restores_text = false;
  std::vector<Source> sources;
  std::uint64_t training = 0;
  std::uint64_t validation = 0;
};

TokenFile::TokenFile(const std::filesystem::path& file) try : state_(std::make_unique<State>(file)) {
} catch (const store::Error& error) {
  refuse(file, error.why());
}
TokenFile::TokenFile(TokenFile&&) noexcept = default;
TokenFile::~TokenFile() = default;

std::uint64_t TokenFile::count(Part part) const {
  return part == Part::training ? state_->training : state_->validation;
}
std::int64_t TokenFile::vocabulary() const { return state_->vocabulary; }
const std::vector<Source>& TokenFile::sources() const { return state_->sources; }
TokenizerKind TokenFile::tokenizer() const { return state_->tokenizer.kind(); }
bool TokenFile::restores_text() const { return state_->restores_text; }
double TokenFile::unigram_loss() const { return state_->unigram_loss; }

std::string TokenFile::digest() const {
  std::string text = std::string(name_of(tokenizer())) + " " + store::digest_of(state_->tokenizer.model()).hex();
  for (const auto part : {Part::training, Part::validation}) text += " " + state_->file.digest(dataset_of(part)).hex();
  return store::digest_of(text).hex();
}

double TokenFile::bytes_per_token() const {
  const auto tokens = state_->training + state_->validation;
  return tokens == 0 ? 0 : static_cast<double>(state_->bytes) / static_cast<double>(tokens);
}

void TokenFile::read(Part part, std::uint64_t first, std::span<std::int32_t> into) const {
  ATOLL_EXPECT(first + into.size() <= count(part), "tokens beyond the end");
  with_token_type(state_->vocabulary, [&](auto token) {
    std::vector<decltype(token)> stored(into.size());
    state_->file.read<decltype(token)>(dataset_of(part), first, stored);
    std::ranges::copy(stored, into.begin());
  });
}

std::string TokenFile::decode(std::span<const std::int32_t> tokens) const { return state_->tokenizer.decode(tokens); }
std::vector<std::int32_t> TokenFile::encode(const std::string& text) const { return state_->tokenizer.encode(text); }

}  // namespace Atoll::data
