#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "atoll/store/letter.hpp"
#include "dice.hpp"

namespace Atoll::federation::sim {

/// A letter as it lies in a slot of a mailbox: header with checksum, then the image that the real encoder made.
class Slot {
 public:
  Slot(const store::Letter& letter, std::uint64_t sequence);
  /// Flips one to four bits, anywhere.
  void flip(Dice& dice);
  /// As Mailbox::collect() and Gateway::collect(): the letter, when the slot is whole and the image is one.
  [[nodiscard]] std::optional<store::Letter> collect() const;
  /// The letter's image is the same byte for byte.
  [[nodiscard]] bool holds(const store::Letter& letter) const;

 private:
  std::uint64_t sequence_;
  std::vector<std::byte> bytes_;
};

}  // namespace Atoll::federation::sim
