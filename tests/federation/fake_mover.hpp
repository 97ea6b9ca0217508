#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "atoll/federation/mailbox_memory.hpp"

namespace Atoll::federation::test {

/// A connector without MPI, for one direction: copies from the outbox of one mailbox into the inbox of another.
/// A new FakeMover is a connector that was started again.
class FakeMover {
 public:
  FakeMover(const MailboxAddress& from, const MailboxAddress& to)
      : from_(*MailboxMemory::open(from)), to_(*MailboxMemory::open(to)) {
    for (std::size_t i = 0; i < lanes; ++i) first_[i] = from_.gateway().acknowledged[i] + 1;
  }

  /// Puts our status into the window over there, as a connector does all the time.
  void show_status() {
    PeerStatus status;
    status.number = ++number_;
    status.session = 1;
    status.incarnation = from_.head().incarnation;
    status.gateway_beat = from_.gateway().beat;
    status.accepted = from_.gateway().accepted;
    for (std::size_t i = 0; i < lanes; ++i) status.consumed[i] = from_.gateway().consumed[i];
    status.first = first_;
    status = sealed(status);
    std::memcpy(to_.window().data(), &status, sizeof status);
  }

  /// The sequence that would be moved next; 0: none.
  std::uint64_t next(Lane lane) {
    const auto i = static_cast<std::size_t>(lane);
    if (moved_[i] == 0) {
      const auto heard = from_.status();
      if (!heard || heard->accepted != from_.head().incarnation) return 0;
      moved_[i] = std::max(first_[i] - 1, heard->consumed[i]);
    }
    return moved_[i] < from_.gateway().posted[i] ? moved_[i] + 1 : 0;
  }

  /// Moves at most `bytes` of the next letter's image, in front of its header; a whole image is followed by the header.
  bool move(Lane lane, std::size_t bytes = ~std::size_t{0}) {
    const auto sequence = next(lane);
    if (sequence == 0) return false;
    const auto source = from_.outbox_slot(lane, sequence);
    const auto target = to_.inbox_slot(lane, sequence);
    const auto size = read_header(source).bytes;
    const auto moved = std::min<std::size_t>(bytes, size);
    std::memcpy(target.data() + sizeof(SlotHeader), source.data() + sizeof(SlotHeader), moved);
    if (bytes < size) return true;
    std::memcpy(target.data(), source.data(), sizeof(SlotHeader));
    ++moved_[static_cast<std::size_t>(lane)];
    return true;
  }

  /// The header without the image: what puts that arrive in the wrong order leave for a moment.
  void move_header(Lane lane) {
    const auto sequence = next(lane);
    std::memcpy(to_.inbox_slot(lane, sequence).data(), from_.outbox_slot(lane, sequence).data(), sizeof(SlotHeader));
  }

 private:
  MailboxMemory from_, to_;
  std::uint64_t number_ = 0;
  std::array<std::uint64_t, lanes> first_{}, moved_{};
};

}  // namespace Atoll::federation::test
