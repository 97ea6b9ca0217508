#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace Atoll::data {

enum class Part { training, validation };

enum class TokenizerKind { byte, sentencepiece };
[[nodiscard]] std::string_view name_of(TokenizerKind kind);

/// A text that went into a token file.
struct Source {
  std::string name;    ///< base name of the file
  std::uint64_t bytes = 0;
  std::string sha256;  ///< 64 hexadecimal digits
};

/// An HDF5 token file opened for reading (layout: src/data/TOKENS.md). Local; one thread at a time. Owns the handle.
class TokenFile {
 public:
  /// Reads the whole file once to check its seal and that every token id is within the vocabulary.
  /// @throws ConfigError  missing, truncated, damaged, no token file, or a token id is beyond the vocabulary
  explicit TokenFile(const std::filesystem::path& file);
  TokenFile(TokenFile&&) noexcept;
  ~TokenFile();

  [[nodiscard]] std::uint64_t count(Part part) const;       ///< [tokens]
  [[nodiscard]] std::int64_t vocabulary() const;
  [[nodiscard]] const std::vector<Source>& sources() const;
  [[nodiscard]] TokenizerKind tokenizer() const;
  /// Whether decoding the tokens gives back the texts to the byte.
  [[nodiscard]] bool restores_text() const;
  /// Digest of tokenizer and tokens as 32 hexadecimal digits: equal files train equal models.
  [[nodiscard]] std::string digest() const;
  /// Mean bytes of text per token, to turn nats per token into bits per byte.
  [[nodiscard]] double bytes_per_token() const;
  /// Loss of a unigram model of the training part on the validation part [nats per token].
  [[nodiscard]] double unigram_loss() const;

  /// Reads into[0..] from token `first` on. @pre first + into.size() <= count(part)
  void read(Part part, std::uint64_t first, std::span<std::int32_t> into) const;

  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  [[nodiscard]] std::vector<std::int32_t> encode(const std::string& text) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What `atoll tokenize` is asked to do.
struct TokenizeRequest {
  std::vector<std::filesystem::path> texts;        ///< UTF-8
  std::filesystem::path output;
  std::int64_t vocabulary = 0;  ///< 0 = byte-level (256); else a SentencePiece model of that size is trained
  std::filesystem::path sentencepiece_model;       ///< a given model instead of a trained one
  double validation_share = 0.05;                  ///< the end of each text
  bool overwrite = false;
  bool dry_run = false;                            ///< only read and check
  /// Told what is being done and which share of it is done [0..1].
  std::function<void(std::string_view stage, double share)> progress;
};

/// Writes a token file: aside, synced, renamed.
/// @throws ConfigError  a text is missing, empty or not UTF-8; the output exists; the vocabulary does not suit the
/// texts
/// @throws SystemError  disk full or file system gone: nothing is left, and an older output is untouched
void tokenize(const TokenizeRequest& request);

/// `text` for people and log files: what is no UTF-8 in it becomes U+FFFD, as a byte-level model may sample anything.
[[nodiscard]] std::string readable(std::string_view text);

}  // namespace Atoll::data
