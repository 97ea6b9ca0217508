// Gateways as in src/federation/gateway.cpp, mailboxes as in MAILBOX.md, and links between them.
#include <algorithm>
#include <format>

#include "world.hpp"

namespace Atoll::federation::sim {
namespace {

using store::Letter;
using store::LetterKind;

constexpr double silence_limit = 4;
constexpr std::size_t most_waiting = 256;
constexpr std::array<std::size_t, lanes> slots{32, 4};

std::size_t lane_of(LetterKind kind) {
  return kind == LetterKind::status || kind == LetterKind::snapshot_request ? 0 : 1;
}

}  // namespace

bool World::linked(std::uint32_t a, std::uint32_t b) {
  const auto& p = pair(a, b);
  return !p.cut && sites_[a].protocol && sites_[b].protocol && now_ >= p.session_at;
}

// One look at everything, as Gateway::round_trip.
void World::look(std::uint32_t i) {
  auto& site = sites_[i];
  for (std::uint32_t j = 0; j < plan_.sites; ++j)
    if (j != i) observe(i, j);
  site.protocol->tick(now());
  examine(i);
  if (!site.begun && !site.leaving) {
    const std::size_t needed = site.protocol->has_history() ? 2 : plan_.sites;
    if ((site.protocol->sites_alive() >= needed && site.protocol->settled()) || now_ > site.started + plan_.gather) {
      say([&] { return std::format("site{} begins", i); });
      site.begun = true;
      site.protocol->begin(now());
      examine(i);
    }
  }
  if (site.begun && !site.leaving && site.protocol->finished()) {
    if (!std::exchange(site.finished, true)) site.finished_at = now_;
    if (site.protocol->all_finished() || now_ > site.finished_at + plan_.linger) leave_for_good(i);
  }
  for (std::uint32_t j = 0; j < plan_.sites; ++j)
    if (j != i) post(i, j);
  if (site.leaving) {
    bool delivered = true;
    for (std::uint32_t j = 0; j < plan_.sites; ++j) {
      const auto& out = line(i, j);
      delivered &= !linked(i, j) || (out.waiting.empty() && out.posted[0].empty() && out.posted[1].empty());
    }
    if (delivered || now_ > site.leave_until) return crash(i);
  }
  at(now_ + plan_.look_every * dice_.real(0.5, 1.5), Kind::look, i, 0, site.start);
}

void World::observe(std::uint32_t i, std::uint32_t j) {
  auto& out = line(i, j);
  if (linked(i, j)) {
    out.seen = now_;
    out.incarnation = sites_[j].incarnation;
  }
  const bool alive = out.incarnation != 0 && now_ - out.seen < silence_limit;
  if (out.alive && !alive) out.waiting.clear();
  out.alive = alive;
  sites_[i].protocol->observe({j}, alive, out.incarnation, now());
  examine(i);
}

// As Gateway::dispatch.
void World::dispatch(std::uint32_t i) {
  for (auto& [to, letter] : sites_[i].protocol->take_sends()) {
    if (letter.kind == LetterKind::snapshot && letter.version == 0 && !sites_[i].protocol->has_history())
      throw Broken(std::format("site{} donates without history", i));
    if (faulty_ && dice_.chance(plan_.loss)) continue;
    const int copies = faulty_ && dice_.chance(plan_.duplication) ? 2 : 1;
    auto& waiting = line(i, to.value).waiting;
    const auto same = [&](const Letter& old) { return old.kind == letter.kind && old.fragment == letter.fragment; };
    if (letter.kind != LetterKind::commit)
      std::erase_if(waiting, same);
    else if (std::ranges::count_if(waiting, same) >= 2)
      std::erase_if(waiting, same);
    for (int copy = 0; copy < copies; ++copy) waiting.push_back(letter);
    if (waiting.size() > most_waiting) waiting.pop_front();
    post(i, to.value);
  }
}

void World::post(std::uint32_t from, std::uint32_t to) {
  auto& out = line(from, to);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    auto next = out.waiting.begin();
    while (out.posted[lane].size() < slots[lane]) {
      next = std::find_if(next, out.waiting.end(), [&](const auto& letter) { return lane_of(letter.kind) == lane; });
      if (next == out.waiting.end()) break;
      const auto& p = pair(from, to);
      const double carry = p.latency * dice_.real(0.5, 2) + (lane == 1 ? p.bulk_time * dice_.real(0.5, 1.5) : 0);
      const double start = lane == 1 ? std::max(now_, out.last_arrival[lane]) : now_;
      const double arrival = std::max(start + carry, out.last_arrival[lane]);
      out.last_arrival[lane] = arrival;
      out.posted[lane].push_back({std::move(*next), arrival});
      next = out.waiting.erase(next);
      at(arrival, Kind::arrival, from, to, lane);
    }
  }
}

// A letter that comes while the link is down stays in the outbox until a new session.
void World::arrival(std::uint32_t from, std::uint32_t to, std::size_t lane) {
  auto& posted = line(from, to).posted[lane];
  if (posted.empty() || posted.front().arrival > now_ || !linked(from, to)) return;
  const auto letter = std::move(posted.front().letter);
  posted.pop_front();
  ++counts_.letters;
  observe(to, from);
  say([&] {
    return std::format("site{} <- site{} {} fragment {} version {} serial {} of {}", to, from,
                       store::name_of(letter.kind), letter.fragment.value, letter.version, letter.serial,
                       letter.incarnation);
  });
  sites_[to].protocol->receive(letter, now());
  examine(to);
}

void World::new_session(std::uint32_t a, std::uint32_t b) {
  auto& p = pair(a, b);
  p.session_at = now_ + dice_.real(0.05, 2);
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      auto& out = line(from, to);
      double arrival = p.session_at;
      for (auto& flight : out.posted[lane]) {
        arrival += p.latency + (lane == 1 ? p.bulk_time : 0);
        flight.arrival = arrival;
        at(arrival, Kind::arrival, from, to, lane);
      }
      out.last_arrival[lane] = arrival;
    }
  }
}

}  // namespace Atoll::federation::sim
