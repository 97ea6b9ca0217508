#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "atoll/core/quantities.hpp"

namespace Atoll::store {

/// BLAKE2b-128 of the parts, one after the other (libsodium). Local; any thread.
[[nodiscard]] Digest digest_of(std::initializer_list<std::span<const std::byte>> parts);
[[nodiscard]] Digest digest_of(std::string_view text);
/// Digest of fp32 arrays by their bytes (little endian), one after the other.
[[nodiscard]] Digest digest_of_values(std::initializer_list<std::span<const float>> arrays);

/// SHA-256 of a file's bytes as 64 hexadecimal digits.
/// @throws SystemError  the file cannot be read
[[nodiscard]] std::string sha256_of_file(const std::string& file);

}  // namespace Atoll::store
