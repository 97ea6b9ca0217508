#include "atoll/app/run_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "atoll/core/error.hpp"
#include "scratch_folder.hpp"

namespace Atoll::app {
namespace {

TEST(RunDirectory, RemembersTheLastStartSoThatAClockThatIsSetBackShutsNoSiteOut) {
  const store::test::ScratchFolder scratch;
  const RunDirectory directory(scratch.path(), RunDirectory::Opening::fresh);
  EXPECT_EQ(directory.last_start(), 0);
  directory.leave(RunDirectory::start_file, "1790000000000000\n");
  EXPECT_EQ(directory.last_start(), 1'790'000'000'000'000);
  for (const auto* nonsense : {"-5", "soon", "", "100000000000000000000000"}) {
    directory.leave(RunDirectory::start_file, nonsense);
    EXPECT_EQ(directory.last_start(), 0) << nonsense;
  }
}

TEST(RunDirectory, ARunThatWasStartedWithOtherSettingsIsNotMixedWithNewOnes) {
  const store::test::ScratchFolder scratch;
  const RunDirectory directory(scratch.path(), RunDirectory::Opening::fresh);
  directory.agree("settings", "a = 1\nb = 2\n");
  directory.agree("settings", "a = 1\nb = 2\n");
  try {
    directory.agree("settings", "a = 1\nb = 3\n");
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("'b = 2', and now it is 'b = 3'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace Atoll::app
