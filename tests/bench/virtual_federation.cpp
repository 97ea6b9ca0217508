#include "virtual_federation.hpp"

#include <algorithm>
#include <utility>

namespace Atoll::bench {

using federation::Protocol;
using store::Letter;

namespace {

constexpr double tick_seconds = 0.1;
constexpr double settling_seconds = 60;  // after the last step; longer than any letter is under way

}  // namespace

VirtualFederation::VirtualFederation(const Cell& cell, const app::FederationFile& federation,
                                     const data::TokenFile& tokens)
    : cell_(cell), federation_(federation), random_(federation.seed) {
  for (std::uint32_t i = 0; i < cell.sites; ++i) {
    app::InnerLoop inner(federation, tokens, {i}, {}, [](std::span<float>) {});
    auto config = app::protocol_config(federation, inner.plan());
    config.self = {i};
    config.incarnation = 1;
    Protocol protocol(config, app::initial_fragments(inner));
    federation::AdoptionQueue adoptions(federation.fragments, federation.schedule.overlap);
    sites_.push_back(std::make_unique<Site>(std::move(inner), std::move(protocol), std::move(adoptions)));
  }
  for (std::uint32_t a = 0; a < cell.sites; ++a)
    for (std::uint32_t b = 0; b < cell.sites; ++b)
      if (a != b) sites_[a]->protocol.observe({b}, true, 1, now());
  for (auto& site : sites_) site->protocol.begin(now());
  for (std::uint32_t i = 0; i < cell.sites; ++i) settle(i);
}

void VirtualFederation::at(double time, Event::Kind kind, std::uint32_t site, std::shared_ptr<const Letter> letter) {
  events_.push({time, events_made_++, kind, site, std::move(letter)});
}

Outcome VirtualFederation::train(std::uint64_t total, std::uint64_t validation_batches) {
  total_ = total;
  at(tick_seconds, Event::Kind::tick, 0);
  for (std::uint32_t i = 0; i < cell_.sites; ++i) go_on(i);
  while (outcome_.tokens < total_) run_next();
  outcome_.virtual_seconds = now_;
  pass(settling_seconds);
  offer_rest();
  pass(settling_seconds);

  auto& inner = sites_.front()->inner;
  const auto& protocol = sites_.front()->protocol;
  outcome_.tokens_merged = protocol.tokens_merged() / inner.plan().count();
  outcome_.validation_loss = inner.trainer().loss(inner.validation(validation_batches), anchors());
  for (const auto& site : sites_) tell(site->protocol);
  return outcome_;
}

void VirtualFederation::tell(const Protocol& protocol) {
  for (const auto& [reason, count] : protocol.refused()) outcome_.refused[reason] += count;
  for (const auto& [reason, tokens] : protocol.tokens_lost())
    outcome_.tokens_lost += tokens / protocol.fragments().size();
}

void VirtualFederation::pass(double seconds) {
  for (const auto end = now_ + seconds; now_ < end;) run_next();
}

// The end of training: what is in no offer yet goes into a last one.
void VirtualFederation::offer_rest() {
  for (std::uint32_t i = 0; i < cell_.sites; ++i) {
    auto& site = *sites_[i];
    collect(site);
    for (std::uint32_t f = 0; f < federation_.fragments; ++f) {
      take_up(site, site.adoptions.all({f}));
      if (site.protocol.may_offer({f})) offer(site, {f});
    }
    settle(i);
  }
}

void VirtualFederation::offer(Site& site, FragmentId f) {
  const auto serial = site.protocol.offer(f, site.inner.fragment(f), now());
  if (serial == 0) return;
  site.adoptions.offered(f, site.inner.steps(), serial);
  ++outcome_.offers;
}

void VirtualFederation::run_next() {
  const auto event = events_.top();
  events_.pop();
  now_ = event.time;
  run(event);
}

void VirtualFederation::run(const Event& event) {
  switch (event.kind) {
    case Event::Kind::step:
      return step(event.site);
    case Event::Kind::letter:
      sites_[event.site]->protocol.receive(*event.letter, now());
      return settle(event.site);
    case Event::Kind::tick:
      at(now_ + tick_seconds, Event::Kind::tick, 0);
      for (std::uint32_t i = 0; i < cell_.sites; ++i) {
        sites_[i]->protocol.tick(now());
        settle(i);
      }
  }
}

// The next inner step ends after the site's step time.
void VirtualFederation::go_on(std::uint32_t i) {
  if (outcome_.tokens >= total_) return;
  const auto seconds = cell_.step_seconds[std::min<std::size_t>(i, cell_.step_seconds.size() - 1)];
  at(now_ + seconds * (1 + cell_.jitter * (2 * uniform() - 1)), Event::Kind::step, i);
}

void VirtualFederation::step(std::uint32_t i) {
  auto& site = *sites_[i];
  if (outcome_.tokens >= total_) return;
  site.inner.step(federation_.learning_rate.at(site.progress_tokens));
  site.protocol.stepped(site.inner.tokens_per_step(), now());
  outcome_.tokens += site.inner.tokens_per_step();
  exchange(i);
  site.waiting = cell_.pace == Pace::waits && has_open_round(site);
  if (!site.waiting) go_on(i);
  settle(i);
}

// As app::OuterLoop::exchange.
void VirtualFederation::exchange(std::uint32_t i) {
  auto& site = *sites_[i];
  collect(site);
  for (std::uint32_t f = 0; f < federation_.fragments; ++f)
    if (is_due(site, {f})) {
      take_up(site, site.adoptions.all({f}));  // an offer is relative to the newest anchor
      if (site.protocol.may_offer({f}) && uniform() >= cell_.dropped) offer(site, {f});
    }
  collect(site);  // a steward that needs nobody else commits at once
  site.progress_tokens = site.protocol.progress_tokens();
}

bool VirtualFederation::is_due(const Site& site, FragmentId f) const {
  if (federation_.steps == app::StepRule::fixed) return federation_.schedule.offers(f, site.inner.steps());
  return site.protocol.fragments()[f.value].steps_since >= site.protocol.local_steps(federation_.schedule.inner_steps);
}

void VirtualFederation::collect(Site& site) {
  for (auto& adoption : site.protocol.take_adoptions()) site.adoptions.add(std::move(adoption));
  take_up(site, site.adoptions.due(site.inner.steps()));
}

void VirtualFederation::take_up(Site& site, const std::vector<federation::Adoption>& adoptions) {
  for (const auto& adoption : adoptions) site.inner.adopt(adoption);
}

// As app::OuterLoop::wait_for_commits.
bool VirtualFederation::has_open_round(const Site& site) const {
  for (std::uint32_t f = 0; f < federation_.fragments; ++f)
    if (federation_.schedule.ends_round({f}, site.inner.steps()) && site.protocol.fragments()[f].outstanding)
      return true;
  return false;
}

// After every call of a protocol: its letters leave, and a site whose commit came goes on.
void VirtualFederation::settle(std::uint32_t i) {
  auto& site = *sites_[i];
  for (auto& send : site.protocol.take_sends()) {
    const auto seconds = send.letter.kind == store::LetterKind::offer ? cell_.offer_seconds : cell_.other_seconds;
    at(now_ + seconds, Event::Kind::letter, send.to.value, std::make_shared<const Letter>(std::move(send.letter)));
  }
  for (const auto& note : site.protocol.take_notes())
    if (i == 0 && note.event == "commit") ++outcome_.commits;
  if (!site.waiting || has_open_round(site)) return;
  site.waiting = false;
  collect(site);
  site.progress_tokens = site.protocol.progress_tokens();
  go_on(i);
}

std::vector<float> VirtualFederation::anchors() {
  auto& site = *sites_.front();
  std::vector<float> flat(site.inner.trainer().parameter_count());
  for (std::uint32_t f = 0; f < federation_.fragments; ++f)
    site.inner.plan().scatter(*site.protocol.fragments()[f].anchor, {f}, flat);
  return flat;
}

Outcome train_data_parallel(const app::FederationFile& federation, const data::TokenFile& tokens, std::uint64_t total,
                            std::uint64_t validation_batches) {
  app::InnerLoop inner(federation, tokens, {0}, {}, [](std::span<float>) {});
  Outcome outcome;
  for (; outcome.tokens < total; outcome.tokens += inner.tokens_per_step()) {
    inner.step(federation.learning_rate.at(static_cast<double>(outcome.tokens)));
    ++outcome.virtual_seconds;
  }
  outcome.tokens_merged = outcome.tokens;
  outcome.validation_loss = inner.trainer().loss(inner.validation(validation_batches));
  return outcome;
}

}  // namespace Atoll::bench
