#include "atoll/core/event_log.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "atoll/core/error.hpp"

namespace Atoll {
namespace {

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class EventLogTest : public ::testing::Test {
 protected:
  const std::filesystem::path file_ = ::testing::TempDir() + "event_log_test.jsonl";
  void SetUp() override { std::filesystem::remove(file_); }
  void TearDown() override { std::filesystem::remove(file_); }
};

TEST_F(EventLogTest, WritesOneJsonObjectPerEvent) {
  EventLog log(file_);
  log.write("commit",
            {{"version", std::uint64_t{7}}, {"names", std::vector<std::string>{"alpha", "beta"}}, {"loss", 1.5}});
  const auto lines = lines_of(file_);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["event"], "commit");
  EXPECT_EQ(lines[0]["version"], 7);
  EXPECT_EQ(lines[0]["names"], (std::vector<std::string>{"alpha", "beta"}));
  EXPECT_EQ(lines[0]["loss"], 1.5);
  EXPECT_GT(lines[0]["time"], 1.7e9);
}

TEST_F(EventLogTest, ContinuesTheLogOfAnEarlierRun) {
  EventLog(file_).write("first", {});
  EventLog(file_).write("second", {});
  EXPECT_EQ(lines_of(file_).size(), 2);
}

TEST_F(EventLogTest, NumbersThatAreNotFiniteAreNullAndBadTextStaysReadable) {
  EventLog log(file_);
  log.write("step", {{"loss", std::nan("")}, {"text", std::string("\xff\xfe quote \" end")}});
  const auto lines = lines_of(file_);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_TRUE(lines[0]["loss"].is_null());
}

TEST_F(EventLogTest, AFileThatCannotBeWrittenIsSaidAtOnce) {
  EXPECT_THROW(EventLog("/nowhere/at/all/log.jsonl"), SystemError);
}

}  // namespace
}  // namespace Atoll
