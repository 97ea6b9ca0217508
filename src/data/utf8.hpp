#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

// Internal to data.
namespace Atoll::data {

/// Offset of the first byte that is not UTF-8 (RFC 3629: no overlong forms, no surrogates), or nothing.
[[nodiscard]] std::optional<std::size_t> first_offence(std::string_view text);

/// The next place from `offset` on at which no character is cut.
[[nodiscard]] std::size_t next_character(std::string_view text, std::size_t offset);

}  // namespace Atoll::data
