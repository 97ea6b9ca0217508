#include "atoll/data/batch_order.hpp"

#include <bit>

#include "atoll/core/error.hpp"

namespace Atoll::data {
namespace {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A permutation of 0..size-1 that needs no table: a Feistel network permutes the next power of four, and whatever falls
// outside is sent through again until it falls inside.
std::uint64_t permuted(std::uint64_t place, std::uint64_t size, std::uint64_t key) {
  constexpr std::uint64_t rounds = 4;
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const std::uint64_t half_mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = place >> half_bits, right = place & half_mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t next = left ^ (mixed(mixed(key + round) ^ right) & half_mask);
      left = right;
      right = next;
    }
    place = left << half_bits | right;
  } while (place >= size);
  return place;
}

}  // namespace

BatchOrder::BatchOrder(std::uint64_t training_tokens, std::int64_t context, SiteId site, std::uint32_t sites,
                       std::uint64_t seed)
    : context_(context), site_(site), sites_(sites), seed_(seed), sequences_(0) {
  ATOLL_EXPECT(context > 0 && site.value < sites, "a site or context that does not exist");
  const std::uint64_t all = training_tokens > 0 ? (training_tokens - 1) / static_cast<std::uint64_t>(context) : 0;
  if (all > site.value) sequences_ = (all - site.value - 1) / sites + 1;
  if (sequences_ == 0)
    throw ConfigError("site " + std::to_string(site.value) + " has nothing to train on",
                      std::to_string(training_tokens) + " training tokens give " + std::to_string(all) +
                          " sequences of " + std::to_string(context) + " for " + std::to_string(sites) + " sites",
                      "use more text or a shorter context");
}

std::uint64_t BatchOrder::first_token(std::uint64_t cursor) const {
  const std::uint64_t pass = cursor / sequences_;
  const std::uint64_t key = mixed(seed_ ^ mixed(pass ^ mixed(site_.value)));
  const std::uint64_t own = permuted(cursor % sequences_, sequences_, key);
  return (own * sites_ + site_.value) * static_cast<std::uint64_t>(context_);
}

}  // namespace Atoll::data
