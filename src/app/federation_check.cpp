#include "federation_check.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "atoll/core/error.hpp"

namespace Atoll::app {

void wrong(const std::filesystem::path& file, const std::string& why, const std::string& advice) {
  throw ConfigError("cannot use the federation file " + file.string(), why, advice);
}

namespace {

/// Negative numbers come out of the parser as huge ones.
void check_counts(const std::filesystem::path& file, const FederationFile& f) {
  constexpr std::uint64_t most = 1'000'000'000'000'000;
  const std::pair<const char*, std::uint64_t> counts[] = {{"federation.tokens", f.protocol.total_tokens},
                                                          {"outer.fragments", f.fragments},
                                                          {"outer.inner_steps", f.schedule.inner_steps},
                                                          {"outer.overlap", f.schedule.overlap}};
  for (const auto& [key, count] : counts)
    if (count > most) wrong(file, std::string(key) + " is negative or too large", "use 10^15 at most");
  if (f.fragments == 0) wrong(file, "outer.fragments is 0", "set it to at least 1");
}

/// A NaN fails every comparison; infinity is beyond every bound here.
void check_optimizers(const std::filesystem::path& file, const FederationFile& f) {
  constexpr double largest = std::numeric_limits<double>::max();
  const auto demand = [&](bool holds, const std::string& why, const std::string& advice) {
    if (!holds) wrong(file, why, advice);
  };
  const auto& adamw = f.adamw;
  demand(f.learning_rate.peak > 0 && f.learning_rate.peak <= largest, "inner.learning_rate is not a positive number",
         "try 0.001");
  demand(f.learning_rate.final_share >= 0 && f.learning_rate.final_share <= 1, "inner.final_share is not in 0 .. 1",
         "try 0.1");
  demand(adamw.beta1 >= 0 && adamw.beta1 < 1 && adamw.beta2 >= 0 && adamw.beta2 < 1,
         "inner.beta1 or inner.beta2 is not in 0 .. 1", "try 0.9 and 0.95; 1 itself is excluded");
  demand(adamw.epsilon > 0 && adamw.epsilon <= largest, "inner.epsilon is not a positive number", "try 1e-8");
  demand(adamw.weight_decay >= 0 && adamw.weight_decay <= largest, "inner.weight_decay is negative or no number",
         "try 0.1; 0 is none");
  demand(adamw.clip_norm >= 0 && adamw.clip_norm <= largest, "inner.clip_norm is negative or no number",
         "try 1; 0 is never");
  demand(f.protocol.outer.learning_rate > 0 && f.protocol.outer.learning_rate <= 10,
         "outer.learning_rate is not above 0 and at most 10", "try 0.7");
  demand(f.protocol.outer.momentum >= 0 && f.protocol.outer.momentum < 1, "outer.momentum is not in 0 .. 1",
         "try 0.9; 1 itself is excluded");
}

void check_times_and_sizes(const std::filesystem::path& file, const FederationFile& f) {
  const auto demand = [&](bool holds, const std::string& why, const std::string& advice) {
    if (!holds) wrong(file, why, advice);
  };
  const auto& m = f.model;
  demand(m.layers > 0 && m.heads > 0 && m.width > 0 && m.context > 0 && m.vocabulary > 1,
         "a size under [model] is not positive", "set all of them to at least 1 (vocabulary: 2)");
  demand(m.width % m.heads == 0,
         "model.width " + std::to_string(m.width) + " is no multiple of model.heads " + std::to_string(m.heads),
         "choose a width that all heads can share");
  demand(f.batch > 0 && f.micro_batch > 0, "a batch under [inner] is not positive", "set it to at least 1");
  const auto warmup_share = f.learning_rate.warmup_tokens / f.learning_rate.total_tokens;
  demand(f.protocol.total_tokens > 0, "federation.tokens is 0", "set how many tokens the federation trains on");
  demand(warmup_share >= 0 && warmup_share < 1, "inner.warmup_share is not in 0 .. 1", "try 0.02");
  demand(f.schedule.inner_steps > 0, "outer.inner_steps is 0", "set how many inner steps a round has, 20 say");
  demand(f.schedule.overlap <= f.schedule.inner_steps, "outer.overlap is more than outer.inner_steps",
         "a commit must be taken up before the next offer of its fragment");
  demand(f.protocol.quorum >= 1 && f.protocol.quorum <= f.sites.size(),
         "federation.quorum " + std::to_string(f.protocol.quorum) + " does not fit " + std::to_string(f.sites.size()) +
             " sites",
         "set it between 1 and the number of sites");
  constexpr Seconds none{0};
  demand(f.protocol.grace.longest >= none && f.wait >= none && f.protocol.catch_up_after > none, "a time is negative",
         "times are seconds, from 0");
  demand(f.alpha >= 0 && f.alpha <= 1, "outer.alpha is not in 0 .. 1", "0 takes the anchor, 1 keeps the parameters");
  demand(f.mixing == outer::Mixing::blend || f.alpha == 0, "outer.alpha is set, but outer.mixing is rebase",
         "set outer.mixing = blend, or drop outer.alpha");
}

void check_methods(const std::filesystem::path& file, const FederationFile& f) {
  const auto demand = [&](bool holds, const std::string& why, const std::string& advice) {
    if (!holds) wrong(file, why, advice);
  };
  const auto& p = f.protocol;
  demand(p.grace.slack_share >= 0 && p.grace.slack_share <= 1, "federation.grace_slack is not in 0 .. 1",
         "0 always waits grace_seconds, 1 uses all the slack that outer.overlap leaves");
  demand(p.grace.slack_share == 0 || f.schedule.overlap > 0, "federation.grace_slack is set, but outer.overlap is 0",
         "without overlap there is no slack: set outer.overlap, or drop federation.grace_slack");
  demand(p.staleness <= 64, "federation.staleness is negative or more than 64", "try 0, or 2");
  demand(p.staleness_decay > 0 && p.staleness_decay <= 1, "federation.staleness_decay is not above 0 and at most 1",
         "try 0.5; to leave late offers out set federation.staleness = 0");
  // A share that fp32 cannot hold would merge tokens without their values.
  demand(std::pow(double{p.staleness_decay}, static_cast<double>(p.staleness)) >= 1e-12,
         "federation.staleness_decay to the power of federation.staleness is almost 0", "choose a smaller staleness");
  demand(p.norm_factor >= 0 && p.norm_factor <= 1e9, "federation.norm_factor is negative or no number",
         "try 30; 0 is no gate");
  demand(f.slowest_link > 0 && f.slowest_link <= 1e9, "federation.slowest_link is not a positive number",
         "set the Mbit/s that the slowest link between two sites carries, 8 say");
  const bool own = p.after_offer == federation::AfterOffer::own;
  demand(own || f.mixing == outer::Mixing::rebase, "outer.after_offer is not own, but outer.mixing is blend",
         "use outer.mixing = rebase");
  demand(own || p.staleness == 0, "outer.after_offer is not own, but late offers are accepted",
         "set federation.staleness = 0");
  demand(f.steps == StepRule::fixed || f.wait == Seconds{0}, "outer.wait_seconds is set, but outer.steps is dynamic",
         "sites that make other steps end their rounds at other times: drop outer.wait_seconds");
  // A negative number comes out of the parser as a huge one.
  demand(p.outer.delay <= 1'000'000, "outer.delay is negative or more than 1000000", "try 2 x the number of sites");
  const auto faulty = p.merger.faulty;
  demand(faulty == 0 || p.merger.rule == outer::MergeRule::trimmed_mean || p.merger.rule == outer::MergeRule::krum,
         "outer.faulty is set, but outer.merge asks nothing of it", "use outer.merge = trimmed_mean or krum");
  demand(faulty < f.sites.size(), "outer.faulty is not less than the number of sites",
         "at least one site must be right");
  try {
    p.outer.check();
  } catch (const ConfigError& error) {
    wrong(file, std::string("[outer] ") + error.what(), "see inputs/README.md for the ranges");
  }
}

}  // namespace

void check_settings(const std::filesystem::path& file, const FederationFile& federation) {
  check_counts(file, federation);
  check_optimizers(file, federation);
  check_times_and_sizes(file, federation);
  check_methods(file, federation);
}

}  // namespace Atoll::app
