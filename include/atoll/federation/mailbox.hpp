#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "atoll/core/quantities.hpp"

namespace Atoll::federation {

class MailboxMemory;

/// Control letters overtake bulk letters; within a lane letters keep their order.
enum class Lane : std::uint32_t { control = 0, bulk = 1 };
inline constexpr std::size_t lanes = 2;

/// Room of a mailbox, in each direction. Equal on both sites of a link (the connectors compare it).
struct Geometry {
  std::array<std::uint64_t, lanes> slots{32, 4};              ///< letters under way at most, by Lane
  std::array<std::uint64_t, lanes> slot_bytes{64 << 10, 0};   ///< room for one letter's image [bytes], by Lane
  bool operator==(const Geometry&) const = default;
};

/// Which mailbox: that of `site` for its link to `peer`.
struct MailboxAddress {
  std::filesystem::path root;  ///< folder in shared memory
  std::string federation;
  std::string site;
  std::string peer;
  /// root/federation/site/peer.mailbox
  [[nodiscard]] std::filesystem::path file() const;
};

/// /dev/shm/atoll-<user id>
[[nodiscard]] std::filesystem::path default_mailbox_root();

/// What the gateway knows of a link.
struct Link {
  bool up = false;                     ///< a pair world stands and moves letters
  bool peer_alive = false;             ///< the peer's gateway beats (through a link that is up)
  Seconds peer_silence{};              ///< since the peer's gateway was last seen beating; grows from create() on
  Incarnation peer_incarnation = 0;    ///< of the peer's island; 0: never seen
  Seconds round_trip{};                ///< between the connectors, smoothed; 0: not measured yet
  std::uint64_t sessions = 0;          ///< pair worlds that stood so far
  std::uint64_t letters_sent = 0;      ///< posted
  std::uint64_t letters_delivered = 0; ///< posted and consumed by the peer's gateway
  std::uint64_t letters_received = 0;  ///< released by us
  std::uint64_t payload_sent = 0;      ///< bytes of the images posted
  std::uint64_t payload_received = 0;  ///< bytes of the images released
  std::uint64_t wire_sent = 0;         ///< bytes that our connectors put, headers and repetitions included
  std::uint64_t wire_received = 0;     ///< bytes that the peer's connectors put since the peer's island started
  std::uint64_t torn = 0;              ///< times that a letter was found incomplete and left for later
};

/// The gateway's end of a mailbox: two rings of slots per direction in shared memory, in a file that the site's
/// connector for this peer maps too (layout: src/federation/MAILBOX.md).
///
/// Letters: post() numbers and seals an image with a checksum; it stays in the outbox until the peer's gateway has
/// released it, whatever happens to connectors meanwhile, and reaches each incarnation of the peer's gateway at most
/// once and in the order of its lane. When the peer's island starts anew, letters that its predecessor had not
/// released go to the new one. When our island starts anew, what the old one had posted but not delivered is lost.
///
/// All calls are local, never block and never throw because of a peer. Thread use: one thread, the gateway's.
class Mailbox {
 public:
  /// Creates the file in place of the one of an earlier incarnation, whose connector then ends by itself.
  /// @param incarnation    larger than that of every earlier island of this site [microseconds since 1970]
  /// @param configuration  digest of what all sites must agree on; the connectors refuse a peer that has another
  /// @throws ConfigError  a living island of this site holds the mailbox
  /// @throws SystemError  the file cannot be made (shared memory full, ...)
  Mailbox(const MailboxAddress& address, const Geometry& geometry, Incarnation incarnation,
          const Digest& configuration = {});
  Mailbox(Mailbox&&) noexcept;
  Mailbox& operator=(Mailbox&&) noexcept;
  /// Leaves the file; without close() the site's supervisor waits for the next incarnation.
  ~Mailbox();

  /// To be called often (every few milliseconds, at least ten times a second), as collect() of both lanes: shows that
  /// we live, reads acknowledgements, takes note of a new incarnation of the peer.
  void beat(Seconds now);
  /// Shows that we live, and nothing else, while the gateway's thread is at long work. Any thread.
  void pulse() noexcept;

  /// Room for one image, to be written in place; the same room until post(). Nothing when the lane is full.
  /// @throws SystemError  shared memory is full
  [[nodiscard]] std::optional<std::span<std::byte>> reserve(Lane lane);
  /// Sends the first `bytes` of the reserved room.   @pre reserve() gave the room and bytes fits in it
  void post(Lane lane, std::size_t bytes);
  /// Letters of the lane that the peer has not released yet.
  [[nodiscard]] std::size_t outstanding(Lane lane) const;

  /// The next letter from the peer, whole and with the right checksum; the same one until release().
  [[nodiscard]] std::optional<std::span<const std::byte>> collect(Lane lane);
  /// Done with the collected letter: its memory is the peer's again.
  void release(Lane lane);

  [[nodiscard]] Link link() const;
  /// Why the peer or its connector was refused (other configuration, other program, ...); empty: it was not.
  [[nodiscard]] std::string refusal() const;
  [[nodiscard]] Incarnation incarnation() const;
  [[nodiscard]] const Geometry& geometry() const;

  /// The island ends in good order: connectors deliver what is posted (a few seconds at most) and end, and so does
  /// the supervisor. To be followed by destruction.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace Atoll::federation
