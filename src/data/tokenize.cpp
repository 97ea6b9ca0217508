#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>

#include "atoll/core/error.hpp"
#include "atoll/data/token_file.hpp"
#include "atoll/store/digest.hpp"
#include "atoll/store/file.hpp"
#include "token_form.hpp"
#include "tokenizer.hpp"
#include "utf8.hpp"

namespace Atoll::data {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  if (!stream || fs::is_directory(file) || !(content << stream.rdbuf()))
    throw ConfigError("cannot read " + file.string(), "it is missing, empty or may not be read",
                      "check the names of the texts");
  return std::move(content).str();
}

std::string text_of(const fs::path& file) {
  auto text = content_of(file);
  if (const auto offence = first_offence(text))
    throw ConfigError(file.string() + " is no UTF-8 text",
                      "byte " + std::to_string(*offence) + " belongs to no character",
                      "convert it with iconv -t UTF-8");
  return text;
}

void expect_sensible(const TokenizeRequest& request) {
  if (request.texts.empty())
    throw ConfigError("nothing to tokenize", "no text was named", "name at least one UTF-8 file");
  if (!(request.validation_share > 0 && request.validation_share < 1))
    throw ConfigError("wrong share for validation", "it must lie between 0 and 1", "use for example 0.05");
  if (request.vocabulary != 0 && !request.sentencepiece_model.empty())
    throw ConfigError("contradicting tokenizers", "a size to train and a trained model were both given",
                      "give one of them");
  if (request.vocabulary < 0) throw ConfigError("wrong vocabulary", "it is negative", "use 0 for bytes or, say, 4096");
  if (!request.overwrite && fs::exists(request.output))
    throw ConfigError(request.output.string() + " exists already", "it was not to be overwritten",
                      "choose another output or say --overwrite");
}

// Where validation begins: after a line break if one follows, never inside a character.
std::size_t cut_of(std::string_view text, double validation_share) {
  const auto wanted = static_cast<std::size_t>(static_cast<double>(text.size()) * (1 - validation_share));
  const auto line_end = text.find('\n', wanted);
  return line_end < text.size() - 1 ? line_end + 1 : next_character(text, wanted);
}

/// Counts of every token, for the unigram model.
class TokenCounts {
 public:
  explicit TokenCounts(std::int64_t vocabulary) : counts_(static_cast<std::size_t>(vocabulary)) {}
  void add(std::span<const std::int32_t> tokens) {
    for (const auto token : tokens) ++counts_[static_cast<std::size_t>(token)];
    total_ += tokens.size();
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }

  /// Mean of -log p over `these`, where p is a token's share in `model` with one added to each count (Laplace), so that
  /// unseen tokens cost much and not infinitely much [nats per token].
  static double cross_entropy(const TokenCounts& these, const TokenCounts& model) {
    const auto size = static_cast<double>(model.total_ + model.counts_.size());
    double sum = 0;
    for (std::size_t token = 0; token < these.counts_.size(); ++token)
      sum -= static_cast<double>(these.counts_[token]) * std::log(static_cast<double>(model.counts_[token] + 1) / size);
    return these.total_ == 0 ? 0 : sum / static_cast<double>(these.total_);
  }

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

/// Writes one token file from one request.
class Writer {
 public:
  Writer(const TokenizeRequest& request, const Tokenizer& tokenizer)
      : request_(request), tokenizer_(tokenizer), file_(store::File::create(request.output)),
        training_(tokenizer.vocabulary()), validation_(tokenizer.vocabulary()) {
    file_.create_group("/sources");
    file_.create_group("/tokenizer");
    add(training_dataset, "", training_);
    add(validation_dataset, "", validation_);
  }

  void add_text(const fs::path& path, std::string_view text) {
    const auto cut = cut_of(text, request_.validation_share);
    add(training_dataset, text.substr(0, cut), training_);
    add(validation_dataset, text.substr(cut), validation_);
    const std::string group = "/sources/" + std::to_string(texts_++);
    file_.create_group(group);
    file_.write_attribute(group, "name", path.filename().string());
    file_.write_attribute<std::uint64_t>(group, "bytes", text.size());
    file_.write_attribute(group, "sha256", store::sha256_of_file(path));
    bytes_ += text.size();
  }

  void publish() {
    if (training_.total() < 2 || validation_.total() < 2)
      throw ConfigError("too little text", "the training or the validation part is empty", "use more text");
    if (tokenizer_.kind() == TokenizerKind::sentencepiece) {
      const auto& model = tokenizer_.model();
      file_.write<std::uint8_t>(model_dataset, std::vector<std::uint8_t>(model.begin(), model.end()));
    }
    file_.write_attribute<std::string>("/", "format", token_format);
    file_.write_attribute("/", "format_version", token_format_version);
    file_.write_attribute<std::string>("/", "tokenizer", std::string(name_of(tokenizer_.kind())));
    file_.write_attribute<std::int64_t>("/", "vocabulary", tokenizer_.vocabulary());
    file_.write_attribute<std::uint64_t>("/", "bytes", bytes_);
    file_.write_attribute<double>("/", "unigram_loss", TokenCounts::cross_entropy(validation_, training_));
    file_.write_attribute<std::uint64_t>("/", "restores_text", restores_text_);
    file_.publish();
  }

 private:
  void add(const char* dataset, std::string_view text, TokenCounts& counts) {
    const auto tokens = tokenizer_.encode(text);
    restores_text_ = restores_text_ && tokenizer_.decode(tokens) == text;
    counts.add(tokens);
    with_token_type(tokenizer_.vocabulary(), [&](auto token) {
      const std::vector<decltype(token)> narrow(tokens.begin(), tokens.end());
      file_.append<decltype(token)>(dataset, narrow);
    });
  }

  const TokenizeRequest& request_;
  const Tokenizer& tokenizer_;
  store::File file_;
  TokenCounts training_;
  TokenCounts validation_;
  std::size_t texts_ = 0;
  std::uint64_t bytes_ = 0;
  bool restores_text_ = true;
};

void tell(const TokenizeRequest& request, std::string_view stage, double share) {
  if (request.progress) request.progress(stage, share);
}

Tokenizer tokenizer_for(const TokenizeRequest& request, const std::vector<std::string>& texts) {
  if (!request.sentencepiece_model.empty()) return Tokenizer(content_of(request.sentencepiece_model));
  if (request.vocabulary == 0) return Tokenizer();
  tell(request, "training the tokenizer", 0);
  // Only what the network trains on may shape the tokenizer.
  std::vector<std::string> training;
  for (const auto& text : texts) training.push_back(text.substr(0, cut_of(text, request.validation_share)));
  auto tokenizer = Tokenizer::trained_on(training, request.vocabulary);
  tell(request, "training the tokenizer", 1);
  return tokenizer;
}

}  // namespace

void tokenize(const TokenizeRequest& request) {
  expect_sensible(request);
  std::vector<std::string> texts;
  std::size_t all_bytes = 0, bytes = 0;
  for (const auto& path : request.texts) {
    texts.push_back(text_of(path));
    all_bytes += texts.back().size();
  }
  if (all_bytes == 0) throw ConfigError("too little text", "all texts are empty", "use more text");
  if (request.dry_run) return;
  const auto tokenizer = tokenizer_for(request, texts);
  Writer writer(request, tokenizer);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tell(request, "tokenizing", static_cast<double>(bytes) / static_cast<double>(all_bytes));
    writer.add_text(request.texts[i], texts[i]);
    bytes += texts[i].size();
  }
  tell(request, "tokenizing", 1);
  writer.publish();
}

}  // namespace Atoll::data
