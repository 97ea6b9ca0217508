#include "atoll/core/event_reader.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace Atoll {
namespace {

class EventReaderTest : public ::testing::Test {
 protected:
  const std::filesystem::path file_ = ::testing::TempDir() + "event_reader_test.jsonl";
  void SetUp() override { std::filesystem::remove(file_); }
  void TearDown() override { std::filesystem::remove(file_); }

  std::vector<LoggedEvent> events() {
    std::vector<LoggedEvent> found;
    reading_ = read_events(
        file_, [](auto name) { return name != "step"; }, [&](LoggedEvent event) { found.push_back(std::move(event)); });
    return found;
  }
  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  LogReading reading_;
};

TEST_F(EventReaderTest, WhatWasWrittenComesBack) {
  EventLog log(file_);
  log.write("commit", {{"version", std::uint64_t{1} << 63},
                       {"anchor", std::string("ab \" cd")},
                       {"weights", std::vector<double>{0.1F, 1.0}},
                       {"serials", std::vector<std::uint64_t>{1, 2}},
                       {"offers", std::vector<std::string>{"alpha"}},
                       {"none", std::vector<std::uint64_t>{}},
                       {"loss", std::nan("")}});
  const auto found = events();
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].name(), "commit");
  EXPECT_EQ(found[0].line(), 1);
  EXPECT_EQ(found[0].number("version"), std::uint64_t{1} << 63);
  EXPECT_EQ(found[0].text("anchor"), "ab \" cd");
  EXPECT_EQ(found[0].reals("weights"), (std::vector<double>{0.1F, 1.0}));
  EXPECT_EQ(found[0].numbers("serials"), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(found[0].texts("offers"), std::vector<std::string>{"alpha"});
  EXPECT_TRUE(found[0].numbers("none").empty());
  EXPECT_TRUE(std::isnan(found[0].real("loss")));
  EXPECT_THROW((void)found[0].number("absent"), Error);
  EXPECT_THROW((void)found[0].number("anchor"), Error);
}

TEST_F(EventReaderTest, UnwantedEventsAreCountedAsLinesOnly) {
  EventLog log(file_);
  log.write("step", {});
  log.write("end", {});
  EXPECT_EQ(events().front().line(), 2);
  EXPECT_EQ(reading_.lines, 2);
}

TEST_F(EventReaderTest, ALineThatAKillCutIsSaidAndLaterOnesStandAlone) {
  EventLog(file_).write("first", {});
  append(R"({"time":1,"event":"comm)");
  EXPECT_EQ(events().size(), 1);
  EXPECT_TRUE(reading_.last_line_is_cut);
  EventLog(file_).write("third", {});
  const auto found = events();
  ASSERT_EQ(found.size(), 3);
  EXPECT_EQ(found[1].name(), "");
  EXPECT_EQ(found[2].name(), "third");
  EXPECT_FALSE(reading_.last_line_is_cut);
}

TEST_F(EventReaderTest, ALogThatCannotBeReadIsSaid) {
  EXPECT_THROW(events(), SystemError);
}

}  // namespace
}  // namespace Atoll
