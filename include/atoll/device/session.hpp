#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace Atoll::device {

/// Keeps Kokkos alive: one per process, made before the first for_blocks() and before model::limit_threads(), since
/// Kokkos sets OpenMP's thread count too; destroyed after the last for_blocks().
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

/// Values that one call of a for_blocks() body covers at most [values].
inline constexpr std::size_t block_values = 32768;

/// Calls body(begin, end) for consecutive blocks that cover 0..count-1, in Kokkos' host space with one thread: the
/// gateway's background arithmetic must not take cores from the inner steps. Blocks are independent of one another, so
/// the result has the same bits in any order and on any number of threads. @pre a Session lives
void for_blocks(std::size_t count, const std::function<void(std::size_t begin, std::size_t end)>& body);

}  // namespace Atoll::device
