#pragma once

namespace Atoll::mpi {

/// MPI from start to end of the program. One per process; all MPI calls come from the thread that made it.
class Environment {
 public:
  /// Collective over the ranks of this mpirun (thread level FUNNELED).   @throws Error
  Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  /// Finalizes (collective), unless abandoned or an exception is under way.
  ~Environment();

  /// From here on no rank waits for another: the destructor does not finalize. For programs that lost a peer.
  void abandon() noexcept;

 private:
  bool abandoned_ = false;
};

}  // namespace Atoll::mpi
