#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "atoll/mpi/request.hpp"

namespace Atoll::mpi {

/// A group of ranks that talk to each other. Errors are returned by MPI and thrown here, never fatal.
///
/// Counts are 64-bit; longer messages are split. Collective calls must be made by all ranks in the same order.
/// Owns a duplicate of its MPI communicator, which is freed only by free(): dropping a Communicator is local and safe
/// when peers are lost. Thread use: the thread that holds the Environment.
/// @throws PeerLost, Error (all calls)
class Communicator {
 public:
  /// All ranks of this mpirun. Collective.
  [[nodiscard]] static Communicator world();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;

  /// Collective.
  void barrier() const;
  /// Collective: `bytes` of rank `root` go to all ranks; the span has the same size everywhere.
  void broadcast(std::span<std::byte> bytes, int root) const;
  /// Collective, in place. Each element is added in the order of ranks: equal inputs give equal bits.
  void sum(std::span<float> values) const;
  /// As sum(), then divided by size().
  void mean(std::span<float> values) const;
  /// Collective.
  [[nodiscard]] std::uint64_t max(std::uint64_t value) const;
  [[nodiscard]] double sum(double value) const;

  /// Starts sending or receiving at most 1 GiB; `bytes` must outlive the Request. Local.
  [[nodiscard]] Request send(std::span<const std::byte> bytes, int to, int tag) const;
  [[nodiscard]] Request receive(std::span<std::byte> bytes, int from, int tag) const;

  /// Ends all ranks of this mpirun at once; for an error on one rank that the others cannot know of. Local.
  [[noreturn]] void abort(int status) const;

  /// Ranks of this communicator that are known to have failed. Local.
  [[nodiscard]] int failed() const;

  /// Collective: gives the MPI communicator back.
  void free();

 private:
  friend class Window;
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace Atoll::mpi
