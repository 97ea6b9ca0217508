#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/mailbox.hpp"

namespace Atoll::federation {

struct ConnectorOptions {
  MailboxAddress mailbox;
  std::string program_version;        ///< compared in the handshake
  Seconds peer_deadline{3.0};         ///< silence of the peer's connector that ends the session (round trip added)
  Seconds start_deadline{20.0};       ///< for MPI's start, handshake and window together
  std::size_t chunk_bytes = 1 << 20;  ///< largest put [bytes]
  std::size_t chunks_in_flight = 4;
};

/// Exit status of a connector, beside those of ExitStatus.
enum class ConnectorEnd : int {
  closed = 0,         ///< our island or the peer's ended in good order
  no_gateway = 10,    ///< no mailbox, or the island that made it is gone
  refused = 11,       ///< the two sides do not fit: see the note
  peer_lost = 12,     ///< the peer's connector is dead or silent
  mpi_failed = 13,
  superseded = 14,    ///< another connector or another island took the mailbox
  orphaned = 15,      ///< the process that started us is gone
  repair = 16,        ///< a letter stayed torn: a new session sends it again
};

/// One life of a connector: takes the mailbox over (a connector that still holds it is killed), starts MPI, forms the
/// pair world and moves letters until something ends it. Must be called once, by one thread, in a process of
/// its own that mpirun started as one of two ranks.
///
/// Sets limits for the whole process: SIGALRM ends it when MPI hangs, and it dies with its parent.
/// The caller leaves by _exit() without touching MPI.
/// @param report  takes one line for people when the session stands and when it ends
[[nodiscard]] ConnectorEnd carry_letters(const ConnectorOptions& options,
                                         const std::function<void(const std::string&)>& report);

}  // namespace Atoll::federation
