#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/mailbox_memory.hpp"
#include "atoll/mpi/request.hpp"
#include "atoll/mpi/window.hpp"

namespace Atoll::federation {

/// How many bytes may be on their way, so that a slow wire is never queued up for longer than a quarter second: a
/// heartbeat behind the queue must not come late, and MPI calls a put complete long before it has arrived.
class FlightLimit {
 public:
  /// `landed` bytes of all that were put have arrived, `under_way` have not; `round_trip` is the shortest seen.
  void observe(std::uint64_t landed, std::uint64_t under_way, Seconds round_trip, Seconds now);
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_ = 1 << 20;
  std::uint64_t landed_ = 0;
  Seconds since_{};
};

/// Moves the letters of one mailbox through one pair world. Local calls only; never waits.
class Courier {
 public:
  /// All references must outlive the Courier.
  Courier(const MailboxMemory& memory, mpi::Window& window, int peer_rank, std::uint64_t session,
          std::size_t chunk_bytes, std::size_t chunks_in_flight);

  /// Tests what is under way, starts what can be started. True when something moved in either direction.
  /// @throws mpi::PeerLost, mpi::Error
  bool step(Seconds now);

  /// The newest status of the peer in this session, once one came.
  [[nodiscard]] const std::optional<PeerStatus>& peer() const noexcept { return peer_; }
  [[nodiscard]] Seconds peer_seen() const noexcept { return peer_seen_; }
  [[nodiscard]] Seconds round_trip() const noexcept { return round_trip_; }
  /// Bytes that we put and that the peer says it put, in all: how busy the wire is.
  [[nodiscard]] std::uint64_t traffic() const { return memory_.connector().wire_sent + (peer_ ? peer_->wire_sent : 0); }
  /// Everything posted has been released by the peer's gateway.
  [[nodiscard]] bool delivered() const;
  /// From now on our status says that we are leaving; true once such a status was put.
  bool farewell();

 private:
  struct Flight {
    mpi::Request request;
    std::optional<Lane> lane;  ///< nothing: a status
  };
  /// A letter of one lane on its way: chunks, then, when all of them are complete, the header.
  struct Sending {
    std::uint64_t next = 0;      ///< sequence that is or will be sent; 0: the peer has not said what it has
    std::uint64_t offset = 0;    ///< bytes of the image that were put
    std::size_t in_flight = 0;
    bool header_put = false;
  };

  bool test_flights();
  bool read_peer(Seconds now);
  void begin(const PeerStatus& status);
  bool put_next(Lane lane);
  bool put_status(Seconds now);
  void put(std::span<const std::byte> bytes, std::uint64_t offset, std::optional<Lane> lane);
  [[nodiscard]] std::size_t chunk() const;

  const MailboxMemory& memory_;
  mpi::Window& window_;
  int peer_rank_;
  Geometry geometry_;
  std::size_t chunk_bytes_, chunks_in_flight_;

  std::list<Flight> flights_;
  std::array<Sending, lanes> sending_{};
  FlightLimit limit_;

  PeerStatus ours_{};           ///< as put last; unchanged while status_in_flight_
  bool status_in_flight_ = false;
  bool leaving_ = false;
  Seconds status_put_{-1.0};
  std::array<std::uint64_t, lanes> first_{};

  std::optional<PeerStatus> peer_;
  Seconds peer_seen_{}, round_trip_{}, shortest_trip_{1e9};
};

}  // namespace Atoll::federation
