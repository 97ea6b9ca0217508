#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/mailbox.hpp"

namespace Atoll::federation {

/// A word of shared memory that one process writes and others read. Never a lock: a process may die at any time.
using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free);

/// A short text in shared memory; a reader that comes while it is written may see a mixture, never beyond its end.
class Text {
 public:
  void write(std::string_view text);
  [[nodiscard]] std::string read() const;

 private:
  std::array<Word, 40> words_;
};

/// Says where a connector is; written by the connector.
enum class ConnectorState : std::uint64_t { none, starting, handshake, up, refused, ended };

/// What never changes after creation.
struct MailboxHead {
  std::array<char, 8> magic;
  std::uint64_t layout;
  std::uint64_t file_bytes;
  std::uint64_t incarnation;                   ///< of the island that created the file
  std::uint64_t gateway;                       ///< its process, as process_token()
  std::array<std::uint64_t, lanes> slots;
  std::array<std::uint64_t, lanes> slot_bytes;
  Digest configuration;                        ///< of what all sites must agree on
};

/// Written by the gateway only.
struct alignas(64) GatewayWords {
  Word beat;                          ///< grows ten times a second
  Word closed;                        ///< 1: the island ended in good order
  std::array<Word, lanes> posted;        ///< newest sequence in the outbox
  std::array<Word, lanes> acknowledged;  ///< newest sequence that a gateway of the peer has released
  Word accepted;                      ///< incarnation of the peer whose letters we take
  std::array<Word, lanes> consumed;      ///< newest sequence of that incarnation that we released; 0: none yet
  Word repair;                        ///< grows when a letter stays torn: connect anew, please
};

/// Written by the connector that holds `owner` only.
struct alignas(64) ConnectorWords {
  Word owner;       ///< its process, as process_token()
  Word beat;        ///< grows while it runs its loop
  Word state;       ///< ConnectorState
  Word sessions;    ///< pair worlds that stood, by all connectors so far
  Word wire_sent;   ///< bytes put, by all connectors so far
  Word round_trip;  ///< [nanoseconds]
  Text note;        ///< why the last session ended
  Text refusal;     ///< why the peer was refused; empty again once a session stands
};

/// Where one side stands, as its connector puts it into the window of the other: all plain words, checked by
/// `number` at both ends and a checksum.
struct PeerStatus {
  std::uint64_t number = 0;       ///< grows within a session; 0: nothing came yet
  std::uint64_t session = 0;      ///< which pair world
  std::uint64_t incarnation = 0;  ///< of the sender's gateway
  std::uint64_t gateway_beat = 0;
  std::uint64_t closed = 0;
  std::uint64_t accepted = 0;     ///< whose letters `consumed` counts
  std::array<std::uint64_t, lanes> consumed{};
  std::array<std::uint64_t, lanes> first{};  ///< the sequence that an inbox which consumed nothing waits for
  std::uint64_t wire_sent = 0;    ///< bytes put before this status
  std::uint64_t stamp = 0;        ///< the sender's clock [nanoseconds]
  std::uint64_t echo_wire = 0;    ///< newest wire_sent that the sender has seen of us
  std::uint64_t echo_stamp = 0;   ///< newest stamp that the sender has seen of us
  std::uint64_t echo_held = 0;    ///< since it saw it [nanoseconds]
  std::uint64_t checksum = 0;
  std::uint64_t number_again = 0;
};

/// In front of every image. Numbered and sealed by the sender's gateway.
struct SlotHeader {
  std::uint64_t sequence = 0;  ///< never used twice, also not by later incarnations
  std::uint64_t previous = 0;  ///< 0 for the first of an incarnation
  std::uint64_t bytes = 0;     ///< of the image that follows
  std::uint64_t checksum = 0;  ///< of the words above and the image
  std::array<std::uint64_t, 3> reserved{};
  std::uint64_t sequence_again = 0;
};
static_assert(sizeof(SlotHeader) == 64);

/// The mapped file; all ends of a mailbox look at it through this. Move-only; unmaps at the end unless kept.
class MailboxMemory {
 public:
  /// Written aside and renamed: nobody ever sees half a mailbox.   @throws ConfigError, SystemError
  [[nodiscard]] static MailboxMemory create(const MailboxAddress& address, const Geometry& geometry,
                                            Incarnation incarnation, const Digest& configuration);
  /// Nothing when there is no such mailbox.   @throws ConfigError  the file is no mailbox of this program
  [[nodiscard]] static std::optional<MailboxMemory> open(const MailboxAddress& address);
  MailboxMemory(MailboxMemory&& other) noexcept;
  MailboxMemory& operator=(MailboxMemory&& other) noexcept;
  ~MailboxMemory();

  [[nodiscard]] const MailboxHead& head() const;
  [[nodiscard]] GatewayWords& gateway() const;
  [[nodiscard]] ConnectorWords& connector() const;
  [[nodiscard]] Geometry geometry() const;
  /// What the peer's connector puts: a status, then the inbox slots.
  [[nodiscard]] std::span<std::byte> window() const;
  /// The peer's status when it is whole.
  [[nodiscard]] std::optional<PeerStatus> status() const;

  /// The slot of a letter, header first.
  [[nodiscard]] std::span<std::byte> outbox_slot(Lane lane, std::uint64_t sequence) const;
  [[nodiscard]] std::span<std::byte> inbox_slot(Lane lane, std::uint64_t sequence) const;
  /// Where the slot lies in a window of the same geometry [bytes].
  [[nodiscard]] static std::uint64_t window_offset(const Geometry& geometry, Lane lane, std::uint64_t sequence);

  /// Takes the memory of a slot from the file system now, so that writing to it cannot fail.   @throws SystemError
  void back_outbox_slot(Lane lane, std::uint64_t sequence) const;
  /// A later incarnation has put its own file in the place of this one.
  [[nodiscard]] bool replaced() const;
  [[nodiscard]] bool gateway_alive() const;
  /// Deletes the file of an island that has ended in good order, and folders that are empty then, but not the root.
  /// Nothing when it is not closed or a later incarnation has replaced it.
  void remove_closed() const;

 private:
  MailboxMemory(const MailboxAddress& address, int descriptor, std::size_t bytes);
  std::filesystem::path root_;
  std::string file_;
  int descriptor_ = -1;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Status with numbers and checksum set, ready to be put.
[[nodiscard]] PeerStatus sealed(PeerStatus status);
/// Header words as they stand in a slot now.
[[nodiscard]] SlotHeader read_header(std::span<const std::byte> slot);
void write_header(std::span<std::byte> slot, const SlotHeader& header);
[[nodiscard]] std::uint64_t checksum_of(const SlotHeader& header, std::span<const std::byte> image);

/// Sequence before the first of an incarnation.
[[nodiscard]] constexpr std::uint64_t sequence_base(Incarnation incarnation) { return incarnation << 8; }

}  // namespace Atoll::federation
