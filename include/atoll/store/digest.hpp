#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/core/quantities.hpp"

namespace Atoll::store {

/// BLAKE2b-128 of the parts, one after the other (libsodium). Local; any thread.
[[nodiscard]] Digest digest_of(std::initializer_list<std::span<const std::byte>> parts);
[[nodiscard]] Digest digest_of(std::string_view text);

/// Digest of fp32 arrays, at memory's speed: XXH3-128 (libxxhash) of the arrays' own XXH3-128 digests, one after the
/// other; of an array, the digest is that of its bytes (little endian). It proves to honest sites that they hold equal
/// bits; it is no seal and no defence against forgery. Local; any thread.
[[nodiscard]] Digest digest_of_values(std::span<const std::span<const float>> arrays);
[[nodiscard]] Digest digest_of_values(std::initializer_list<std::span<const float>> arrays);

/// The same of arrays that come in pieces, the pieces of different arrays in any order. Move-only, one thread at a
/// time.
class ValuesDigest {
 public:
  explicit ValuesDigest(std::size_t arrays);
  ~ValuesDigest();
  ValuesDigest(ValuesDigest&&) noexcept;
  ValuesDigest& operator=(ValuesDigest&&) noexcept;

  /// The next values of one array.
  void add(std::size_t array, std::span<const float> values);
  /// The digest of all values so far.
  [[nodiscard]] Digest finish() const;

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

/// SHA-256 of a file's bytes as 64 hexadecimal digits.
/// @throws SystemError  the file cannot be read
[[nodiscard]] std::string sha256_of_file(const std::string& file);

}  // namespace Atoll::store
