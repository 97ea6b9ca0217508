#pragma once

#include <sodium.h>

#include <span>

#include "atoll/core/quantities.hpp"

// Internal to store: with digest.cpp the only door to libsodium.
namespace Atoll::store {

/// BLAKE2b-128 of bytes that come in pieces.
class DigestStream {
 public:
  DigestStream();
  void add(std::span<const std::byte> bytes);
  /// The digest of all bytes so far; nothing may be added afterwards.
  [[nodiscard]] Digest finish();

 private:
  crypto_generichash_state state_;
};

}  // namespace Atoll::store
