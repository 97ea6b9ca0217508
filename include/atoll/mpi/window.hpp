#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "atoll/mpi/communicator.hpp"
#include "atoll/mpi/request.hpp"

namespace Atoll::mpi {

/// Memory of this rank into which the other ranks may put at any time.
///
/// Construction is collective and opens one access epoch for good. There is no flush and no free: both hang when a
/// peer is dead. Destruction is local and keeps the MPI window and `memory` in use until the process ends.
class Window {
 public:
  /// @param memory  must stay mapped until the process ends
  /// @throws Error  the window could not be created
  Window(const Communicator& communicator, std::span<std::byte> memory);
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();

  /// Starts copying `bytes` to `offset` [bytes] in the window of `rank`; `bytes` must outlive the Request.
  /// @pre bytes.size() <= 1 GiB   @throws PeerLost, Error
  [[nodiscard]] Request put(std::span<const std::byte> bytes, int rank, std::uint64_t offset);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace Atoll::mpi
