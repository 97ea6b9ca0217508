#if ATOLL_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>  // the same functions, for the widest vectors that the processor has
#else
#include <xxhash.h>
#endif

#include <bit>
#include <memory>

#include "atoll/core/error.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::store {

static_assert(std::endian::native == std::endian::little, "digests are made of little-endian bytes");

namespace {

struct Free {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using Stream = std::unique_ptr<XXH3_state_t, Free>;

Stream new_stream() {
  Stream stream(XXH3_createState());
  ATOLL_EXPECT(stream && XXH3_128bits_reset(stream.get()) == XXH_OK, "libxxhash does not start");
  return stream;
}

static_assert(sizeof(XXH128_canonical_t) == sizeof(Digest::bytes));

Digest digest_of_hash(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return std::bit_cast<Digest>(canonical);
}

Digest digest_of_digests(std::span<const Digest> digests) {
  const auto bytes = std::as_bytes(digests);
  return digest_of_hash(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace

struct ValuesDigest::Streams {
  std::vector<Stream> of_arrays;
};

ValuesDigest::ValuesDigest(std::size_t arrays) : streams_(std::make_unique<Streams>()) {
  while (streams_->of_arrays.size() < arrays) streams_->of_arrays.push_back(new_stream());
}

ValuesDigest::~ValuesDigest() = default;
ValuesDigest::ValuesDigest(ValuesDigest&&) noexcept = default;
ValuesDigest& ValuesDigest::operator=(ValuesDigest&&) noexcept = default;

void ValuesDigest::add(std::size_t array, std::span<const float> values) {
  XXH3_128bits_update(streams_->of_arrays.at(array).get(), values.data(), values.size_bytes());
}

Digest ValuesDigest::finish() const {
  std::vector<Digest> digests;
  for (const auto& stream : streams_->of_arrays) digests.push_back(digest_of_hash(XXH3_128bits_digest(stream.get())));
  return digest_of_digests(digests);
}

Digest digest_of_values(std::span<const std::span<const float>> arrays) {
  std::vector<Digest> digests;
  for (const auto array : arrays) digests.push_back(digest_of_hash(XXH3_128bits(array.data(), array.size_bytes())));
  return digest_of_digests(digests);
}

Digest digest_of_values(std::initializer_list<std::span<const float>> arrays) {
  return digest_of_values(std::span(arrays.begin(), arrays.size()));
}

}  // namespace Atoll::store
