#include <gtest/gtest.h>

#include <algorithm>

#include "atoll/federation/supervisor.hpp"

namespace Atoll::federation {
namespace {

SupervisorOptions options() {
  SupervisorOptions options;
  options.federation = "islands";
  options.sites.resize(2);
  options.sites[0].name = "alpha";
  options.sites[1].name = "beta";
  options.mailboxes = "/dev/shm/mail";
  options.program = "/opt/atoll";
  return options;
}

bool contains(const std::vector<std::string>& words, const std::vector<std::string>& part) {
  return std::ranges::search(words, part).begin() != words.end();
}

TEST(DialCommandTest, SitesOnOneMachineTalkOverLoopback) {
  const auto words = dial_command(options(), 1);
  EXPECT_TRUE(contains(words, {"--mca", "btl_tcp_if_include", "lo"}));
  EXPECT_FALSE(contains(words, {"--host"}));
}

TEST(DialCommandTest, SitesThatAreApartAreReachedByTheAgentOfThePeer) {
  auto apart = options();
  apart.sites[0].host = "login1";
  apart.sites[0].mpirun_options = "--mca btl_tcp_if_include eth2";
  apart.sites[1].host = "node7";
  apart.sites[1].launch_agent = "/opt/enter beta";
  const auto words = dial_command(apart, 1);
  EXPECT_TRUE(contains(words, {"--host", "login1:1,node7:1"}));
  EXPECT_TRUE(contains(words, {"--prtemca", "plm_ssh_agent", "/opt/enter beta"}));
  EXPECT_TRUE(contains(words, {"--mca", "btl_tcp_if_include", "eth2"}));
  EXPECT_FALSE(contains(words, {"--mca", "btl_tcp_if_include", "lo"}));
}

TEST(DialCommandTest, EachRankRunsTheProgramOfItsSiteWithItsOwnMailboxes) {
  auto different = options();
  different.sites[1].program = "/home/o'hara/atoll";
  different.sites[1].mailboxes = "/mail of beta";
  const auto line = dial_command(different, 1).back();
  const auto rank_0 = line.find("0) p='/opt/atoll';");
  const auto rank_1 = line.find("*) p='/home/o'\\''hara/atoll';");
  ASSERT_NE(rank_0, std::string::npos) << line;
  ASSERT_NE(rank_1, std::string::npos) << line;
  EXPECT_LT(line.find("'--site' 'alpha' '--peer' 'beta'"), rank_1);
  EXPECT_LT(line.find("'--mailboxes' '/dev/shm/mail'"), rank_1);
  EXPECT_GT(line.find("'--site' 'beta' '--peer' 'alpha'"), rank_1);
  EXPECT_GT(line.find("'--mailboxes' '/mail of beta'"), rank_1);
}

}  // namespace
}  // namespace Atoll::federation
