#include "atoll/device/session.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "atoll/core/error.hpp"

namespace Atoll::device {

Session::Session() {
  Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(1).set_disable_warnings(true));
}

Session::~Session() {
  Kokkos::finalize();
}

void for_blocks(std::size_t count, const std::function<void(std::size_t, std::size_t)>& body) {
  ATOLL_EXPECT(Kokkos::is_initialized(), "a device::Session must live");
  if (count > 0 && count <= block_values) return body(0, count);  // starting Kokkos' loop takes longer than this
  const std::size_t blocks = (count + block_values - 1) / block_values;
  if (blocks == 1) return body(0, count);
  Kokkos::parallel_for(
      "for_blocks", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, blocks),
      [&](const std::size_t block) { body(block * block_values, std::min(count, (block + 1) * block_values)); });
}

}  // namespace Atoll::device
