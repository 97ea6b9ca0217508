#include "courier.hpp"

#include <algorithm>

namespace Atoll::federation {
namespace {

constexpr Seconds queue_time{0.25};
constexpr Seconds sample_time{0.02};
constexpr std::uint64_t least_flight = 256 << 10, largest_flight = 256 << 20;
constexpr std::size_t least_chunk = 64 << 10;

/// A status goes this often in any case, and this often while letters move.
constexpr Seconds idle_interval{0.1}, busy_interval{0.005};

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

std::uint64_t nanoseconds(Seconds time) { return static_cast<std::uint64_t>(time.count() * 1e9); }

}  // namespace

void FlightLimit::observe(std::uint64_t landed, std::uint64_t under_way, Seconds round_trip, Seconds now) {
  if (now - since_ < sample_time) return;
  const double rate = static_cast<double>(landed - landed_) / (now - since_).count();
  landed_ = landed;
  since_ = now;
  if (under_way < bytes_ / 2) return;  // the letters, not the wire, set the pace: nothing learnt
  const auto wanted = static_cast<std::uint64_t>(rate * (queue_time + 2 * round_trip).count());
  bytes_ = std::clamp(std::min(wanted, 4 * bytes_), least_flight, largest_flight);
}

Courier::Courier(const MailboxMemory& memory, mpi::Window& window, int peer_rank, std::uint64_t session,
                 std::size_t chunk_bytes, std::size_t chunks_in_flight)
    : memory_(memory),
      window_(window),
      peer_rank_(peer_rank),
      geometry_(memory.geometry()),
      chunk_bytes_(chunk_bytes),
      chunks_in_flight_(chunks_in_flight) {
  ours_.session = session;
  for (std::size_t i = 0; i < lanes; ++i) first_[i] = memory.gateway().acknowledged[i] + 1;
}

bool Courier::step(Seconds now) {
  bool moved = test_flights();
  moved |= read_peer(now);
  while (put_next(Lane::control) || put_next(Lane::bulk)) moved = true;
  put_status(now);
  return moved;
}

bool Courier::test_flights() {
  bool moved = false;
  for (auto flight = flights_.begin(); flight != flights_.end();) {
    if (!flight->request.test()) {
      ++flight;
      continue;
    }
    if (!flight->lane) {
      status_in_flight_ = false;
    } else {
      auto& sending = sending_[index(*flight->lane)];
      --sending.in_flight;
      if (sending.header_put) sending = {.next = sending.next + 1};
      moved = true;
    }
    flight = flights_.erase(flight);
  }
  return moved;
}

bool Courier::read_peer(Seconds now) {
  const auto status = memory_.status();
  if (!status || status->session != ours_.session || (peer_ && status->number <= peer_->number)) return false;
  const bool moved = peer_ && status->wire_sent - peer_->wire_sent > 2 * sizeof(PeerStatus);
  if (status->echo_stamp != 0 && (!peer_ || status->echo_stamp != peer_->echo_stamp)) {
    const Seconds trip((static_cast<double>(nanoseconds(now) - status->echo_stamp) -
                        static_cast<double>(status->echo_held)) * 1e-9);
    round_trip_ = round_trip_.count() == 0 ? trip : 0.875 * round_trip_ + 0.125 * trip;
    shortest_trip_ = std::min(shortest_trip_, trip);
    memory_.connector().round_trip = nanoseconds(round_trip_);
    limit_.observe(status->echo_wire, memory_.connector().wire_sent - status->echo_wire, shortest_trip_, now);
  }
  peer_ = status;
  peer_seen_ = now;
  if (sending_[0].next == 0 && status->accepted == memory_.head().incarnation) begin(*status);
  return moved;
}

/// The peer has said which letters it has: goes on behind them.
void Courier::begin(const PeerStatus& status) {
  for (std::size_t i = 0; i < lanes; ++i) {
    const bool plausible = status.consumed[i] <= memory_.gateway().posted[i];
    sending_[i].next = std::max(first_[i], plausible ? status.consumed[i] + 1 : 0);
  }
}

std::size_t Courier::chunk() const {
  return std::min(chunk_bytes_, std::max<std::size_t>(least_chunk, limit_.bytes() / 4));
}

/// Puts one more piece of the lane's letter if there is one and the wire has room.
bool Courier::put_next(Lane lane) {
  auto& sending = sending_[index(lane)];
  if (sending.next == 0 || sending.header_put || sending.next > memory_.gateway().posted[index(lane)]) return false;
  const auto slot = memory_.outbox_slot(lane, sending.next);
  const auto header = read_header(slot);
  const auto place = MailboxMemory::window_offset(geometry_, lane, sending.next);
  if (header.sequence != sending.next) {  // released by the peer and used again since: it came in an earlier session
    sending = {.next = sending.next + 1};
    return true;
  }
  const std::uint64_t bytes = std::min(header.bytes, geometry_.slot_bytes[index(lane)]);
  if (sending.offset == bytes) {
    if (sending.in_flight > 0) return false;
    sending.header_put = true;
    put(slot.first(sizeof header), place, lane);
    return true;
  }
  const std::uint64_t landed = peer_->echo_wire;
  const bool wire_full = memory_.connector().wire_sent - landed >= limit_.bytes();
  if (lane == Lane::bulk && (sending.in_flight >= chunks_in_flight_ || wire_full)) return false;
  const std::uint64_t start = sizeof header + sending.offset;
  const auto piece = slot.subspan(start, std::min<std::uint64_t>(chunk(), bytes - sending.offset));
  put(piece, place + start, lane);
  sending.offset += piece.size();
  return true;
}

bool Courier::put_status(Seconds now) {
  if (status_in_flight_) return false;
  const auto& gateway = memory_.gateway();
  PeerStatus status = ours_;
  status.incarnation = memory_.head().incarnation;
  status.gateway_beat = gateway.beat;
  status.closed = leaving_;
  status.accepted = gateway.accepted;
  for (std::size_t i = 0; i < lanes; ++i) status.consumed[i] = gateway.consumed[i];
  status.first = first_;
  status.wire_sent = memory_.connector().wire_sent;
  if (peer_) status.echo_wire = peer_->wire_sent;
  const bool news = status.accepted != ours_.accepted || status.consumed != ours_.consumed || leaving_ != ours_.closed;
  const bool moving = status.wire_sent - ours_.wire_sent > 2 * sizeof status ||
                      status.echo_wire - ours_.echo_wire > 2 * sizeof status;
  const Seconds since = now - status_put_;
  if (!news && since < (moving ? busy_interval : idle_interval)) return false;
  status.number = ours_.number + 1;
  status.stamp = nanoseconds(now);
  if (peer_) {
    status.echo_stamp = peer_->stamp;
    status.echo_held = nanoseconds(now - peer_seen_);
  }
  ours_ = sealed(status);
  status_in_flight_ = true;
  status_put_ = now;
  put(std::as_bytes(std::span(&ours_, 1)), 0, std::nullopt);
  return true;
}

void Courier::put(std::span<const std::byte> bytes, std::uint64_t offset, std::optional<Lane> lane) {
  flights_.push_back({window_.put(bytes, peer_rank_, offset), lane});
  if (lane) ++sending_[index(*lane)].in_flight;
  memory_.connector().wire_sent += bytes.size();
}

bool Courier::delivered() const {
  if (!peer_ || peer_->accepted != memory_.head().incarnation) return false;
  for (std::size_t i = 0; i < lanes; ++i) {
    const std::uint64_t posted = memory_.gateway().posted[i];
    if (posted > sequence_base(memory_.head().incarnation) && peer_->consumed[i] < posted &&
        memory_.gateway().acknowledged[i] < posted)
      return false;
  }
  return true;
}

bool Courier::farewell() {
  leaving_ = true;
  return ours_.closed != 0 && !status_in_flight_;
}

}  // namespace Atoll::federation
