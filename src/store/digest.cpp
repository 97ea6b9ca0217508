#include "atoll/store/digest.hpp"

#include <bit>
#include <cerrno>
#include <fstream>
#include <vector>

#include "atoll/core/error.hpp"
#include "digest_stream.hpp"

namespace Atoll::store {

static_assert(std::endian::native == std::endian::little, "digests and files are made of little-endian bytes");

namespace {

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

}  // namespace

DigestStream::DigestStream() {
  ATOLL_EXPECT(sodium_init() >= 0, "libsodium does not start");
  crypto_generichash_init(&state_, nullptr, 0, sizeof(Digest::bytes));
}

void DigestStream::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(&state_, raw(bytes.data()), bytes.size());
}

Digest DigestStream::finish() {
  Digest digest;
  crypto_generichash_final(&state_, raw(digest.bytes.data()), digest.bytes.size());
  return digest;
}

Digest digest_of(std::initializer_list<std::span<const std::byte>> parts) {
  DigestStream stream;
  for (const auto part : parts) stream.add(part);
  return stream.finish();
}

Digest digest_of(std::string_view text) { return digest_of({std::as_bytes(std::span(text))}); }

std::string sha256_of_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw SystemError("cannot read " + file, errno, "check its name and permissions");
  ATOLL_EXPECT(sodium_init() >= 0, "libsodium does not start");
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<char> piece(1 << 20);
  while (stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    crypto_hash_sha256_update(&state, raw(std::as_bytes(std::span(piece)).data()),
                              static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) throw SystemError("cannot read " + file + " to its end", errno, "check the disk");

  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state, hash);
  char hex[2 * sizeof hash + 1];
  return sodium_bin2hex(hex, sizeof(char) * sizeof hex, hash, sizeof hash);
}

}  // namespace Atoll::store
