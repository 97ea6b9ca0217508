// The passing of time.
#include "world.hpp"

#include <algorithm>

namespace Atoll::federation::sim {
namespace {

enum Purpose : std::uint64_t { for_values = 100, for_pace, for_noise, for_line };

// A gateway thread that stands still for so long takes the island's pulse with it.
constexpr double stall_limit = 120;

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  for (const auto member :
       {&Counts::events, &Counts::letters, &Counts::commits, &Counts::joins, &Counts::steps, &Counts::steps_dropped,
        &Counts::steps_of_lighter, &Counts::lost, &Counts::duplicated, &Counts::reordered, &Counts::flipped})
    this->*member += other.*member;
  for (std::size_t kind = 0; kind < fault_kinds; ++kind) faults[kind] += other.faults[kind];
  return *this;
}

World::World(Plan plan, Trace trace, Defect defect)
    : plan_(std::move(plan)), trace_(std::move(trace)), defect_(defect), sites_(plan_.sites.size()) {
  const auto count = plan_.site_count();
  lines_.resize(std::size_t{count} * count);
  pairs_.resize(lines_.size());
  for (std::size_t i = 0; i < lines_.size(); ++i) line_dice_.push_back(plan_.dice(for_line, i));
  rolled_back_.resize(plan_.fragments);
  tokens_lost_.resize(plan_.fragments);
  auto dice = plan_.dice(for_values, 0);
  Island first;
  first.work.resize(plan_.fragments);
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    std::vector<float> values(dice.whole(3, 5));
    for (auto& value : values) value = static_cast<float>(dice.real(-1, 1));
    first.fragments.push_back(FragmentState::initial(values, plan_.protocol.outer.slots()));
    first.parameters.push_back(std::move(values));
    ledger_.begin({f}, first.fragments.back());
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    sites_[i].checkpoints.push_back(first);
    sites_[i].dice = plan_.dice(for_pace, i);
    sites_[i].noise = plan_.dice(for_noise, i);
    const auto late = std::ranges::find_if(
        plan_.faults, [&](const Fault& fault) { return fault.kind == FaultKind::late && fault.site == i; });
    at(late == plan_.faults.end() ? plan_.sites[i].start : late->time, Kind::start, i);
  }
  for (std::uint32_t number = 0; number < plan_.faults.size(); ++number)
    at(plan_.faults[number].time, Kind::fault, 0, 0, number);
  at(plan_.faults_end, Kind::heal);
}

void World::at(double time, Kind kind, std::uint32_t a, std::uint32_t b, std::uint64_t mark) {
  events_.push({time, ++order_, kind, a, b, mark});
}

Seconds World::now(std::uint32_t i) const {
  const auto& plan = plan_.sites[i];
  return Seconds{plan.clock_offset + plan.clock_rate * now_ + sites_[i].clock_jumps};
}

bool World::frozen(std::uint32_t i) const {
  const auto& site = sites_[i];
  return now_ < site.frozen_until || (now_ < site.gateway_until && now_ > site.gateway_since + stall_limit);
}

bool World::gateway_stands(std::uint32_t i) const {
  return now_ < std::max(sites_[i].frozen_until, sites_[i].gateway_until);
}

Counts World::run() {
  while (phase_ != Phase::done) {
    const auto event = events_.top();
    events_.pop();
    now_ = event.time;
    ++counts_.events;
    if (faulty_ && now_ >= plan_.faults_end) end_faults();
    try {
      happen(event);
      if (!faulty_) plan_.ends ? check_end() : check_agreement();
    } catch (const std::exception& error) {
      throw Broken(std::format("at {:.3f} s: {}", now_, error.what()));
    }
  }
  settle_accounts();
  return counts_;
}

void World::happen(const Event& event) {
  auto& site = sites_[event.a];
  const bool current = site.protocol && site.start == event.mark;
  switch (event.kind) {
    case Kind::look:
      return current ? look(event.a) : void();
    case Kind::step:
      return current ? step(event.a) : void();
    case Kind::checkpoint:
      return current ? checkpoint(event.a) : void();
    case Kind::arrival:
      return arrival(event.a, event.b, event.mark);
    case Kind::stray:
      return stray(event.a, event.b, event.mark);
    case Kind::fault:
      return faulty_ ? fault(plan_.faults[event.mark]) : void();
    case Kind::start:
      return !site.protocol && !site.gone && !site.departed ? start(event.a) : void();
    case Kind::heal:
      return heal(event.a, event.b);
    case Kind::repair:
      return new_session(event.a, event.b);
    case Kind::wake:
      return wake(event.a);
  }
}

}  // namespace Atoll::federation::sim
