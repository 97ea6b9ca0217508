// The steward's side of the protocol: gathers offers, waits for quorum and grace, merges, commits.
#include <algorithm>
#include <cmath>
#include <ranges>

#include "atoll/federation/protocol.hpp"

namespace Atoll::federation {

using store::Letter;
using store::LetterKind;

// A live site that is worth waiting for. One that is a few commits behind has a slow link: without waiting it would
// fall behind for ever. One that is far behind is taking over the model, which may be long.
bool Protocol::expected(SiteId site, FragmentId f) const {
  const auto& peer = peers_[site.value];
  if (peer.status && peer.status->finished) return false;
  return peer.at.empty() || peer.at[f.value] + config_.far_behind > state(f).version;
}

bool Protocol::may_be_steward(SiteId site) const {
  if (site == config_.self) return begun_ && !joining();
  const auto& peer = peers_[site.value];
  return peer.alive && peer.left != peer.incarnation && peer.status && peer.status->ready;
}

std::vector<const Letter*> Protocol::usable_offers(FragmentId f) const {
  std::vector<const Letter*> usable;
  const auto& s = state(f);
  for (const auto& [site, offer] : rounds_[f.value].offers)
    if (offer.version == s.version && offer.parent == s.digest) usable.push_back(&offer);
  return usable;
}

void Protocol::merge_if_ready(FragmentId f, Seconds now) {
  if (!begun_ || joining() || closed(f) || steward() != config_.self) return;
  auto& round = rounds_[f.value];
  const auto offers = usable_offers(f);
  if (offers.empty() || offers.size() < config_.quorum) return round.quorum_at.reset();
  if (!round.quorum_at) round.quorum_at = now;

  const auto live = live_peers();
  const auto missing = [&](SiteId site) {
    return expected(site, f) && std::ranges::none_of(offers, [&](const Letter* offer) { return offer->site == site; });
  };
  const bool own_missing =
      std::ranges::none_of(offers, [&](const Letter* offer) { return offer->site == config_.self; });
  const bool waiting = own_missing || std::ranges::any_of(live, missing);
  if (waiting && now - *round.quorum_at < config_.grace) return;

  // Somebody was further than we are when a steward before us vanished: take its commit, do not make another one.
  const auto ahead = [&](SiteId site) {
    const auto& status = peers_[site.value].status;
    return status && status->fragments[f.value].version > state(f).version;
  };
  if (std::ranges::any_of(live, ahead)) return;
  merge(f, offers, now);
}

void Protocol::merge(FragmentId f, const std::vector<const Letter*>& offers, Seconds now) {
  auto& s = state(f);
  std::vector<double> weights;
  std::vector<std::span<const float>> gradients;
  for (const auto* offer : offers) {
    weights.push_back(outer::offer_weight(config_.weights, offer->tokens, offer->steps));
    gradients.emplace_back(*offer->values);
  }
  const auto shares = outer::normalised(weights);

  auto commit = letter(LetterKind::commit);
  for (std::size_t i = 0; i < offers.size(); ++i)
    commit.offers.push_back({offers[i]->site, offers[i]->serial, offers[i]->steps, offers[i]->tokens, shares[i]});
  commit.values = std::make_shared<const std::vector<float>>(outer::weighted_mean(gradients, shares));

  auto next = s.advanced(*commit.values, commit.offers, config_.outer_learning_rate, config_.outer_momentum);
  if (!outer::all_finite(*commit.values) || !outer::all_finite(*next.anchor) || !outer::all_finite(*next.momentum))
    return set_aside_largest(f, offers);
  commit.fragment = f;
  commit.version = next.version;
  commit.parent = s.digest;
  commit.anchor = next.digest;
  commit.tokens = next.tokens_merged;
  note_commit(commit, now - *rounds_[f.value].quorum_at, offers);
  for (const auto site : live_peers()) send(site, commit);
  const auto base = base_after(s, next);
  replace(f, std::move(next), base);
}

// Offers that are finite by themselves, but not when merged: the largest one goes, and the others get their turn.
void Protocol::set_aside_largest(FragmentId f, const std::vector<const Letter*>& offers) {
  const auto largest = [](const Letter* offer) {
    return std::ranges::max(*offer->values | std::views::transform([](float value) { return std::abs(value); }));
  };
  const auto* worst = *std::ranges::max_element(offers, {}, largest);
  const auto site = worst->site;
  refuse(*worst, "merge_not_finite");
  rounds_[f.value].offers.erase(site);
  if (site == config_.self) discard_progress();
}

}  // namespace Atoll::federation
