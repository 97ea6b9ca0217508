#include <gtest/gtest.h>

#include "atoll/mpi/communicator.hpp"
#include "atoll/mpi/environment.hpp"

// Rank 0 prints; the status is the worst of all ranks.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  Atoll::mpi::Environment environment;
  const auto world = Atoll::mpi::Communicator::world();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  return static_cast<int>(world.max(static_cast<std::uint64_t>(RUN_ALL_TESTS())));
}
