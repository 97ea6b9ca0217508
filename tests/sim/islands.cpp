// The training side of a site as in src/app, and what the ledger sees of it.
#include <algorithm>
#include <format>

#include "atoll/outer/mixing.hpp"
#include "world.hpp"

namespace Atoll::federation::sim {
namespace {

constexpr std::size_t kept_checkpoints = 3;

template <class T>
const T& field(const Note& note, std::string_view name) {
  return std::get<T>(std::ranges::find(note.fields, name, &LogField::name)->value);
}

std::string text_of(const Note& note) {
  auto text = note.event;
  for (const auto& [name, value] : note.fields) {
    if (name == "event") continue;
    text += ' ' + std::string(name) + '=';
    std::visit(
        [&](const auto& v) {
          if constexpr (requires { v.begin()->size(); } ||
                        std::is_same_v<std::decay_t<decltype(v)>, std::vector<std::string>>)
            for (const auto& part : v) text += part + ',';
          else if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>)
            text += std::format("{}", v);
          else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
            text += v;
          else
            for (const auto part : v) text += std::format("{},", part);
        },
        value);
  }
  return text;
}

}  // namespace

// As OuterLoop::between_steps, then one inner step.
void World::step(std::uint32_t i) {
  auto& site = sites_[i];
  const double stands = std::max(site.training_until, site.frozen_until);
  if (now_ < stands) return at(stands, Kind::step, i, 0, site.start);
  const double pace = plan_.sites[i].step_time * (now_ < site.slow_until ? site.slow_factor : 1);
  at(now_ + pace * site.dice.real(0.8, 1.2), Kind::step, i, 0, site.start);
  if (!site.begun || site.leaving || site.finished || !training_) return;
  auto& island = site.island;
  adopt(i);
  for (std::uint32_t f = 0; f < plan_.fragments; ++f)
    if (plan_.schedule.offers({f}, island.steps) && site.protocol->may_offer({f})) offer(i, {f});
  adopt(i);

  ++island.steps;
  ++counts_.steps;
  for (auto& values : island.parameters)
    for (auto& value : values) value += static_cast<float>(site.noise.real(-0.1, 0.1));
  for (auto& contents : island.contents) contents.add(inner_steps_);
  made_.add(inner_steps_);
  ++inner_steps_;
  site.protocol->stepped(tokens_per_step);
}

void World::offer(std::uint32_t i, FragmentId f) {
  auto& site = sites_[i];
  auto& island = site.island;
  const auto& values = island.parameters[f.value];
  auto& offered = island.offered[f.value];
  offered = {std::make_shared<const std::vector<float>>(values), island.contents[f.value]};
  auto gradient = offered.contents;
  gradient -= ledger_.contents(f, site.protocol->fragments()[f.value].anchor);
  site.offering.emplace(f, std::move(gradient));
  site.protocol->offer(f, offered.parameters, now(i));
  examine(i);
  site.offering.reset();
}

void World::adopt(std::uint32_t i) {
  auto& site = sites_[i];
  auto& island = site.island;
  for (auto& [adoption, anchor, base, had_history] : site.adoptions) {
    const auto f = adoption.fragment.value;
    auto& contents = island.contents[f];
    if (adoption.base) {
      outer::rebase(island.parameters[f], *adoption.anchor, *adoption.base);
      contents -= base;
      contents += anchor;
    } else {
      const auto dropped = had_history ? contents.beyond(anchor, site.first_step) : 0;
      if (dropped > 0) say([&] { return std::format("site{} fragment {} DROPS {} steps", i, f, dropped); });
      counts_.steps_dropped += dropped;
      island.parameters[f] = *adoption.anchor;
      contents = anchor;
    }
    if (!contents.once())
      throw Broken(std::format("site{} fragment {} version {}: parameters do not hold each step once:{}", i, f,
                               adoption.version, contents.text()));
  }
  site.adoptions.clear();
}

void World::checkpoint(std::uint32_t i) {
  auto& site = sites_[i];
  const double stands = std::max(site.training_until, site.frozen_until);
  if (now_ < stands) return at(stands, Kind::checkpoint, i, 0, site.start);
  at(now_ + plan_.checkpoint_every * site.dice.real(0.5, 1.5), Kind::checkpoint, i, 0, site.start);
  if (site.leaving) return;
  adopt(i);
  site.checkpoints.push_back(site.island);
  site.checkpoints.back().fragments = site.protocol->fragments();
  if (site.checkpoints.size() > kept_checkpoints) site.checkpoints.pop_front();
}

// After every call of a protocol: what it did is entered into the ledger and compared with it.
void World::examine(std::uint32_t i) {
  auto& site = sites_[i];
  auto adoptions = site.protocol->take_adoptions();
  const auto notes = site.protocol->take_notes();
  const auto unchanged = [](const FragmentState& s, const auto& held) {
    return s.version == held.first && s.digest == held.second;
  };
  if (adoptions.empty() && notes.empty() && std::ranges::equal(site.protocol->fragments(), site.held, unchanged))
    return dispatch(i);
  const auto held = site.held;
  examine_notes(i, notes, adoptions);
  take_adoptions(i, std::move(adoptions));
  const auto changes = compare(i, held);
  if (changes.back && !changes.switched && plan_.never_back)
    throw Broken(std::format("site{} goes back on its own branch", i));
  counts_.back += changes.back && !changes.switched;
  if (changes.back || changes.switched) weigh(i, held);
  dispatch(i);
}

// Everything that a site holds was committed by somebody, with these bits.
World::Changes World::compare(std::uint32_t i, const std::vector<std::pair<Version, Digest>>& held) {
  Changes changes;
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    const auto& s = sites_[i].protocol->fragments()[f];
    const auto& [version, digest] = held[f];
    if (s.version == version && s.digest == digest) continue;
    changed_ = true;
    say([&] { return std::format("site{} fragment {} is at {}:{}", i, f, s.version, s.digest.hex().substr(0, 6)); });
    std::ignore = ledger_.entry({f}, s);
    if (!ledger_.descends({f}, s.digest, digest, version))
      (ledger_.descends({f}, digest, s.digest, s.version) ? changes.back : changes.switched) = true;
    sites_[i].held[f] = {s.version, s.digest};
  }
  return changes;
}

// A site leaves its branch only for a heavier one.
void World::weigh(std::uint32_t i, const std::vector<std::pair<Version, Digest>>& held) {
  ++counts_.joins;
  std::uint64_t before = 0, after = 0;
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    before += ledger_.tokens({f}, held[f].second);
    after += sites_[i].protocol->fragments()[f].tokens_merged;
  }
  if (after < before)
    throw Broken(std::format("site{} goes to a lighter branch: {} tokens, {} before", i, after, before));
}

void World::examine_notes(std::uint32_t i, const std::vector<Note>& notes, const std::vector<Adoption>& adoptions) {
  auto& site = sites_[i];
  for (const auto& note : notes) {
    say([&] { return "site" + std::to_string(i) + "   " + text_of(note); });
    if (note.event == "offer" && site.offering) {
      const auto serial = field<std::uint64_t>(note, "serial");
      if (!ledger_.knows_offer(i, serial))
        ledger_.offered(i, serial, field<std::uint64_t>(note, "tokens"), tokens_per_step, site.offering->second);
    }
    if (note.event == "tokens_lost")
      tokens_lost_[field<std::uint64_t>(note, "fragment")] += field<std::uint64_t>(note, "tokens");
    if (note.event != "commit" || field<std::string>(note, "steward") != plan_.protocol.sites[i]) continue;
    ++counts_.commits;
    const FragmentId f{static_cast<std::uint32_t>(field<std::uint64_t>(note, "fragment"))};
    const auto version = field<std::uint64_t>(note, "version");
    Ledger::Offers offers;
    const auto& serials = field<std::vector<std::uint64_t>>(note, "serials");
    for (std::size_t k = 0; k < serials.size(); ++k)
      offers.emplace_back(std::stoul(field<std::vector<std::string>>(note, "offers")[k].substr(4)), serials[k]);
    const auto adoption =
        std::ranges::find_if(adoptions, [&](const Adoption& a) { return a.fragment == f && a.version == version; });
    const auto digest = Digest::from_hex(field<std::string>(note, "anchor"));
    ledger_.committed(f, version, site.held[f.value].second, digest, adoption->anchor,
                      field<std::uint64_t>(note, "tokens"), offers);
    site.held[f.value] = {version, digest};
  }
}

void World::take_adoptions(std::uint32_t i, std::vector<Adoption> adoptions) {
  auto& site = sites_[i];
  for (auto& adoption : adoptions) {
    const auto f = adoption.fragment;
    PendingAdoption pending{std::move(adoption), {}, {}, false};
    pending.had_history = std::ranges::any_of(site.held, [](const auto& held) { return held.first > 0; });
    pending.anchor = ledger_.contents(f, pending.adoption.anchor);
    const auto& offered = site.island.offered[f.value];
    if (pending.adoption.base)
      pending.base =
          pending.adoption.base == offered.parameters ? offered.contents : ledger_.contents(f, pending.adoption.base);
    site.adoptions.push_back(std::move(pending));
  }
}

}  // namespace Atoll::federation::sim
