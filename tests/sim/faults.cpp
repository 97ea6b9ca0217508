// What breaks, and how it comes back.
#include <algorithm>
#include <format>

#include "world.hpp"

namespace Atoll::federation::sim {

void World::fault() {
  at(now_ + dice_.real(0, 2 * plan_.seconds_per_fault), Kind::fault);
  const auto i = static_cast<std::uint32_t>(dice_.whole(0, plan_.sites - 1));
  const auto draw = dice_.whole(0, 9);
  const double pause = dice_.chance(0.5) ? dice_.real(0.2, 3) : dice_.real(3, 30);
  if (draw < 4) {
    if (!sites_[i].protocol) return;
    crash(i);
    at(now_ + pause, Kind::start, i);
  } else if (draw < 5) {
    if (sites_[i].protocol && sites_[i].begun && !sites_[i].leaving && !sites_[i].finished) stop_in_order(i);
  } else if (draw < 7) {
    split();
  } else if (draw < 9) {
    const auto j = static_cast<std::uint32_t>(dice_.whole(0, plan_.sites - 1));
    if (i != j) cut(i, j, pause);
  } else {
    sites_[i].step_time = dice_.real(0.2, 3);
    say([&] { return std::format("site{} makes a step in {:.2f} s", i, sites_[i].step_time); });
  }
}

void World::crash(std::uint32_t i) {
  ++counts_.crashes;
  say([&] { return std::format("site{} dies", i); });
  sites_[i].protocol.reset();
  sites_[i].adoptions.clear();
  for (std::uint32_t j = 0; j < plan_.sites; ++j)
    line(i, j) = {};  // what it had posted is lost; what others did is not
}

void World::stop_in_order(std::uint32_t i) {
  auto& site = sites_[i];
  say([&] { return std::format("site{} stops in good order", i); });
  site.protocol->rest();
  checkpoint(i);
  site.leaving = true;
  site.leave_until = now_ + 10;
  site.protocol->leave();
  examine(i);
  at(now_ + dice_.real(10.5, 30), Kind::start, i);
}

void World::start(std::uint32_t i) {
  auto& site = sites_[i];
  const auto newest = site.checkpoints.size() - 1;
  const auto chosen = dice_.chance(0.8) ? newest : dice_.whole(0, newest);
  site.checkpoints.resize(chosen + 1);
  site.island = site.checkpoints.back();
  auto fragments = site.island.fragments;
  auto config = plan_.protocol;
  config.self = {i};
  config.incarnation = 1000 + static_cast<Incarnation>(now_ * 1e6);
  for (auto& s : fragments) {
    config.incarnation = std::max(config.incarnation, s.newest_serial(config.self) + 1);
    if (!s.outstanding) continue;
    config.incarnation = std::max(config.incarnation, s.outstanding->serial + 1);
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
  site.started = now_;
  site.begun = site.leaving = site.finished = false;
  site.first_step = inner_steps_;
  site.protocol.emplace(std::move(config), std::move(fragments));
  say([&] {
    std::string text =
        std::format("site{} starts as {} from checkpoint {} of {}, at", i, site.incarnation, chosen, newest);
    for (const auto& [version, digest] : site.held) text += std::format(" {}:{}", version, digest.hex().substr(0, 6));
    return text;
  });
  for (std::uint32_t j = 0; j < plan_.sites; ++j)
    if (j != i) new_session(i, j);
  at(now_ + 0.01, Kind::look, i, 0, site.start);
  at(now_ + dice_.real(0, site.step_time), Kind::step, i, 0, site.start);
  at(now_ + plan_.checkpoint_every * dice_.real(0.5, 1.5), Kind::checkpoint, i, 0, site.start);
}

// Two groups that do not hear of each other.
void World::split() {
  const auto group = dice_.next();
  const double seconds = dice_.chance(0.5) ? dice_.real(0.2, 6) : dice_.real(6, 30);
  for (std::uint32_t a = 0; a < plan_.sites; ++a)
    for (std::uint32_t b = a + 1; b < plan_.sites; ++b)
      if (((group >> a) & 1) != ((group >> b) & 1)) cut(a, b, seconds + dice_.real(0, 2));
}

void World::cut(std::uint32_t a, std::uint32_t b, double seconds) {
  if (pair(a, b).cut) return;
  ++counts_.cuts;
  say([&] { return std::format("site{} and site{} are cut off for {:.1f} s", a, b, seconds); });
  pair(a, b).cut = true;
  at(now_ + seconds, Kind::heal, a, b);
}

void World::heal(std::uint32_t a, std::uint32_t b) {
  if (!pair(a, b).cut) return;
  say([&] { return std::format("site{} and site{} are joined again", a, b); });
  pair(a, b).cut = false;
  new_session(a, b);
}

// From here on nothing breaks. Sites that are down start, but some may stay away for good while a quorum lives.
void World::end_faults() {
  faulty_ = false;
  say([] { return std::string("---- no more faults"); });
  for (std::uint32_t a = 0; a < plan_.sites; ++a)
    for (std::uint32_t b = a + 1; b < plan_.sites; ++b) heal(a, b);
  std::uint32_t away = 0;
  for (std::uint32_t i = 0; i < plan_.sites; ++i) {
    auto& site = sites_[i];
    if (site.step_time > 1) site.step_time = 1;
    if (site.protocol && site.leaving && !site.gone) crash(i);
    if (site.protocol || site.gone) continue;
    if (dice_.chance(0.3) && away + plan_.protocol.quorum < plan_.sites && away + 1 < plan_.sites) {
      ++away;
      site.gone = true;
      site.held.clear();
    } else {
      start(i);
    }
  }
  changed_ = true;
  phase_began_ = now_;
}

}  // namespace Atoll::federation::sim
