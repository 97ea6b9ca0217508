// The steward's judgement: who merges, which offers count and how much, how long to wait for more.
#include <algorithm>
#include <cmath>
#include <ranges>

#include "atoll/federation/protocol.hpp"
#include "atoll/outer/schedule.hpp"

namespace Atoll::federation {

using store::Letter;

bool Protocol::may_be_steward(SiteId site) const {
  if (site == config_.self) return begun_ && !joining() && heard_since_join();
  const auto& peer = peers_[site.value];
  return peer.alive && peer.left != peer.incarnation && peer.status && peer.status->ready;
}

// While a site took over a model others did its duty. Before it merges again it must know what they have committed.
bool Protocol::heard_since_join() const {
  return std::ranges::all_of(live_peers(), [&](SiteId site) { return peers_[site.value].heard_since_join; });
}

SiteId Protocol::steward(FragmentId f) const {
  const auto sites = static_cast<std::uint32_t>(peers_.size());
  const auto first = config_.stewardship == Stewardship::spread ? f.value % sites : 0;
  for (std::uint32_t i = 0; i < sites; ++i)
    if (const SiteId site{(first + i) % sites}; may_be_steward(site)) return site;
  return config_.self;
}

// A live site that is worth waiting for. One that is a few commits behind has a slow link: without waiting it would
// fall behind for ever. One that is far behind is taking over the model, which may be long.
bool Protocol::expected(SiteId site, FragmentId f) const {
  const auto& peer = peers_[site.value];
  if (peer.status && peer.status->finished) return false;
  return peer.at.empty() || peer.at[f.value] + config_.far_behind > state(f).version;
}

// Why an offer cannot be merged into our anchor, or nothing. One of a later version than ours waits until we are there.
std::string Protocol::obstacle(const Letter& in) const {
  const auto f = in.fragment;
  const auto& s = state(f);
  if (in.serial <= s.newest_serial(in.site)) return "duplicate";
  if (closed(f) || in.version + config_.staleness < s.version) return "stale";
  if (in.tokens == 0) return "no_tokens";
  if (in.version > s.version) return "";
  if (in.parent != s.digest_at(in.version)) return "other_branch";
  if (in.follows != s.newest_serial(in.site)) return "overtaken";  // the anchor holds some of it already
  return "";
}

Protocol::Offers Protocol::usable_offers(FragmentId f) const {
  Offers usable;
  const auto& s = state(f);
  for (const auto& [site, offer] : rounds_[f.value].offers)
    if (offer.version <= s.version && obstacle(offer).empty()) usable.push_back(&offer);
  return usable;
}

bool Protocol::waits(FragmentId f, const Offers& offers, Seconds now) const {
  const auto missing = [&](SiteId site) {
    return std::ranges::none_of(offers, [&](const Letter* offer) { return offer->site == site; });
  };
  const auto live = live_peers();
  const bool more = missing(config_.self) ||
                    std::ranges::any_of(live, [&](SiteId site) { return expected(site, f) && missing(site); });
  if (more && now - *rounds_[f.value].quorum_at < grace()) return true;
  // Somebody was further than we are when a steward before us vanished: take its commit, do not make another one.
  return std::ranges::any_of(live, [&](SiteId site) {
    const auto& status = peers_[site.value].status;
    return status && status->fragments[f.value].version > state(f).version;
  });
}

// The site with the shortest steps has the least slack, the one with the slowest link the longest way.
Seconds Protocol::grace() const {
  std::optional<Seconds> transfer;
  for (const auto site : live_peers())
    if (const auto mean = peers_[site.value].transfer.mean()) transfer = std::max(transfer.value_or(*mean), *mean);
  return grace_window(config_.grace, fastest_step(), quorum_wait_.mean(), transfer);
}

// Shares by the weight rule. A late offer is damped: its share shrinks and nobody else's grows.
std::vector<float> Protocol::shares_of(FragmentId f, const Offers& offers) const {
  std::vector<double> weights;
  for (const auto* offer : offers) weights.push_back(outer::offer_weight(config_.weights, offer->tokens, offer->steps));
  auto shares = outer::normalised(weights);
  for (std::size_t i = 0; i < offers.size(); ++i)
    for (auto late = offers[i]->version; late < state(f).version; ++late) shares[i] *= config_.staleness_decay;
  return shares;
}

// The gates that need every value, for which the merge has looked at each once: offers that fail go, and the others get
// their turn. Of offers that are finite by themselves, but not together, the largest goes.
bool Protocol::set_aside(FragmentId f, const Offers& offers, const NextAnchor& made) {
  auto& round = rounds_[f.value];
  std::vector<std::pair<SiteId, std::string>> out;
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (!std::isfinite(made.norms[i]))
      out.emplace_back(offers[i]->site, "not_finite");
    else if (!round.norms.allows(made.norms[i], offers[i]->inner_step, config_.norm_factor))
      out.emplace_back(offers[i]->site, "norm");
  if (out.empty() && !made.finite)
    out.emplace_back(offers[static_cast<std::size_t>(std::ranges::max_element(made.norms) - made.norms.begin())]->site,
                     "merge_not_finite");
  for (const auto& [site, reason] : out) {
    const auto offer = round.offers.extract(site);
    refuse(offer.mapped(), reason);
    refuse_work(offer.mapped());
  }
  return !out.empty();
}

std::span<const outer::Segment> Protocol::segments(FragmentId f) const {
  if (f.value < config_.segments.size()) return config_.segments[f.value];
  return {};
}

std::optional<Seconds> Protocol::fastest_step() const {
  auto fastest = clock_.step();
  for (const auto site : live_peers()) {
    const auto& status = peers_[site.value].status;
    if (!status || status->step_micros == 0) continue;
    const Seconds step{static_cast<double>(status->step_micros) * 1e-6};
    fastest = std::min(fastest.value_or(step), step);
  }
  return fastest;
}

std::uint64_t Protocol::local_steps(std::uint64_t steps) const {
  const auto own = clock_.step(), fastest = fastest_step();
  if (!own || !fastest) return steps;
  return outer::dynamic_steps(1 / own->count(), 1 / fastest->count(), steps);
}

}  // namespace Atoll::federation
