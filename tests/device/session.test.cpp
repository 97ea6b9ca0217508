#include <numeric>
#include <vector>

#include "session_environment.hpp"

namespace Atoll::device {
namespace {

TEST(ForBlocks, CoversEveryIndexOnce) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, block_values - 1, block_values, 3 * block_values + 7}) {
    std::vector<int> visits(count, 0);
    for_blocks(count, [&](std::size_t begin, std::size_t end) {
      EXPECT_LE(end - begin, block_values);
      for (std::size_t i = begin; i < end; ++i) ++visits[i];
    });
    EXPECT_EQ(visits, std::vector<int>(count, 1));
  }
}

}  // namespace
}  // namespace Atoll::device
