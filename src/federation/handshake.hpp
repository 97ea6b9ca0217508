#pragma once

#include <cstdint>
#include <string>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/connector.hpp"
#include "atoll/federation/mailbox_memory.hpp"
#include "atoll/mpi/communicator.hpp"

namespace Atoll::federation {

/// What both sides of a pair world learn of each other before any letter moves.
struct Agreement {
  std::uint64_t session = 0;     ///< equal on both sides
  Incarnation peer_incarnation = 0;
  std::string refusal;           ///< why the sides do not fit; empty: they do. Both sides come to the same end.
};

/// Sends our greeting and waits at most `patience` for the peer's.
/// @throws mpi::PeerLost  the deadline passed or the peer is gone
[[nodiscard]] Agreement shake_hands(const mpi::Communicator& pair, const ConnectorOptions& options,
                                    const MailboxMemory& memory, Seconds patience);

}  // namespace Atoll::federation
