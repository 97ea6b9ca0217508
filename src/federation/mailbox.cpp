#include "atoll/federation/mailbox.hpp"

#include <algorithm>
#include <utility>

#include "atoll/core/error.hpp"
#include "atoll/federation/mailbox_memory.hpp"

namespace Atoll::federation {
namespace {

constexpr Seconds beat_interval{0.1};
/// A connector or a peer that has not moved for so long does not count as alive; the connectors' own deadlines,
/// which end a pair world, are options of the supervisor.
constexpr Seconds silence_limit{3.0};
constexpr Seconds first_retry{0.01}, longest_retry{1.0};
/// A letter that stays torn for so long will not become whole by waiting.
constexpr Seconds repair_after{5.0};

constexpr std::size_t index(Lane lane) {
  return static_cast<std::size_t>(lane);
}

/// Notices when a counter of another process last moved.
struct Pulse {
  std::uint64_t value = 0;
  Seconds moved{};
  void look(std::uint64_t now_value, Seconds now) {
    if (std::exchange(value, now_value) != now_value) moved = now;
  }
};

struct LaneState {
  std::uint64_t reserved = 0;  ///< sequence that reserve() gave room for; 0: none
  std::uint64_t held = 0;      ///< sequence that collect() handed out; 0: none
  std::size_t held_bytes = 0;
  std::uint64_t torn = 0;  ///< sequence that was found incomplete; 0: none
  Seconds torn_since{}, retry{}, retry_delay{};
  bool drained = false;  ///< nothing more to collect from the peer's earlier incarnation
};

}  // namespace

struct Mailbox::State {
  MailboxMemory memory;
  Geometry geometry;
  Incarnation incarnation;
  std::array<LaneState, lanes> lane{};
  Seconds now{}, created{}, last_beat{};
  bool beaten = false;
  PeerStatus status{};
  Pulse connector{}, peer{};
  Link counters{};

  GatewayWords& words() const { return memory.gateway(); }

  void read_status();
  void acknowledge();
  void accept_new_incarnation();
  std::uint64_t expected(Lane lane) const;
  bool whole(Lane lane, const SlotHeader& header);
  bool up() const;
};

void Mailbox::State::read_status() {
  if (const auto whole = memory.status()) status = *whole;
  connector.look(memory.connector().beat.load(), now);
  peer.look(status.gateway_beat, now);
  if (status.incarnation != 0 && status.incarnation != counters.peer_incarnation) {
    counters.peer_incarnation = status.incarnation;
    peer.moved = now;
  }
}

void Mailbox::State::acknowledge() {
  if (status.accepted != incarnation) return;
  for (std::size_t i = 0; i < lanes; ++i) {
    auto& acknowledged = words().acknowledged[i];
    // The peer may claim anything; only what was posted can be acknowledged.
    if (status.consumed[i] > acknowledged && status.consumed[i] <= words().posted[i]) {
      counters.letters_delivered += status.consumed[i] - acknowledged;
      acknowledged = status.consumed[i];
    }
  }
}

/// The peer's new island may overwrite its predecessor's letters only when we hold none of them and can take no more.
void Mailbox::State::accept_new_incarnation() {
  if (status.incarnation == 0 || status.incarnation == words().accepted) return;
  const bool fresh = words().accepted == 0;
  for (const auto& each : lane)
    if (each.held != 0 || !(fresh || each.drained)) return;
  for (std::size_t i = 0; i < lanes; ++i) {
    words().consumed[i] = 0;
    lane[i] = LaneState{.reserved = lane[i].reserved};
  }
  words().accepted = status.incarnation;
}

/// The one sequence that may come next; 0: not known yet.
std::uint64_t Mailbox::State::expected(Lane which) const {
  const std::uint64_t consumed = words().consumed[index(which)];
  if (consumed != 0) return consumed + 1;
  return status.incarnation == words().accepted && status.incarnation != 0 ? status.first[index(which)] : 0;
}

bool Mailbox::State::whole(Lane which, const SlotHeader& header) {
  auto& state = lane[index(which)];
  if (state.torn == header.sequence && now < state.retry) return false;
  const auto slot = memory.inbox_slot(which, header.sequence);
  if (header.bytes <= geometry.slot_bytes[index(which)] &&
      header.checksum == checksum_of(header, slot.subspan(sizeof header, header.bytes)))
    return true;
  ++counters.torn;
  if (state.torn != header.sequence) {
    state.torn = header.sequence;
    state.torn_since = now;
    state.retry_delay = first_retry;
  } else if (now - state.torn_since > repair_after) {
    ++words().repair;
    state.torn_since = now;
  }
  state.retry = now + state.retry_delay;
  state.retry_delay = std::min(2 * state.retry_delay, longest_retry);
  return false;
}

bool Mailbox::State::up() const {
  return memory.connector().state == static_cast<std::uint64_t>(ConnectorState::up) &&
         now - connector.moved < silence_limit;
}

Mailbox::Mailbox(const MailboxAddress& address, const Geometry& geometry, Incarnation incarnation,
                 const Digest& configuration)
    : state_(std::make_unique<State>(MailboxMemory::create(address, geometry, incarnation, configuration), geometry,
                                     incarnation)) {
  ATOLL_EXPECT(geometry.slots[0] > 0 && geometry.slots[1] > 0, "a mailbox needs slots in both lanes");
}

Mailbox::Mailbox(Mailbox&&) noexcept = default;
Mailbox& Mailbox::operator=(Mailbox&&) noexcept = default;
Mailbox::~Mailbox() = default;

void Mailbox::pulse() noexcept {
  ++state_->words().beat;
}

void Mailbox::beat(Seconds now) {
  auto& state = *state_;
  state.now = now;
  if (!state.beaten) state.connector.moved = state.peer.moved = now;
  if (!state.beaten || now - state.last_beat >= beat_interval) {
    ++state.words().beat;
    state.last_beat = now;
  }
  state.beaten = true;
  state.read_status();
  state.acknowledge();
  state.accept_new_incarnation();
}

std::optional<std::span<std::byte>> Mailbox::reserve(Lane which) {
  auto& state = *state_;
  auto& lane = state.lane[index(which)];
  const std::uint64_t next = state.words().posted[index(which)] + 1;
  if (next - state.words().acknowledged[index(which)] > state.geometry.slots[index(which)]) return std::nullopt;
  if (lane.reserved != next) state.memory.back_outbox_slot(which, next);
  lane.reserved = next;
  return state.memory.outbox_slot(which, next).subspan(sizeof(SlotHeader), state.geometry.slot_bytes[index(which)]);
}

void Mailbox::post(Lane which, std::size_t bytes) {
  auto& state = *state_;
  auto& lane = state.lane[index(which)];
  ATOLL_EXPECT(lane.reserved != 0 && bytes <= state.geometry.slot_bytes[index(which)], "post needs reserved room");
  const std::uint64_t sequence = std::exchange(lane.reserved, 0);
  const auto slot = state.memory.outbox_slot(which, sequence);
  SlotHeader header;
  header.sequence = header.sequence_again = sequence;
  header.previous = sequence == sequence_base(state.incarnation) + 1 ? 0 : sequence - 1;
  header.bytes = bytes;
  header.checksum = checksum_of(header, slot.subspan(sizeof header, bytes));
  write_header(slot, header);
  state.words().posted[index(which)] = sequence;
  ++state.counters.letters_sent;
  state.counters.payload_sent += bytes;
}

std::size_t Mailbox::outstanding(Lane which) const {
  return state_->words().posted[index(which)] - state_->words().acknowledged[index(which)];
}

std::optional<std::span<const std::byte>> Mailbox::collect(Lane which) {
  auto& state = *state_;
  auto& lane = state.lane[index(which)];
  const auto image = [&](std::uint64_t sequence) {
    return state.memory.inbox_slot(which, sequence).subspan(sizeof(SlotHeader), lane.held_bytes);
  };
  if (lane.held != 0) return image(lane.held);
  const std::uint64_t expected = state.expected(which);
  const auto header = read_header(state.memory.inbox_slot(which, expected));
  const bool there = expected != 0 && header.sequence == expected && header.sequence_again == expected;
  if (!there || !state.whole(which, header)) {
    // What the peer's earlier island left half sent never becomes whole.
    lane.drained = state.status.incarnation != state.words().accepted;
    return std::nullopt;
  }
  lane.torn = 0;
  lane.held = expected;
  lane.held_bytes = header.bytes;
  return image(expected);
}

void Mailbox::release(Lane which) {
  auto& state = *state_;
  auto& lane = state.lane[index(which)];
  ATOLL_EXPECT(lane.held != 0, "release needs a collected letter");
  ++state.counters.letters_received;
  state.counters.payload_received += lane.held_bytes;
  state.words().consumed[index(which)] = std::exchange(lane.held, 0);
}

Link Mailbox::link() const {
  const auto& state = *state_;
  const auto& connector = state.memory.connector();
  Link link = state.counters;
  link.up = state.up();
  link.peer_silence = state.now - state.peer.moved;
  link.peer_alive = link.up && link.peer_incarnation != 0 && !state.status.closed && link.peer_silence < silence_limit;
  link.round_trip = Seconds(static_cast<double>(connector.round_trip.load()) * 1e-9);
  link.sessions = connector.sessions;
  link.wire_sent = connector.wire_sent;
  link.wire_received = state.status.wire_sent;
  return link;
}

std::string Mailbox::refusal() const {
  return state_->memory.connector().refusal.read();
}
Incarnation Mailbox::incarnation() const {
  return state_->incarnation;
}
const Geometry& Mailbox::geometry() const {
  return state_->geometry;
}

void Mailbox::close() {
  state_->words().closed = 1;
}

}  // namespace Atoll::federation
