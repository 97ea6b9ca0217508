// The letters that the protocol writes.
#include <algorithm>

#include "atoll/federation/protocol.hpp"

namespace Atoll::federation {

using store::Letter;
using store::LetterKind;

Letter Protocol::letter(LetterKind kind) const {
  Letter out;
  out.kind = kind;
  out.federation = config_.federation;
  out.configuration = config_.configuration;
  out.site = config_.self;
  out.incarnation = config_.incarnation;
  return out;
}

// The new state's own numbers are derived here as every site derives them from the letter.
Letter Protocol::commit_letter(FragmentId f, const Offers& offers, std::span<const float> shares,
                               const NextAnchor& made) const {
  const auto& s = state(f);
  auto out = letter(LetterKind::commit);
  out.fragment = f;
  out.version = s.version + 1;
  out.parent = s.digest;
  out.anchor = made.digest;
  out.tokens = s.tokens_merged;
  out.values = made.merged;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    out.offers.push_back({offers[i]->site, offers[i]->serial, offers[i]->steps, offers[i]->tokens, shares[i]});
    out.tokens += offers[i]->tokens;
  }
  return out;
}

void Protocol::send_offer(FragmentId f, Seconds now) {
  auto& s = state(f);
  auto& offer = *s.outstanding;
  auto out = letter(LetterKind::offer);
  out.fragment = f;
  out.version = offer.base;
  out.parent = s.digest_at(offer.base).value_or(Digest{});
  out.serial = offer.serial;
  out.follows = s.newest_serial(config_.self);
  out.steps = offer.steps;
  out.tokens = offer.tokens;
  out.inner_step = std::max(offer.work_steps, offer.steps);
  out.values = offer.gradient;
  offer.sent_to = steward(f);
  offer.sent_to_incarnation = peers_[offer.sent_to.value].incarnation;
  offer.sent_at = now;
  note_offer(f);
  if (offer.sent_to != config_.self) return send(offer.sent_to, std::move(out));
  receive_offer(out);
  merge_if_ready(f, now);
}

void Protocol::send_status(SiteId to) {
  auto out = letter(LetterKind::status);
  const auto& at = peers_[to.value].at;
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    auto& status = out.fragments.emplace_back(fragments_[f].status());
    const auto there = at.empty() ? std::nullopt : fragments_[f].digest_at(at[f]);
    if (!there) continue;
    status.receiver_version = at[f];
    status.receiver_anchor = *there;
  }
  out.inner_step = inner_steps_;
  if (clock_.step()) out.step_micros = static_cast<std::uint64_t>(clock_.step()->count() * 1e6);
  out.finished = finished();
  out.ready = may_be_steward(config_.self);
  out.joining = joining();
  send(to, std::move(out));
}

// What is unfit to be merged is unfit to go on from.
void Protocol::refuse_work(const Letter& offer) {
  if (offer.site == config_.self) return discard(offer.fragment, "refused");
  auto out = letter(LetterKind::refusal);
  out.fragment = offer.fragment;
  out.version = offer.version;
  out.serial = offer.serial;
  send(offer.site, std::move(out));
}

void Protocol::leave() {
  for (const auto site : live_peers()) send(site, letter(LetterKind::leave));
}

}  // namespace Atoll::federation
