#include "atoll/mpi/communicator.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "atoll/mpi/error.hpp"
#include "atoll/mpi/window.hpp"

namespace Atoll::mpi {
namespace {

TEST(CommunicatorTest, BroadcastReachesAllRanks) {
  const auto world = Communicator::world();
  std::vector<std::byte> bytes(100'000, std::byte(world.rank()));
  world.broadcast(bytes, world.size() - 1);
  EXPECT_EQ(bytes, std::vector<std::byte>(100'000, std::byte(world.size() - 1)));
}

TEST(CommunicatorTest, MeanOfValuesThatDoNotDivideEvenly) {
  const auto world = Communicator::world();
  std::vector<float> values(1'001);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) + static_cast<float>(world.rank());
  world.mean(values);
  const float middle = static_cast<float>(world.size() - 1) / 2;
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i) + middle);
}

TEST(CommunicatorTest, SumAddsInTheOrderOfRanks) {
  const auto world = Communicator::world();
  std::vector<float> values(7, world.rank() == 0 ? 1.0F : 1e-8F);
  world.sum(values);
  float expected = 1.0F;
  for (int rank = 1; rank < world.size(); ++rank) expected += 1e-8F;
  EXPECT_EQ(values, std::vector<float>(7, expected));
}

TEST(CommunicatorTest, SumOfMoreValuesThanFitInOnePiece) {
  const auto world = Communicator::world();
  std::vector<float> values((std::size_t{4} << 20) + 3, 1.0F);
  world.sum(values);
  EXPECT_EQ(values.front(), static_cast<float>(world.size()));
  EXPECT_EQ(values.back(), static_cast<float>(world.size()));
}

TEST(CommunicatorTest, MaxAndSumOfOneNumber) {
  const auto world = Communicator::world();
  EXPECT_EQ(world.max(static_cast<std::uint64_t>(world.rank())), static_cast<std::uint64_t>(world.size() - 1));
  EXPECT_EQ(world.sum(2.0), 2.0 * world.size());
}

TEST(CommunicatorTest, MessagesArriveAndNobodyHasFailed) {
  const auto world = Communicator::world();
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  const auto sent = static_cast<std::byte>(world.rank());
  std::byte received{0xff};
  auto incoming = world.receive(std::span(&received, 1), before, 3);
  auto outgoing = world.send(std::span(&sent, 1), next, 3);
  while (!(incoming.test() & outgoing.test())) {
  }
  EXPECT_EQ(received, std::byte(before));
  EXPECT_EQ(world.failed(), 0);
}

TEST(CommunicatorTest, AWrongRankIsAnErrorWithTheNameOfTheCall) {
  const auto world = Communicator::world();
  std::byte byte{};
  try {
    static_cast<void>(world.send(std::span(&byte, 1), world.size() + 5, 0));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.call(), "MPI_Isend");
  }
}

TEST(WindowTest, PutsLandWhereTheyShould) {
  const auto world = Communicator::world();
  static std::vector<std::byte> memory(4096);  // a window stays until the process ends
  static std::vector<std::byte> image;
  image.assign(1000, std::byte(world.rank() + 1));
  Window window(world, memory);
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  auto put = window.put(image, next, 8);
  while (!put.test()) {
  }
  world.barrier();
  // Complete at the sender is not yet arrived: the receiver lets MPI progress and looks again.
  volatile std::byte* last = memory.data() + 1007;
  std::byte nothing{};
  auto never = world.receive(std::span(&nothing, 1), before, 4);
  while (*last != std::byte(before + 1)) static_cast<void>(never.test());
  EXPECT_EQ(memory[7], std::byte{0});
  EXPECT_EQ(memory[8], std::byte(before + 1));
  EXPECT_EQ(memory[1008], std::byte{0});
  auto release = world.send(std::span(&nothing, 1), next, 4);
  while (!(never.test() & release.test())) {
  }
}

}  // namespace
}  // namespace Atoll::mpi
