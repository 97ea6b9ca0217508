// The plan of a seed, and the passing of time.
#include "world.hpp"

#include <algorithm>
#include <format>

#include "atoll/store/digest.hpp"

namespace Atoll::federation::sim {

Plan::Plan(std::uint64_t seed) : dice(seed * 0x2545f4914f6cdd1dU + 1) {
  sites = static_cast<std::uint32_t>(dice.whole(2, 6));
  fragments = static_cast<std::uint32_t>(dice.whole(2, 3));
  protocol.federation = "simulated";
  static const auto configuration = store::digest_of("configuration");
  protocol.configuration = configuration;
  for (std::uint32_t i = 0; i < sites; ++i) protocol.sites.push_back("site" + std::to_string(i));
  protocol.quorum = dice.chance(0.5) ? 1 : static_cast<std::uint32_t>(dice.whole(1, sites));
  protocol.grace.longest = Seconds{dice.real(0, 2)};
  ends = dice.chance(0.25);
  protocol.total_tokens = ends ? sites * dice.whole(10, 150) * 10 : 1'000'000;
  loss = dice.chance(0.2) ? dice.real(0, 0.05) : 0;
  duplication = dice.chance(0.1) ? dice.real(0, 0.05) : 0;
  if (loss > 0 || dice.chance(0.5)) {
    protocol.resend_after = Seconds{20};
    protocol.ask_again_after = Seconds{5};
    protocol.join_patience = Seconds{20};
  }
  schedule.inner_steps = dice.whole(2, 8);
  schedule.fragments = fragments;
  schedule.overlap = dice.whole(0, schedule.inner_steps - 1);
  faults_end = dice.real(10, 60);
  seconds_per_fault = dice.real(1, 15);
  look_every = dice.real(0.1, 0.3);
  gather = dice.real(1, 15);
  checkpoint_every = dice.real(2, 15);
  time_limit = gather + protocol.join_patience.count() + protocol.resend_after.count() + 60;
}

Counts& Counts::operator+=(const Counts& other) {
  for (const auto member : {&Counts::events, &Counts::letters, &Counts::commits, &Counts::joins, &Counts::crashes,
                            &Counts::cuts, &Counts::steps, &Counts::steps_dropped})
    this->*member += other.*member;
  return *this;
}

World::World(std::uint64_t seed, Trace trace)
    : plan_(seed), trace_(std::move(trace)), dice_(plan_.dice.next()), sites_(plan_.sites) {
  lines_.resize(std::size_t{plan_.sites} * plan_.sites);
  pairs_.resize(std::size_t{plan_.sites} * plan_.sites);
  const bool slow_links = dice_.chance(0.2);
  for (auto& p : pairs_) {
    p.latency = dice_.real(0.001, 0.2);
    p.bulk_time = dice_.real(0.01, slow_links && dice_.chance(0.3) ? 2 : 0.5);
  }
  Island first;
  first.work.resize(plan_.fragments);
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    std::vector<float> values(dice_.whole(3, 5));
    for (auto& value : values) value = static_cast<float>(dice_.real(-1, 1));
    first.fragments.push_back(FragmentState::initial(values));
    first.parameters.push_back(std::move(values));
    ledger_.begin({f}, first.fragments.back());
  }
  for (std::uint32_t i = 0; i < plan_.sites; ++i) {
    sites_[i].checkpoints.push_back(first);
    sites_[i].step_time = dice_.real(0.2, dice_.chance(0.2) ? 3 : 0.6);
    at(dice_.chance(0.7) ? dice_.real(0, 2) : dice_.real(0, plan_.faults_end), Kind::start, i);
  }
  at(dice_.real(0, 2 * plan_.seconds_per_fault), Kind::fault);
}

std::string World::describe() const {
  return std::format(
      "{} sites, {} fragments, quorum {}, grace {:.2f} s, H {}, tau {}, faults until {:.1f} s about every "
      "{:.1f} s, loss {:.3f}, duplication {:.3f}, {} tokens",
      plan_.sites, plan_.fragments, plan_.protocol.quorum, plan_.protocol.grace.longest.count(),
      plan_.schedule.inner_steps, plan_.schedule.overlap, plan_.faults_end, plan_.seconds_per_fault, plan_.loss,
      plan_.duplication, plan_.protocol.total_tokens);
}

void World::at(double time, Kind kind, std::uint32_t a, std::uint32_t b, std::uint64_t mark) {
  events_.push({time, ++order_, kind, a, b, mark});
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
    case Kind::fault:
      return faulty_ ? fault() : void();
    case Kind::start:
      return !site.protocol && !site.gone ? start(event.a) : void();
    case Kind::heal:
      return heal(event.a, event.b);
  }
}

}  // namespace Atoll::federation::sim
