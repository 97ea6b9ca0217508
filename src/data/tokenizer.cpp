#include "tokenizer.hpp"

#include <algorithm>

#include "atoll/core/error.hpp"
#include "utf8.hpp"

namespace Atoll::data {
namespace {

constexpr std::int64_t byte_vocabulary = 256;
constexpr std::size_t longest_sentence = 4000;  // SentencePiece passes over sentences of more than 4192 bytes

// The texts' lines as training sentences, long ones in pieces.
std::vector<std::string_view> sentences_of(const std::vector<std::string>& texts) {
  std::vector<std::string_view> sentences;
  for (const auto& text : texts)
    each_line(text, [&](std::string_view line) {
      if (line.ends_with('\n')) line.remove_suffix(1);
      while (!line.empty()) {
        sentences.push_back(line.substr(0, next_character(line, std::min(longest_sentence, line.size()))));
        line.remove_prefix(sentences.back().size());
      }
    });
  return sentences;
}

}  // namespace

std::string_view name_of(TokenizerKind kind) { return kind == TokenizerKind::byte ? "byte" : "sentencepiece"; }

Tokenizer::Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer::Tokenizer(std::string model) : model_(std::move(model)) {
  std::string error;
  pieces_ = sentencepiece_door().open(model_, error);
  if (!pieces_) throw ConfigError("cannot use the SentencePiece model", error, "use a .model file of spm_train");
}

Tokenizer Tokenizer::trained_on(const std::vector<std::string>& texts, std::int64_t vocabulary) {
  std::string model;
  const auto error = sentencepiece_door().train(sentences_of(texts), vocabulary, model);
  if (!error.empty())
    throw ConfigError("cannot train a SentencePiece model with " + std::to_string(vocabulary) + " pieces", error,
                      "choose another --vocabulary; it must hold 257 pieces and every character, and the text must be "
                      "long enough");
  return Tokenizer(std::move(model));
}

TokenizerKind Tokenizer::kind() const { return pieces_ ? TokenizerKind::sentencepiece : TokenizerKind::byte; }

std::int64_t Tokenizer::vocabulary() const { return pieces_ ? pieces_->size() : byte_vocabulary; }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  if (!pieces_) {
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  std::vector<int> line_tokens;
  each_line(text, [&](std::string_view line) {
    const auto error = pieces_->encode(line, line_tokens);
    if (!error.empty()) throw Error("cannot tokenize a line (" + error + ") use a byte-level vocabulary");
    tokens.insert(tokens.end(), line_tokens.begin(), line_tokens.end());
  });
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  if (!pieces_) {
    for (const auto token : tokens) text += static_cast<char>(token);
    return text;
  }
  const auto error = pieces_->decode(std::vector<int>(tokens.begin(), tokens.end()), text);
  if (!error.empty())
    throw Error("cannot turn tokens into text (" + error + ") use the token file that they belong to");
  return text;
}

}  // namespace Atoll::data
