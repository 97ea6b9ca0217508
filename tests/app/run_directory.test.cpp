#include "atoll/app/run_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "scratch_folder.hpp"

namespace Atoll::app {
namespace {

TEST(RunDirectory, RemembersTheLastStartSoThatAClockThatIsSetBackShutsNoSiteOut) {
  const store::test::ScratchFolder scratch;
  const RunDirectory directory(scratch.path(), RunDirectory::Opening::fresh);
  EXPECT_EQ(directory.last_start(), 0);
  directory.leave(RunDirectory::start_file, "1790000000000000\n");
  EXPECT_EQ(directory.last_start(), 1'790'000'000'000'000);
}

}  // namespace
}  // namespace Atoll::app
