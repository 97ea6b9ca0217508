#include "atoll/app/federation_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "atoll/core/error.hpp"

namespace Atoll::app {
namespace {

const std::string good =
    "[federation]\nname = test\nsites = alpha beta\ntokens = 1000\n[model]\nwidth = 32\nheads = 4\n[site.beta]\nhost = "
    "far\n";

class FederationFileTest : public ::testing::Test {
 protected:
  const std::filesystem::path file_ = ::testing::TempDir() + "federation_file_test.ini";
  void TearDown() override { std::filesystem::remove(file_); }

  FederationFile read(const std::string& text) {
    std::ofstream(file_) << text;
    return read_federation(file_);
  }
  std::string refusal_of(const std::string& text) {
    try {
      (void)read(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
  static std::string changed(const std::string& from, const std::string& to) {
    auto text = good;
    return text.replace(text.find(from), from.size(), to);
  }
};

TEST_F(FederationFileTest, SettingsAndSitesAreRead) {
  const auto f = read(good);
  EXPECT_EQ(f.name, "test");
  ASSERT_EQ(f.sites.size(), 2);
  EXPECT_EQ(f.sites[1].host, "far");
  EXPECT_EQ(f.site("beta"), SiteId{1});
  EXPECT_EQ(f.model.width, 32);
  EXPECT_EQ(f.protocol.total_tokens, 1000);
}

TEST_F(FederationFileTest, TheConfigurationCoversWhatSitesMustAgreeOnAndNotHowTheyAreReached) {
  const auto digest = read(good).configuration;
  EXPECT_EQ(read(changed("host = far", "host = near")).configuration, digest);
  EXPECT_EQ(read(good + "[inner]\nbatch = 16\n").configuration, digest);  // a default, written out
  EXPECT_NE(read(good + "[inner]\nbatch = 8\n").configuration, digest);
  EXPECT_NE(read(good + "[outer]\nlearning_rate = 0.71\n").configuration, digest);
  EXPECT_NE(read(changed("alpha beta", "beta alpha")).configuration, digest);
}

TEST_F(FederationFileTest, WhatARunDirectoryKeepsIsReadBackAsTheSameConfiguration) {
  auto file = read(good + "[outer]\nlearning_rate = 0.123456789\nmomentum = 0.1\n[inner]\nbeta2 = 0.987654321\n");
  file.agree_on("tokens.digest", "ab cd = ef");
  std::ofstream(file_) << file.resolved;
  const auto kept = read_resolved_federation(file_);
  EXPECT_EQ(kept.resolved, file.resolved);
  EXPECT_EQ(kept.configuration, file.configuration);
  EXPECT_EQ(kept.protocol.configuration, file.configuration);
  EXPECT_EQ(kept.protocol.outer.learning_rate, file.protocol.outer.learning_rate);
  EXPECT_EQ(kept.protocol.outer.momentum, file.protocol.outer.momentum);
  EXPECT_THROW((void)read_resolved_federation("/no/such/file"), ConfigError);
}

TEST_F(FederationFileTest, WrongFilesAreRefusedWithWhyAndWhatToDo) {
  EXPECT_THROW((void)read_federation("/no/such/file.ini"), ConfigError);
  EXPECT_NE(refusal_of(changed("width", "girth")).find("unknown key 'model.girth'"), std::string::npos);
  EXPECT_NE(refusal_of(changed("name = test\n", "")).find("federation.name"), std::string::npos);
  EXPECT_NE(refusal_of(changed("width = 32", "width = wide")).find("wide"), std::string::npos);
  EXPECT_NE(refusal_of(changed("width = 32", "width = 30")).find("no multiple of model.heads"), std::string::npos);
  EXPECT_NE(refusal_of(changed("site.beta", "site.gamma")).find("for no site"), std::string::npos);
  EXPECT_NE(refusal_of(changed("alpha beta", "alpha alpha")).find("named twice"), std::string::npos);
  EXPECT_NE(refusal_of(changed("tokens = 1000", "tokens = 0")).find("federation.tokens is 0"), std::string::npos);
  EXPECT_NE(refusal_of(good + "[outer]\nalpha = 0.5\n").find("outer.mixing is rebase"), std::string::npos);
  EXPECT_NE(refusal_of(good + "[outer]\nmixing = stir\n").find("use one of blend, rebase"), std::string::npos);
  EXPECT_NE(refusal_of(good + "[outer]\ninner_steps = 5\noverlap = 6\n").find("outer.overlap"), std::string::npos);
}

TEST_F(FederationFileTest, NumbersOutOfRangeAreRefusedByName) {
  EXPECT_NE(refusal_of(changed("tokens = 1000", "tokens = -1")).find("federation.tokens is negative"),
            std::string::npos);
  for (const std::string key : {"fragments", "inner_steps", "overlap"}) {
    const auto refusal = refusal_of(good + "[outer]\n" + key + " = -1\n");
    EXPECT_NE(refusal.find("outer." + key + " is negative"), std::string::npos) << refusal;
  }
  EXPECT_NE(refusal_of(changed("tokens = 1000", "tokens = 1000\nquorum = -1")).find("quorum"), std::string::npos);
  EXPECT_EQ(refusal_of(changed("tokens = 1000", "tokens = 1000\nseed = 18446744073709551615")), "accepted");
  const std::pair<const char*, const char*> wrong[] = {
      {"outer", "fragments = 0"},       {"outer", "learning_rate = nan"}, {"outer", "learning_rate = 0"},
      {"outer", "learning_rate = 11"},  {"outer", "momentum = 1"},        {"outer", "momentum = nan"},
      {"inner", "learning_rate = inf"}, {"inner", "final_share = 1.5"},   {"inner", "final_share = nan"},
      {"inner", "beta1 = 1"},           {"inner", "beta2 = -0.1"},        {"inner", "epsilon = 0"},
      {"inner", "weight_decay = -0.1"}, {"inner", "weight_decay = inf"},  {"inner", "clip_norm = -1"}};
  for (const auto& [section, line] : wrong) {
    const auto key = std::string(section) + "." + std::string(line).substr(0, std::string(line).find(' '));
    EXPECT_NE(refusal_of(good + "[" + section + "]\n" + line + "\n").find(key), std::string::npos) << line;
  }
  EXPECT_EQ(refusal_of(good + "[outer]\nmomentum = 0\n[inner]\nclip_norm = 0\nweight_decay = 0\n"), "accepted");
}

TEST_F(FederationFileTest, ProtocolSettingsOutOfRangeOrAtOddsAreRefusedByName) {
  const auto with_federation = [](const std::string& lines) {
    return changed("tokens = 1000", "tokens = 1000\n" + lines);
  };
  const std::pair<const char*, const char*> wrong[] = {
      {"staleness = 65", "federation.staleness"},
      {"staleness = -1", "federation.staleness"},
      {"staleness_decay = 0", "federation.staleness_decay"},
      {"staleness_decay = 1.1", "federation.staleness_decay"},
      {"staleness = 64\nstaleness_decay = 0.5", "to the power of federation.staleness"},
      {"norm_factor = -1", "federation.norm_factor"},
      {"norm_factor = nan", "federation.norm_factor"},
      {"grace_slack = 2", "federation.grace_slack"},
      {"grace_slack = 0.5", "outer.overlap is 0"},
      {"stewardship = none", "use one of first, spread"},
      {"staleness = 1\n[outer]\nafter_offer = eager", "late offers are accepted"},
      {"[outer]\nafter_offer = eager\nmixing = blend", "outer.mixing is blend"},
      {"[outer]\nmerge = krum\nfaulty = 2", "outer.faulty is not less"},
      {"[outer]\nfaulty = 1", "outer.merge asks nothing of it"},
      {"[outer]\nsteps = dynamic\nwait_seconds = 1", "outer.steps is dynamic"},
      {"[outer]\ndelay = 0", "delay"},
      {"[outer]\ndelay = -1", "outer.delay is negative"},
      {"[outer]\ndelay = 4\ndelay_share = 0.5", "delay share"},
      {"[outer]\nepsilon = 0", "epsilon"},
      {"[outer]\nsecond_momentum = 1", "second momentum"}};
  for (const auto& [lines, problem] : wrong) {
    const auto refusal = refusal_of(with_federation(lines));
    EXPECT_NE(refusal.find(problem), std::string::npos) << lines << ": " << refusal;
  }
  EXPECT_EQ(refusal_of(with_federation("staleness = 2\nstaleness_decay = 0.5")), "accepted");
  EXPECT_EQ(refusal_of(with_federation("[outer]\nafter_offer = eager\ninner_steps = 5\noverlap = 5")), "accepted");
}

TEST_F(FederationFileTest, ASiteThatTheFileLacksIsNamedTogetherWithThoseItHas) {
  try {
    (void)read(good).site("gamma");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "no site 'gamma' in this federation (the file names alpha, beta) correct --site, or add "
                 "the site to federation.sites on every site");
  }
}

}  // namespace
}  // namespace Atoll::app
