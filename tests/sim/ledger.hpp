#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "atoll/federation/protocol.hpp"
#include "contents.hpp"

namespace Atoll::federation::sim {

/// An invariant does not hold.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::uint64_t tokens_per_step = 10;

/// What was ever offered and committed by anybody: every state that a site holds must be in it, with these bits.
class Ledger {
 public:
  struct Entry {
    Version version = 0;
    Digest parent;
    store::Values anchor;
    std::uint64_t tokens_merged = 0;
    Contents contents;
  };
  using Offers = std::vector<std::pair<std::uint32_t, std::uint64_t>>;  ///< site, serial

  void begin(FragmentId f, const FragmentState& initial);
  void offered(std::uint32_t site, std::uint64_t serial, std::uint64_t tokens, std::uint64_t tokens_per_step,
               const Contents& gradient);
  /// A steward merged `offers` on top of `parent`.
  void committed(FragmentId f, Version version, const Digest& parent, const Digest& digest, const store::Values& anchor,
                 std::uint64_t tokens_merged, const Offers& offers);
  /// @throws Broken  nobody ever committed it, or it has other bits
  [[nodiscard]] const Entry& entry(FragmentId f, const FragmentState& state) const;
  [[nodiscard]] const Entry& entry(FragmentId f, const Digest& digest) const { return entries_[f.value].at(digest); }
  /// What an anchor contains, found by its bits.
  [[nodiscard]] const Contents& contents(FragmentId f, const store::Values& anchor) const;
  /// What any anchor of anybody ever contained.
  [[nodiscard]] const Contents& ever(FragmentId f) const { return ever_[f.value]; }
  [[nodiscard]] std::uint64_t tokens(FragmentId f, const Digest& digest) const {
    return entries_[f.value].at(digest).tokens_merged;
  }
  [[nodiscard]] bool descends(FragmentId f, const Digest& younger, const Digest& older, Version older_version) const;
  [[nodiscard]] bool knows_offer(std::uint32_t site, std::uint64_t serial) const {
    return offers_.contains({site, serial});
  }
  /// The steps that an offer holds.
  [[nodiscard]] const Contents& offer(std::uint32_t site, std::uint64_t serial) const {
    return offers_.at({site, serial});
  }

 private:
  struct Hash {
    std::size_t operator()(const Digest& digest) const;
  };
  std::vector<std::unordered_map<Digest, Entry, Hash>> entries_;        ///< by fragment
  std::vector<std::unordered_map<std::uint64_t, Digest>> by_bits_;      ///< by fragment: hash of the anchor's bits
  std::vector<Contents> ever_;                                          ///< by fragment
  std::map<std::pair<std::uint32_t, std::uint64_t>, Contents> offers_;  ///< by site and serial
};

}  // namespace Atoll::federation::sim
