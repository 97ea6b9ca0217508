#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/data/token_file.hpp"

#include "sentencepiece_door.hpp"

namespace Atoll::data {

/// Text to tokens and back. Local; any thread. Owns the model.
class Tokenizer {
 public:
  /// One token per byte.
  Tokenizer();
  /// A SentencePiece model in its own byte form. @throws ConfigError  it is none
  explicit Tokenizer(std::string model);
  /// Trains a byte-pair model on the texts: equal texts give equal models. Minutes for gigabytes.
  /// @throws ConfigError  the vocabulary is too small for the characters or too large for the texts
  [[nodiscard]] static Tokenizer trained_on(const std::vector<std::string>& texts, std::int64_t vocabulary);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  [[nodiscard]] TokenizerKind kind() const;
  [[nodiscard]] std::int64_t vocabulary() const;
  [[nodiscard]] const std::string& model() const { return model_; }

  /// Works line by line, a line break belonging to the line that it ends, so that long texts need no long memory.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  std::string model_;
  std::unique_ptr<Pieces> pieces_;  ///< null: byte-level
};

/// Calls `use(line)` for each line of the text, with its line break.
template <class Use>
void each_line(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    use(line);
    text.remove_prefix(line.size());
  }
}

}  // namespace Atoll::data
