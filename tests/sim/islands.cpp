// The training side of a site as in src/app, and what the ledger sees of it.
#include <algorithm>
#include <cmath>
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
  std::vector<float> by;
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    auto& parameters = island.parameters[f];
    by.resize(parameters.size());
    for (auto& value : by) value = static_cast<float>(site.noise.real(-0.1, 0.1));
    for (std::size_t k = 0; k < by.size(); ++k) parameters[k] += by[k];
    island.work[f].step(inner_steps_, by);
  }
  made_.add(inner_steps_);
  ++inner_steps_;
  site.protocol->stepped(tokens_per_step, now(i));
}

void World::offer(std::uint32_t i, FragmentId f) {
  auto& site = sites_[i];
  check_parameters(i, f, site.protocol->fragments()[f.value].anchor);
  site.offering = f;
  site.protocol->offer(f, std::make_shared<const std::vector<float>>(site.island.parameters[f.value]), now(i));
  examine(i);
  site.offering.reset();
}

// Parameters are an anchor, and the site's own work that it does not hold.
void World::check_parameters(std::uint32_t i, FragmentId f, const store::Values& anchor) const {
  const auto& island = sites_[i].island;
  const auto rest = island.work[f.value].rest();
  auto all = rest.steps;
  all += ledger_.contents(f, anchor);
  if (!rest.steps.once() || !all.once())
    throw Broken(std::format("site{} fragment {}: parameters do not hold each step once:{}{}", i, f.value, all.text(),
                             rest.steps.text()));
  for (std::size_t k = 0; k < rest.moved.size(); ++k)
    if (std::abs(island.parameters[f.value][k] - (*anchor)[k] - rest.moved[k]) > 1e-3)
      throw Broken(
          std::format("site{} fragment {}: parameters are not the anchor and the site's own work: {} is not "
                      "{} and {}",
                      i, f.value, island.parameters[f.value][k], (*anchor)[k], rest.moved[k]));
}

void World::adopt(std::uint32_t i) {
  for (const auto& pending : std::exchange(sites_[i].adoptions, {})) adopt(i, pending);
}

void World::adopt(std::uint32_t i, const PendingAdoption& pending) {
  auto& site = sites_[i];
  const auto& adoption = pending.adoption;
  const auto f = adoption.fragment;
  auto& parameters = site.island.parameters[f.value];
  auto& work = site.island.work[f.value];
  if (adoption.is_start) return outer::rebase(parameters, *adoption.anchor, *adoption.base);
  if (adoption.base && plan_.protocol.keeps_progress) {
    work.follow(adoption.holds, adoption.begins);
    outer::rebase(parameters, *adoption.anchor, *adoption.base);
  } else {
    work.restart(adoption.holds);
    parameters = *adoption.anchor;
  }
  if (plan_.protocol.after_offer == AfterOffer::own) check_parameters(i, f, adoption.anchor);

  const auto lost = work.newly_lost(ledger_.contents(f, adoption.anchor), pending.on_its_way, site.first_step);
  if (lost > 0) say([&] { return std::format("site{} fragment {} LOSES {} steps", i, f.value, lost); });
  auto& noted = site.noted_lost[f.value];
  if (lost * tokens_per_step > noted)
    throw Broken(std::format("site{} fragment {}: {} tokens are lost, and {} are said to be", i, f.value,
                             lost * tokens_per_step, noted));
  noted -= lost * tokens_per_step;
  if (pending.had_history && plan_.protocol.keeps_progress) counts_.steps_dropped += lost;
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
  if (changes.back && !changes.switched) throw Broken(std::format("site{} goes back on its own branch", i));
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
    if (note.event == "tokens_lost")
      for (auto* account : {&site.noted_lost, &tokens_lost_})
        (*account)[field<std::uint64_t>(note, "fragment")] += field<std::uint64_t>(note, "tokens");
    if (note.event == "offer" && site.offering) note_offer(i, note);
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

void World::note_offer(std::uint32_t i, const Note& note) {
  const auto serial = field<std::uint64_t>(note, "serial");
  if (ledger_.knows_offer(i, serial)) return;
  auto& work = sites_[i].island.work[sites_[i].offering->value];
  ledger_.offered(i, serial, field<std::uint64_t>(note, "tokens"), tokens_per_step, work.rest().steps);
  work.mark(serial);
}

void World::take_adoptions(std::uint32_t i, std::vector<Adoption> adoptions) {
  auto& site = sites_[i];
  for (auto& adoption : adoptions) {
    const auto& offer = site.protocol->fragments()[adoption.fragment.value].outstanding;
    PendingAdoption pending{std::move(adoption), offer ? ledger_.offer(i, offer->serial) : Contents(), false};
    pending.had_history = std::ranges::any_of(site.held, [](const auto& held) { return held.first > 0; });
    site.adoptions.push_back(std::move(pending));
  }
}

}  // namespace Atoll::federation::sim
