// What a seed plans, part by part. Numbers that one part needs never shift those of another.
#include "plan.hpp"

#include <algorithm>
#include <array>
#include <format>

#include "atoll/store/digest.hpp"

namespace Atoll::federation::sim {
namespace {

enum Purpose : std::uint64_t { for_protocol, for_site, for_pair, for_disturbances, for_faults, for_size, for_variants };

// Mostly short, sometimes as long as many rounds.
double pause(Dice& dice) {
  const double draw = dice.real(0, 1);
  return draw < 0.5 ? dice.real(0.2, 3) : draw < 0.95 ? dice.real(3, 30) : dice.real(30, 200);
}

FaultKind kind_of(std::uint64_t draw) {
  using enum FaultKind;
  constexpr std::array kinds{crash, crash, crash, rewind, rewind, stop,   split,         split,          cut,
                             cut,   cut,   slow,  jump,   jump,   depart, stall_gateway, stall_training, freeze};
  return kinds[draw % kinds.size()];
}

Fault draw_fault(Dice& dice, double time, std::uint32_t sites) {
  Fault fault{.kind = kind_of(dice.next()), .time = time, .seconds = pause(dice)};
  fault.site = static_cast<std::uint32_t>(dice.whole(0, sites - 1));
  fault.other = static_cast<std::uint32_t>((fault.site + dice.whole(1, sites - 1)) % sites);
  fault.group = dice.next() & 0xffff;
  using enum FaultKind;
  if (fault.kind == rewind) fault.amount = static_cast<double>(dice.whole(1, 2));
  if (fault.kind == stop) fault.seconds += 10.5;
  if (fault.kind == depart) fault.amount = static_cast<double>(dice.whole(0, 1));
  if (fault.kind == slow) fault.amount = dice.real(1.5, 10);
  if (fault.kind == jump) fault.amount = dice.chance(0.5) ? dice.real(0.5, 10) : dice.real(10, 600);
  return fault;
}

}  // namespace

std::string_view name_of(FaultKind kind) {
  constexpr std::array<std::string_view, fault_kinds> names{"late",   "crash",         "rewind",         "stop",
                                                            "depart", "cut",           "split",          "slow",
                                                            "jump",   "stall_gateway", "stall_training", "freeze"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Disturbance disturbance) {
  constexpr std::array<std::string_view, disturbances> names{"loss",       "duplication", "reordering", "flips",
                                                             "slow_links", "slow_sites",  "skew"};
  return names[static_cast<std::size_t>(disturbance)];
}

std::string Fault::text() const {
  const auto what = [&]() -> std::string {
    switch (kind) {
      case FaultKind::late:
        return std::format("site{} starts for the first time", site);
      case FaultKind::crash:
        return std::format("site{} dies; starts again after {:.1f} s", site, seconds);
      case FaultKind::rewind:
        return std::format("site{} dies; starts again after {:.1f} s, {} checkpoints back", site, seconds, amount);
      case FaultKind::stop:
        return std::format("site{} stops in good order; starts again after {:.1f} s", site, seconds);
      case FaultKind::depart:
        return std::format("site{} {} and never comes back", site, amount == 0 ? "stops in good order" : "dies");
      case FaultKind::cut:
        return std::format("site{} and site{} are cut off from each other for {:.1f} s", site, other, seconds);
      case FaultKind::split:
        return std::format("the sites of {:016b} and the others are cut off from each other for {:.1f} s", group,
                           seconds);
      case FaultKind::slow:
        return std::format("site{} becomes {:.1f} times as slow for {:.1f} s", site, amount, seconds);
      case FaultKind::jump:
        return std::format("the clock of site{} jumps ahead by {:.1f} s", site, amount);
      case FaultKind::stall_gateway:
        return std::format("the gateway of site{} stands still for {:.1f} s", site, seconds);
      case FaultKind::stall_training:
        return std::format("the training of site{} stands still for {:.1f} s", site, seconds);
      case FaultKind::freeze:
        return std::format("site{} is frozen for {:.1f} s", site, seconds);
    }
    return {};
  };
  return std::format("{:3} {:8.3f} s  {}", number, time, what());
}

std::string Reduction::options() const {
  std::string text;
  if (keep) {
    text += " --keep ";
    for (const auto number : *keep) text += std::format("{}{}", text.ends_with(' ') ? "" : ",", number);
    if (keep->empty()) text += "none";
  }
  if (!without.empty()) text += " --without ";
  for (const auto disturbance : without)
    text += std::format("{}{}", text.ends_with(' ') ? "" : ",", name_of(disturbance));
  if (sites) text += std::format(" --sites {}", *sites);
  if (until) text += std::format(" --until {}", *until);
  return text;
}

Plan::Plan(std::uint64_t of, const Reduction& reduction) : seed(of) {
  auto size = dice(for_size, 0);
  const double draw = size.real(0, 1);
  const auto count = static_cast<std::uint32_t>(draw < 0.85   ? size.whole(2, 6)
                                                : draw < 0.96 ? size.whole(7, 10)
                                                              : size.whole(11, 16));
  const double length = count > 10 ? size.real(10, 20) : size.chance(0.03) ? size.real(60, 200) : size.real(6, 30);
  faults_end = length;
  plan_sites(count);
  plan_protocol();
  plan_disturbances(reduction.without);
  plan_faults(count);
  reduce(reduction);
  set_limits();
}

void Plan::plan_sites(std::uint32_t count) {
  sites.resize(count);
  pairs.resize(std::size_t{count} * count);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto draw = dice(for_site, i);
    sites[i].start = draw.real(0, 2);
    sites[i].step_time = count > 6 ? draw.real(0.5, 1) : draw.real(0.2, 0.6);
    for (std::uint32_t j = i + 1; j < count; ++j) {
      auto link = dice(for_pair, i * 64 + j);
      pairs[i * count + j] = {link.real(0.001, 0.2), link.real(0.01, count > 6 ? 0.2 : 0.5)};
    }
  }
}

void Plan::plan_protocol() {
  auto draw = dice(for_protocol, 0);
  const auto count = site_count();
  fragments = static_cast<std::uint32_t>(draw.whole(2, 3));
  protocol.federation = "simulated";
  static const auto configuration = store::digest_of("configuration");
  protocol.configuration = configuration;
  protocol.quorum = draw.chance(0.5) ? 1 : static_cast<std::uint32_t>(draw.whole(1, count));
  protocol.grace.longest = Seconds{draw.real(0, 2)};
  protocol.status_interval = Seconds{count > 10 ? draw.real(1.5, 3) : draw.real(0.7, 2)};
  ends = draw.chance(0.25);
  protocol.total_tokens = ends ? count * draw.whole(10, 100) * 10 : 1'000'000;
  if (draw.chance(0.5)) {
    protocol.resend_after = Seconds{20};
    protocol.ask_again_after = Seconds{5};
    protocol.join_patience = Seconds{20};
  }
  schedule.inner_steps = draw.whole(2, 8);
  schedule.fragments = fragments;
  schedule.overlap = draw.whole(0, schedule.inner_steps - 1);
  protocol.grace.overlap = schedule.overlap;
  plan_variants();
  look_every = draw.real(0.2, 0.6);
  gather = draw.real(1, 15);
  checkpoint_every = draw.real(2, 15);
  if (draw.chance(0.3)) {
    protocol.far_behind = draw.whole(3, 8);
    protocol.catch_up_after = Seconds{draw.real(1, 10)};
  }
}

// The rarer ways to run a federation.
void Plan::plan_variants() {
  auto draw = dice(for_variants, 0);
  if (draw.chance(0.3)) protocol.grace.slack_share = draw.real(0.2, 1);
  if (draw.chance(0.3)) protocol.stewardship = Stewardship::spread;
  protocol.norm_factor = draw.chance(0.7) ? 0 : draw.chance(0.5) ? 30 : 4;
  if (draw.chance(0.2)) {
    using enum outer::OuterMethod;
    constexpr std::array methods{sgd, delayed_nesterov, adam, yogi, adagrad};
    protocol.outer.method = methods[draw.whole(0, methods.size() - 1)];
    protocol.outer.delay = static_cast<std::uint32_t>(draw.whole(1, 4));
  }
  if (draw.chance(0.2)) protocol.merger.rule = outer::MergeRule::radial_directional;
  const auto way = draw.real(0, 1);
  if (way < 0.35) {
    protocol.staleness = draw.whole(1, 3);
    protocol.keeps_progress = draw.chance(0.8);
  } else if (way < 0.45) {
    protocol.keeps_progress = false;
  } else if (way < 0.55) {
    protocol.after_offer = draw.chance(0.5) ? AfterOffer::eager : AfterOffer::anchor;
  }
}

void Plan::plan_disturbances(const std::set<Disturbance>& without) {
  const auto share = [&](Disturbance disturbance, double probability, double most) {
    auto draw = dice(for_disturbances, static_cast<std::uint64_t>(disturbance));
    const bool there = draw.chance(probability);
    return there && !without.contains(disturbance) ? draw.real(0, most) : 0;
  };
  loss = share(Disturbance::loss, 0.2, 0.05);
  duplication = share(Disturbance::duplication, 0.2, 0.05);
  reordering = share(Disturbance::reordering, 0.2, 0.3);
  flips = share(Disturbance::flips, 0.05, 0.03);
  const double slow_links = share(Disturbance::slow_links, 0.2, 0.5);
  const double slow_sites = share(Disturbance::slow_sites, 0.15, 0.5);
  const double skew = share(Disturbance::skew, 0.4, 0.05);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    auto draw = dice(for_disturbances, 100 + i);
    if (draw.chance(slow_sites)) sites[i].step_time *= draw.real(2, 10);
    if (skew == 0) continue;
    sites[i].clock_offset = draw.real(-1000, 1000);
    sites[i].clock_rate = draw.real(1 - skew, 1 + skew);
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto draw = dice(for_disturbances, 1000 + i);
    if (draw.chance(slow_links)) pairs[i].bulk_time = draw.real(0.5, 2);
  }
}

void Plan::plan_faults(std::uint32_t count) {
  auto draw = dice(for_faults, 0);
  for (std::uint32_t i = 0; i < count; ++i)
    if (draw.chance(0.15)) faults.push_back({.kind = FaultKind::late, .time = draw.real(2, faults_end), .site = i});
  const double spacing = draw.real(1, 15);
  for (double time = draw.real(0, 2 * spacing); time < faults_end; time += draw.real(0, 2 * spacing))
    faults.push_back(draw_fault(draw, time, count));
  std::ranges::stable_sort(faults, {}, &Fault::time);
  for (std::uint32_t number = 0; auto& fault : faults) fault.number = number++;
}

void Plan::reduce(const Reduction& reduction) {
  if (reduction.sites && *reduction.sites < sites.size()) {
    const auto count = *reduction.sites;
    std::vector<PairPlan> kept(std::size_t{count} * count);
    for (std::uint32_t a = 0; a < count; ++a)
      for (std::uint32_t b = a + 1; b < count; ++b) kept[a * count + b] = pairs[a * sites.size() + b];
    pairs = std::move(kept);
    sites.resize(count);
  }
  protocol.quorum = std::min(protocol.quorum, site_count());
  for (std::uint32_t i = 0; i < site_count(); ++i) protocol.sites.push_back("site" + std::to_string(i));
  if (reduction.until) faults_end = std::min(faults_end, *reduction.until);
  const auto out = [&](const Fault& fault) {
    return (reduction.keep && !reduction.keep->contains(fault.number)) || fault.site >= site_count() ||
           (fault.kind == FaultKind::cut && fault.other >= site_count()) || fault.time > faults_end;
  };
  std::erase_if(faults, out);
  // So many stay that they can train.
  std::set<std::uint32_t> gone;
  std::erase_if(faults, [&](const Fault& fault) {
    if (fault.kind != FaultKind::depart) return false;
    const auto most = site_count() - protocol.quorum;
    return gone.contains(fault.site) || gone.size() >= most || !gone.insert(fault.site).second;
  });
}

void Plan::set_limits() {
  double slowest = 0, bulk = 0;
  for (const auto& site : sites) slowest = std::max(slowest, site.step_time);
  for (const auto& pair : pairs) bulk = std::max(bulk, pair.bulk_time + pair.latency);
  round_time = 1.2 * static_cast<double>(schedule.inner_steps) * slowest + protocol.grace.longest.count() + 4 * bulk;
  time_limit = 1.1 * (gather + protocol.join_patience.count() + protocol.resend_after.count()) + 30 + 6 * round_time;
}

std::string Plan::describe() const {
  return std::format(
      "{} sites, {} fragments, quorum {}, grace {:.2f} s, H {}, tau {}, S {}, {}{}{} faults until {:.1f} s, loss "
      "{:.3f}, duplication {:.3f}, reordering {:.3f}, flips {:.3f}, {} tokens",
      sites.size(), fragments, protocol.quorum, protocol.grace.longest.count(), schedule.inner_steps, schedule.overlap,
      protocol.staleness, protocol.keeps_progress ? "" : "takes anchors, ",
      protocol.stewardship == Stewardship::spread ? "spread, " : "", faults.size(), faults_end, loss, duplication,
      reordering, flips, protocol.total_tokens);
}

}  // namespace Atoll::federation::sim
