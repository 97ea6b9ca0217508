#pragma once

#include <cstdint>
#include <type_traits>

// Internal to data: names in a token file (layout: TOKENS.md).
namespace Atoll::data {

inline constexpr const char* token_format = "atoll tokens";
inline constexpr std::uint64_t token_format_version = 1;
inline constexpr const char* training_dataset = "/training";
inline constexpr const char* validation_dataset = "/validation";
inline constexpr const char* model_dataset = "/tokenizer/sentencepiece_model";

/// Calls `use(T{})` with the narrowest unsigned type that holds every id of the vocabulary.
template <class Use>
auto with_token_type(std::int64_t vocabulary, const Use& use) {
  if (vocabulary <= 256) return use(std::uint8_t{});
  if (vocabulary <= 65536) return use(std::uint16_t{});
  return use(std::uint32_t{});
}

}  // namespace Atoll::data
