#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Internal to data: the only door to SentencePiece.
//
// SentencePiece stands behind a shared library of its own, loaded when a model is first needed: the library of Debian
// exports an old protobuf of its own, which in one link with LibTorch's protobuf crashes before main().
namespace Atoll::data {

/// A SentencePiece model. Errors are texts, since exceptions do not cross the border of the library.
class Pieces {
 public:
  virtual ~Pieces() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Both return what went wrong, or nothing.
  [[nodiscard]] virtual std::string encode(std::string_view line, std::vector<int>& tokens) const = 0;
  [[nodiscard]] virtual std::string decode(const std::vector<int>& tokens, std::string& text) const = 0;
};

/// What the shared library offers.
struct SentencePieceDoor {
  /// Null and a text in `error` when `model` is no model.
  std::unique_ptr<Pieces> (*open)(const std::string& model, std::string& error);
  /// Trains on sentences of at most 4192 bytes each; returns what went wrong, or nothing and the model.
  std::string (*train)(const std::vector<std::string_view>& sentences, std::int64_t vocabulary, std::string& model);
};

/// Loads the library from beside the program or from its lib folder; once per process.
/// @throws Error  it is not there
[[nodiscard]] const SentencePieceDoor& sentencepiece_door();

}  // namespace Atoll::data
