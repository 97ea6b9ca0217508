#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "atoll/core/event_log.hpp"
#include "atoll/core/quantities.hpp"
#include "atoll/federation/site.hpp"

namespace Atoll::federation {

struct SupervisorOptions {
  std::string federation;            ///< its name
  std::vector<Site> sites;           ///< in the order of the federation file: the earlier of two sites dials
  std::size_t self = 0;              ///< ours
  std::filesystem::path mailboxes;   ///< root of our mailboxes
  std::filesystem::path run;         ///< where links-PEER.log and links.jsonl go
  std::string program;               ///< path of atoll here
  Seconds peer_deadline{3.0};        ///< silence after which a connector counts as dead
  Seconds start_deadline{20.0};      ///< for the start of a pair world
  std::size_t chunk_bytes = 1 << 20; ///< largest put of our connectors [bytes]
};

/// The command that forms the pair world of `options.self` and `peer`: mpirun with one connector for each.
[[nodiscard]] std::vector<std::string> dial_command(const SupervisorOptions& options, std::size_t peer);

/// Keeps the links of one site standing: starts pair worlds, starts them again, kills what has stopped beating.
///
/// Looks only at shared memory and processes; needs no word from the island or the peers. Removes the mailbox of a link
/// that is done. Thread use: one thread.
class Supervisor {
 public:
  /// @throws SystemError  the run directory cannot be written
  explicit Supervisor(SupervisorOptions options);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  /// Kills everything that it started.
  ~Supervisor();

  /// One look at everything, to be called about 20 times a second. False once the island has ended in good order and
  /// all its links are done.
  [[nodiscard]] bool step(Seconds now);

 private:
  class Line;
  SupervisorOptions options_;
  EventLog log_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace Atoll::federation
