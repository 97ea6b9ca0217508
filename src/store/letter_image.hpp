#pragma once

#include <cstddef>
#include <span>

#include "hdf5.hpp"

// Internal to store: HDF5 files that lie in memory which we own (layout: LETTER.md).
namespace Atoll::store {

/// Memory in which HDF5 keeps a file in place; outlives the file.
struct ImageMemory {
  std::span<std::byte> bytes;
  bool too_small = false;  ///< HDF5 has asked for more than there is
};

/// Starts an empty file in `memory`. @throws Hdf5Failure
[[nodiscard]] Hid create_image(ImageMemory& memory);
/// Opens the file that fills `memory`, read only: nothing is written there. @throws Hdf5Failure
[[nodiscard]] Hid open_image(ImageMemory& memory);

/// One row of a letter's /offers.
struct OfferRow {
  std::uint32_t site;
  float weight;
  std::uint64_t serial;
  std::uint64_t steps;
  std::uint64_t tokens;
};
[[nodiscard]] Hid offer_row_type();

/// One row of a letter's /fragments.
struct FragmentRow {
  std::uint64_t version;
  char anchor[32];
  std::uint64_t tokens_merged;
  std::uint64_t receiver_version;
  char receiver_anchor[32];
};
[[nodiscard]] Hid fragment_row_type();

inline constexpr const char* letter_format = "atoll letter";
inline constexpr std::uint32_t letter_format_version = 2;
inline constexpr std::size_t longest_text = 4096;

}  // namespace Atoll::store
