// The shared library libatoll_sentencepiece: nothing but SentencePiece behind the interface of sentencepiece_door.hpp.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "sentencepiece_door.hpp"

namespace Atoll::data {
namespace {

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string_view>& sentences) : sentences_(sentences) { load(); }
  [[nodiscard]] bool done() const override { return next_ == sentences_.size(); }
  void Next() override {
    ++next_;
    load();
  }
  [[nodiscard]] const std::string& value() const override { return sentence_; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }

 private:
  void load() {
    if (!done()) sentence_ = sentences_[next_];
  }

  const std::vector<std::string_view>& sentences_;
  std::size_t next_ = 0;
  std::string sentence_;
};

// Nothing of the text is normalised away, and what has no piece of its own becomes bytes: decoding restores the text.
std::unordered_map<std::string, std::string> training_options(std::int64_t vocabulary) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocabulary)},
          {"character_coverage", "0.9999"},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"},
          {"unk_id", "0"},
          {"bos_id", "-1"},
          {"eos_id", "-1"},
          {"pad_id", "-1"},
          {"num_threads", "1"},
          {"minloglevel", "3"}};
}

std::string text_of(const sentencepiece::util::Status& status) { return status.ok() ? "" : status.ToString(); }

class Model : public Pieces {
 public:
  [[nodiscard]] std::string load(const std::string& model) {
    sentencepiece::SetMinLogLevel(3);  // it would write into our progress line; every status is checked instead
    return text_of(processor_.LoadFromSerializedProto(model));
  }
  [[nodiscard]] std::int64_t size() const override { return processor_.GetPieceSize(); }
  [[nodiscard]] std::string encode(std::string_view line, std::vector<int>& tokens) const override {
    return text_of(processor_.Encode(line, &tokens));
  }
  [[nodiscard]] std::string decode(const std::vector<int>& tokens, std::string& text) const override {
    return text_of(processor_.Decode(tokens, &text));
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

std::unique_ptr<Pieces> open(const std::string& model, std::string& error) {
  auto pieces = std::make_unique<Model>();
  error = pieces->load(model);
  return error.empty() ? std::move(pieces) : nullptr;
}

std::string train(const std::vector<std::string_view>& sentences, std::int64_t vocabulary, std::string& model) {
  Sentences iterator(sentences);
  return text_of(sentencepiece::SentencePieceTrainer::Train(training_options(vocabulary), &iterator, &model));
}

}  // namespace
}  // namespace Atoll::data

extern "C" __attribute__((visibility("default"))) const Atoll::data::SentencePieceDoor* atoll_sentencepiece_door() {
  static constexpr Atoll::data::SentencePieceDoor door{Atoll::data::open, Atoll::data::train};
  return &door;
}
