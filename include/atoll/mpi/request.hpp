#pragma once

#include <memory>

namespace Atoll::mpi {

/// A transfer that was started and is not known to be complete. Move-only.
/// Dropping it neither waits nor cancels; the memory that it moves must stay as long as the program then.
class Request {
 public:
  struct State;
  Request() noexcept;  ///< nothing under way: complete
  explicit Request(std::unique_ptr<State> state) noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// True once the transfer is complete at this side; lets MPI make progress. Local, never blocks.
  /// @throws PeerLost, Error
  [[nodiscard]] bool test();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace Atoll::mpi
