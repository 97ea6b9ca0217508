#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace Atoll {

/// A number that names one thing of one kind; ids of different kinds do not mix.
template <class Tag, class Representation = std::uint32_t>
struct Id {
  Representation value{};
  auto operator<=>(const Id&) const = default;
};

/// Position of a site in the federation file, from 0.
using SiteId = Id<struct SiteTag>;
/// Position of a fragment in the FragmentPlan, from 0.
using FragmentId = Id<struct FragmentTag>;
/// Number of commits that lead to an anchor; 0 is the common initialisation.
using Version = std::uint64_t;
/// When an island process started [microseconds since 1970]; a later start of the same site has a larger one.
using Incarnation = std::uint64_t;

/// Time since an arbitrary but fixed start [seconds]; what the state machines see as "now".
using Seconds = std::chrono::duration<double>;

/// 128-bit digest (computed by store: BLAKE2b of texts and seals, XXH3 of values; here only the value and its text
/// form).
struct Digest {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const Digest&) const = default;
  /// 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// @throws Error  `hex` is not 32 hexadecimal digits
  [[nodiscard]] static Digest from_hex(std::string_view hex);
};

}  // namespace Atoll
