// What breaks, and how it comes back.
#include <algorithm>
#include <format>

#include "world.hpp"

namespace Atoll::federation::sim {

void World::fault(const Fault& fault) {
  if (!strike(fault)) return;
  say([&] { return "==== fault " + fault.text(); });
  ++counts_.faults[static_cast<std::size_t>(fault.kind)];
}

// False when the site is in no state in which this can happen to it.
bool World::strike(const Fault& fault) {
  const auto i = fault.site;
  auto& site = sites_[i];
  using Of = FaultKind;
  if (fault.kind == Of::late) return true;  // the start was put off
  if (fault.kind == Of::split) return split(fault.group, fault.seconds), true;
  if (fault.kind == Of::cut) return cut(i, fault.other, fault.seconds), true;
  if (fault.kind == Of::depart && !site.protocol && !site.gone) return site.departed = true;
  if (!site.protocol || (site.leaving && site.gone)) return false;
  switch (fault.kind) {
    case Of::crash:
    case Of::rewind:
      if (defect_ == Defect::forgetful && jumped_) return forget(i), true;
      crash(i);
      site.back = static_cast<std::size_t>(fault.amount);
      at(now_ + fault.seconds, Kind::start, i);
      return true;
    case Of::stop:
      if (!stop_in_order(i)) return false;
      at(now_ + fault.seconds, Kind::start, i);
      return true;
    case Of::depart:
      site.departed = true;
      if (fault.amount != 0 || !stop_in_order(i)) crash(i);
      return true;
    case Of::jump:
      return jump(i, fault.amount), true;
    default:
      return stand_still(fault), true;
  }
}

void World::crash(std::uint32_t i) {
  auto& site = sites_[i];
  say([&] { return std::format("site{} dies", i); });
  site.protocol.reset();
  site.adoptions.clear();
  site.gateway_until = site.training_until = site.frozen_until = 0;
  if (site.departed) site.held.clear();
  for (std::uint32_t j = 0; j < plan_.site_count(); ++j)
    line(i, j) = {};  // what it had posted is lost; what others did is not
}

bool World::stop_in_order(std::uint32_t i) {
  auto& site = sites_[i];
  const bool can = site.begun && !site.leaving && !site.finished && !frozen(i) && now_ >= site.training_until;
  if (!can) return false;
  say([&] { return std::format("site{} stops in good order", i); });
  site.protocol->rest();
  checkpoint(i);
  site.leaving = true;
  site.leave_until = now_ + 10;
  site.protocol->leave();
  examine(i);
  return true;
}

// The planted defect: the island goes on, but what its protocol holds is what an old checkpoint held.
void World::forget(std::uint32_t i) {
  auto& site = sites_[i];
  auto config = site.protocol->config();
  // Serials must not come twice: that would break a contract instead of an invariant.
  config.incarnation = site.incarnation = incarnation_of(i, site.protocol->fragments());
  site.protocol.emplace(std::move(config), site.checkpoints.front().fragments);
  examine(i);
}

void World::stand_still(const Fault& fault) {
  auto& site = sites_[fault.site];
  const double until = std::min(now_ + fault.seconds, plan_.faults_end);
  using enum FaultKind;
  if (fault.kind == slow) {
    site.slow_until = until;
    site.slow_factor = fault.amount;
  } else if (fault.kind == stall_training) {
    site.training_until = until;
  } else {
    if (fault.kind == stall_gateway) site.gateway_since = now_;
    (fault.kind == stall_gateway ? site.gateway_until : site.frozen_until) = until;
    at(until, Kind::wake, fault.site);
  }
}

// All that is measured in its time seems to have taken so long, and nobody has shown life meanwhile.
void World::jump(std::uint32_t i, double seconds) {
  jumped_ = true;
  sites_[i].clock_jumps += seconds;
  if (gateway_stands(i)) return;
  for (std::uint32_t j = 0; j < plan_.site_count(); ++j)
    if (j != i) observe(i, j);
  examine(i);
}

// Whatever the site knew and its checkpoint does not is rolled back.
void World::load(std::uint32_t i) {
  auto& site = sites_[i];
  for (std::uint32_t f = 0; f < site.island.work.size(); ++f)
    rolled_back_[f].unite(
        Contents(site.island.work[f].all().steps).remove(site.checkpoints.back().work[f].all().steps));
  site.island = site.checkpoints.back();
}

// As in IslandGateway: the time, but later than anything that an earlier start did.
Incarnation World::incarnation_of(std::uint32_t i, const std::vector<FragmentState>& fragments) const {
  auto incarnation = 1000 + static_cast<Incarnation>(now_ * 1e6);
  for (const auto& s : fragments) {
    incarnation = std::max(incarnation, s.newest_serial({i}) + 1);
    if (s.outstanding) incarnation = std::max(incarnation, s.outstanding->serial + 1);
  }
  return incarnation;
}

void World::start(std::uint32_t i) {
  auto& site = sites_[i];
  const auto newest = site.checkpoints.size() - 1;
  const auto chosen = newest - std::min(std::exchange(site.back, 0), newest);
  site.checkpoints.resize(chosen + 1);
  load(i);
  auto fragments = site.island.fragments;
  auto config = plan_.protocol;
  config.self = {i};
  config.incarnation = incarnation_of(i, fragments);
  for (auto& s : fragments) {
    if (!s.outstanding) continue;
    s.outstanding->sent_to = {};
    s.outstanding->sent_to_incarnation = 0;
    s.outstanding->sent_at = Seconds{-1e9};
  }
  site.held.clear();
  for (const auto& s : fragments) site.held.emplace_back(s.version, s.digest);
  site.adoptions.clear();
  site.noted_lost.assign(plan_.fragments, 0);
  site.start = ++starts_;
  site.incarnation = config.incarnation;
  site.started = now(i).count();
  site.begun = site.leaving = site.finished = false;
  one_end_ &= std::ranges::none_of(sites_, &Site::gone);  // it may find nobody who tells it the end
  site.first_step = inner_steps_;
  site.protocol.emplace(std::move(config), std::move(fragments));
  say([&] {
    std::string text =
        std::format("site{} starts as {} from checkpoint {} of {}, at", i, site.incarnation, chosen, newest);
    for (const auto& [version, digest] : site.held) text += std::format(" {}:{}", version, digest.hex().substr(0, 6));
    return text;
  });
  for (std::uint32_t j = 0; j < plan_.site_count(); ++j)
    if (j != i) new_session(i, j);
  at(now_ + 0.01, Kind::look, i, 0, site.start);
  at(now_ + site.dice.real(0, plan_.sites[i].step_time), Kind::step, i, 0, site.start);
  at(now_ + plan_.checkpoint_every * site.dice.real(0.5, 1.5), Kind::checkpoint, i, 0, site.start);
}

// Two groups that do not hear of each other.
void World::split(std::uint64_t group, double seconds) {
  for (std::uint32_t a = 0; a < plan_.site_count(); ++a)
    for (std::uint32_t b = a + 1; b < plan_.site_count(); ++b)
      if (((group >> a) & 1) != ((group >> b) & 1)) cut(a, b, seconds + line_dice(a, b).real(0, 2));
}

void World::cut(std::uint32_t a, std::uint32_t b, double seconds) {
  if (pair(a, b).cut) return;
  say([&] { return std::format("site{} and site{} are cut off for {:.1f} s", a, b, seconds); });
  pair(a, b).cut = true;
  at(now_ + seconds, Kind::heal, a, b);
}

void World::heal(std::uint32_t a, std::uint32_t b) {
  if (a == b || !pair(a, b).cut) return;
  say([&] { return std::format("site{} and site{} are joined again", a, b); });
  pair(a, b).cut = false;
  new_session(a, b);
}

// From here on nothing breaks. Sites that are down start, but those that left for good stay away.
void World::end_faults() {
  faulty_ = false;
  say([] { return std::string("---- no more faults"); });
  for (std::uint32_t a = 0; a < plan_.site_count(); ++a)
    for (std::uint32_t b = a + 1; b < plan_.site_count(); ++b) heal(a, b);
  for (std::uint32_t i = 0; i < plan_.site_count(); ++i) {
    auto& site = sites_[i];
    if (site.protocol && site.leaving && !site.gone) crash(i);
    if (!site.protocol && !site.gone && !site.departed) start(i);
  }
  changed_ = true;
  phase_began_ = now_;
}

}  // namespace Atoll::federation::sim
