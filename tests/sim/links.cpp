// Gateways as in src/federation/gateway.cpp, mailboxes as in MAILBOX.md, and links between them.
#include <algorithm>
#include <format>

#include "wire.hpp"
#include "world.hpp"

namespace Atoll::federation::sim {
namespace {

using store::Letter;
using store::LetterKind;

constexpr double silence_limit = 4;
constexpr double repair_after = 5;  // [s] that a letter stays torn before a gateway asks for a new session
constexpr std::array<std::size_t, lanes> slots{32, 4};

std::size_t lane_of(LetterKind kind) {
  return kind == LetterKind::status || kind == LetterKind::snapshot_request || kind == LetterKind::refusal ? 0 : 1;
}

}  // namespace

bool World::linked(std::uint32_t a, std::uint32_t b) {
  const auto& p = pair(a, b);
  return !p.cut && sites_[a].protocol && sites_[b].protocol && now_ >= p.session_at;
}

// One look at everything, as Gateway::round_trip.
void World::look(std::uint32_t i) {
  auto& site = sites_[i];
  if (gateway_stands(i)) return at(std::max(site.frozen_until, site.gateway_until), Kind::look, i, 0, site.start);
  for (std::uint32_t j = 0; j < plan_.site_count(); ++j) {
    if (j == i) continue;
    see(i, j);
    observe(i, j);
  }
  site.protocol->tick(now(i));
  examine(i);
  if (!site.begun && !site.leaving) begin_if_ready(i);
  if (site.begun && !site.leaving && site.protocol->finished()) end_if_served(i);
  for (std::uint32_t j = 0; j < plan_.site_count(); ++j)
    if (j != i) post(i, j);
  if (site.leaving && (all_delivered(i) || now_ > site.leave_until)) return crash(i);
  at(now_ + plan_.look_every * site.dice.real(0.5, 1.5), Kind::look, i, 0, site.start);
}

// As IslandGateway::gather.
void World::begin_if_ready(std::uint32_t i) {
  auto& site = sites_[i];
  const std::size_t needed = site.protocol->has_history() ? 2 : plan_.site_count();
  const bool ready = site.protocol->sites_alive() >= needed && site.protocol->settled();
  if (!ready && now(i).count() <= site.started + plan_.gather) return;
  say([&] { return std::format("site{} begins", i); });
  site.begun = true;
  site.protocol->begin(now(i));
  examine(i);
}

// As IslandGateway::linger.
void World::end_if_served(std::uint32_t i) {
  auto& site = sites_[i];
  if (!std::exchange(site.finished, true)) site.finished_at = now(i).count();
  if (site.protocol->all_finished() || now(i).count() > site.finished_at + plan_.linger) leave_for_good(i);
}

bool World::all_delivered(std::uint32_t i) {
  for (std::uint32_t j = 0; j < plan_.site_count(); ++j) {
    const auto& out = line(i, j);
    if (linked(i, j) && !(out.waiting.empty() && out.posted[0].empty() && out.posted[1].empty())) return false;
  }
  return true;
}

// As Mailbox::beat: a sign of life of the peer's island, whatever its gateway thread does.
void World::see(std::uint32_t i, std::uint32_t j) {
  if (!linked(i, j) || frozen(j)) return;
  auto& out = line(i, j);
  out.seen = now(i).count();
  out.incarnation = sites_[j].incarnation;
}

void World::observe(std::uint32_t i, std::uint32_t j) {
  auto& out = line(i, j);
  const bool alive = out.incarnation != 0 && now(i).count() - out.seen < silence_limit;
  if (out.alive && !alive) out.waiting.clear();
  out.alive = alive;
  sites_[i].protocol->observe({j}, alive, out.incarnation, now(i));
}

// As Gateway::dispatch.
void World::dispatch(std::uint32_t i) {
  for (auto& [to, letter] : sites_[i].protocol->take_sends()) {
    if (letter.kind == LetterKind::snapshot && letter.version == 0 && !sites_[i].protocol->has_history())
      throw Broken(std::format("site{} donates without history", i));
    auto& dice = line_dice(i, to.value);
    if (faulty_ && dice.chance(plan_.loss)) {
      ++counts_.lost;
      continue;
    }
    if (faulty_ && dice.chance(plan_.duplication)) {
      ++counts_.duplicated;
      go_astray(i, to.value, {letter, true}, dice.chance(0.5) ? dice.real(0, 1) : dice.real(1, 30));
    }
    if (faulty_ && dice.chance(plan_.reordering)) {
      ++counts_.reordered;
      go_astray(i, to.value, {std::move(letter), false}, dice.real(0.1, 6));
      continue;
    }
    line(i, to.value).waiting.add(std::move(letter));
    post(i, to.value);
  }
}

void World::post(std::uint32_t from, std::uint32_t to) {
  auto& out = line(from, to);
  if (out.waiting.empty() || gateway_stands(from)) return;
  auto& dice = line_dice(from, to);
  const auto& p = link(from, to);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const auto wanted = [&](const Letter& letter) { return lane_of(letter.kind) == lane; };
    const auto carry_off = [&](Letter& letter) {
      if (out.posted[lane].size() >= slots[lane]) return false;
      const double carry = p.latency * dice.real(0.5, 2) + (lane == 1 ? p.bulk_time * dice.real(0.5, 1.5) : 0);
      const double start = lane == 1 ? std::max(now_, out.last_arrival[lane]) : now_;
      const double arrival = std::max(start + carry, out.last_arrival[lane]);
      out.last_arrival[lane] = arrival;
      out.posted[lane].push_back({std::move(letter), arrival, faulty_ && dice.chance(plan_.flips)});
      at(arrival, Kind::arrival, from, to, lane);
      return true;
    };
    while (out.waiting.next(wanted, carry_off)) continue;
  }
}

// A letter that comes while the link is down stays in the outbox until a new session, and one that comes while the
// gateway stands still stays in the inbox until it moves again.
void World::arrival(std::uint32_t from, std::uint32_t to, std::size_t lane) {
  auto& posted = line(from, to).posted[lane];
  if (posted.empty() || posted.front().arrival > now_ || !linked(from, to) || gateway_stands(to)) return;
  if (std::exchange(posted.front().flipped, false) && damaged(from, to, posted.front().letter)) {
    // It does not become whole, so that the gateway asks for a new session, in which it is put once more.
    ++counts_.flipped;
    posted.front().arrival = now_ + repair_after + 1;
    return at(now_ + repair_after, Kind::repair, from, to);
  }
  const auto letter = std::move(posted.front().letter);
  posted.pop_front();
  deliver(from, to, letter);
}

void World::deliver(std::uint32_t from, std::uint32_t to, const Letter& letter) {
  ++counts_.letters;
  see(to, from);
  observe(to, from);
  say([&] {
    return std::format("site{} <- site{} {} fragment {} version {} serial {} of {}", to, from,
                       store::name_of(letter.kind), letter.fragment.value, letter.version, letter.serial,
                       letter.incarnation);
  });
  sites_[to].protocol->receive(letter, now(to));
  examine(to);
}

// Takes the road of a real letter, with bits flipped on the way. @throws Broken  another letter comes out
bool World::damaged(std::uint32_t from, std::uint32_t to, const Letter& letter) {
  Slot slot(letter, order_);
  const auto whole = slot.collect();
  if (!whole || !slot.holds(*whole)) throw Broken("a letter does not come out of its image as it was");
  slot.flip(line_dice(from, to));
  const auto taken = slot.collect();
  say([&] {
    return std::format("site{} <- site{} {} with flipped bits: {}", to, from, store::name_of(letter.kind),
                       taken ? "taken" : "refused");
  });
  if (taken && !Slot(letter, order_).holds(*taken)) throw Broken("a letter with flipped bits is taken");
  return !taken;
}

void World::go_astray(std::uint32_t from, std::uint32_t to, Stray stray, double delay) {
  strays_.push_back(std::move(stray));
  at(now_ + delay, Kind::stray, from, to, strays_.size() - 1);
}

void World::stray(std::uint32_t from, std::uint32_t to, std::size_t number) {
  if (linked(from, to) && !gateway_stands(to)) return deliver(from, to, strays_[number].letter);
  if (!strays_[number].copy && sites_[from].incarnation == strays_[number].letter.incarnation)
    at(now_ + 1, Kind::stray, from, to, number);
}

// All that is under way between them begins its way anew, once a session stands.
void World::new_session(std::uint32_t a, std::uint32_t b) {
  auto& p = pair(a, b);
  const auto& times = link(a, b);
  p.session_at = now_ + line_dice(a, b).real(0.05, 2);
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      auto& out = line(from, to);
      double arrival = p.session_at;
      for (auto& flight : out.posted[lane]) {
        arrival += times.latency + (lane == 1 ? times.bulk_time : 0);
        flight.arrival = arrival;
        at(arrival, Kind::arrival, from, to, lane);
      }
      out.last_arrival[lane] = arrival;
    }
  }
}

// The gateway moves again and finds what came meanwhile.
void World::wake(std::uint32_t i) {
  for (std::uint32_t from = 0; from < plan_.site_count(); ++from)
    for (std::size_t lane = 0; from != i && lane < lanes; ++lane)
      for (const auto& flight : line(from, i).posted[lane])
        at(std::max(now_, flight.arrival), Kind::arrival, from, i, lane);
}

}  // namespace Atoll::federation::sim
