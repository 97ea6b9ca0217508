// One round of one fragment, DESIGN section 3: offer -> merge -> commit -> adoption.
#include <algorithm>

#include "atoll/federation/protocol.hpp"
#include "atoll/outer/outer_optimizer.hpp"

namespace Atoll::federation {

using store::Letter;
using store::LetterKind;

// Every site, when the schedule says so: what it learned since the anchor that it really started from.
void Protocol::offer(FragmentId f, store::Values parameters, Seconds now) {
  if (!may_offer(f)) return;
  auto& s = state(f);
  auto gradient = outer::pseudo_gradient(*s.anchor, *parameters);
  if (!outer::all_finite(gradient)) return discard_progress();
  s.take_offer(config_.self, config_.incarnation + ++offers_made_, std::move(parameters), std::move(gradient));
  s.outstanding->tokens = std::min(s.outstanding->tokens, config_.total_tokens);
  if (config_.after_offer != AfterOffer::own) go_on_from_start(f);
  send_offer(f, now);
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
  out.values = offer.gradient;
  offer.sent_to = steward(f);
  offer.sent_to_incarnation = peers_[offer.sent_to.value].incarnation;
  offer.sent_at = now;
  note_offer(f);
  if (offer.sent_to != config_.self) return send(offer.sent_to, std::move(out));
  receive_offer(out);
  merge_if_ready(f, now);
}

// The steward: gather, gate, wait for quorum and grace.
void Protocol::receive_offer(const Letter& in) {
  auto& round = rounds_[in.fragment.value];
  if (const auto reason = obstacle(in); !reason.empty()) return refuse(in, reason);
  const auto earlier = round.offers.find(in.site);
  if (earlier == round.offers.end() || in.serial > earlier->second.serial) round.offers.insert_or_assign(in.site, in);
}

void Protocol::merge_if_ready(FragmentId f, Seconds now) {
  if (!begun_ || joining() || closed(f) || steward(f) != config_.self) return;
  auto& round = rounds_[f.value];
  const auto offers = usable_offers(f);
  if (!offers.empty() && !round.opened_at) round.opened_at = now;
  if (offers.empty() || offers.size() < config_.quorum) return round.quorum_at.reset();
  if (!round.quorum_at) round.quorum_at = now;
  if (!waits(f, offers, now)) merge(f, offers, now);
}

void Protocol::merge(FragmentId f, const Offers& offers, Seconds now) {
  auto& s = state(f);
  auto& round = rounds_[f.value];
  auto commit = letter(LetterKind::commit);
  const auto shares = shares_of(f, offers);
  std::vector<std::span<const float>> gradients;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    gradients.emplace_back(*offers[i]->values);
    commit.offers.push_back({offers[i]->site, offers[i]->serial, offers[i]->steps, offers[i]->tokens, shares[i]});
  }
  const auto made = outer_.merge(gradients, shares, segments(f), s.view());
  if (set_aside(f, offers, made)) return merge_if_ready(f, now);
  auto next = s.advanced(made, commit.offers);
  commit.values = made.merged;
  commit.fragment = f;
  commit.version = next.version;
  commit.parent = s.digest;
  commit.anchor = next.digest;
  commit.tokens = next.tokens_merged;
  for (const auto site : live_peers()) send(site, commit);
  quorum_wait_.add(*round.quorum_at - *round.opened_at);
  round.committed_at = now;
  round.norms.merged(made.merged_norm, commit.offers);
  note_commit(commit, now - *round.quorum_at, offers);
  advance(f, std::move(next), Line::same, Progress::keep);
}

// Every site: the same outer step, proven by the digest. A letter that fails leaves everything as it was.
void Protocol::receive_commit(const Letter& in, Seconds now) {
  const auto f = in.fragment;
  const bool staged = joining_ && joining_->staged[f.value];
  auto& current = staged ? *joining_->staged[f.value] : state(f);
  if (in.version <= current.version) {
    const auto known = current.digest_at(in.version);
    return refuse(in, known && *known != in.anchor ? "other_branch" : "duplicate");
  }
  const bool gap = in.version > current.version + 1;
  if (!gap && in.parent != current.digest) return refuse(in, "other_branch");
  const auto made = gap ? NextAnchor() : outer_.step(*in.values, current.view());
  FragmentState next;
  if (!gap) next = current.advanced(made, in.offers);
  if (gap || next.digest != in.anchor || next.tokens_merged != in.tokens) {
    if (!joining_) ask_snapshot(in.site, f, now);
    return refuse(in, gap ? "gap" : "digest");
  }
  if (staged) {
    current = std::move(next);
    return;
  }
  rounds_[f.value].norms.merged(made.merged_norm, in.offers);
  note_commit(in, Seconds{0}, {});
  advance(f, std::move(next), Line::same, Progress::keep);
  send_status(in.site);  // it learns how long its commits take
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

void Protocol::receive_refusal(const Letter& in) {
  const auto& outstanding = state(in.fragment).outstanding;
  if (outstanding && outstanding->serial == in.serial) discard(in.fragment, "refused");
}

// The anchor moves, and with it what this site has done and nobody has merged yet.
void Protocol::advance(FragmentId f, FragmentState next, Line line, Progress progress) {
  using Work = FragmentState::Work;
  auto& s = state(f);
  const bool nothing_new = next.newest_serial(config_.self) == s.newest_serial(config_.self);  // of ours
  const bool on_its_way =
      line == Line::same && s.outstanding && nothing_new && next.version <= s.outstanding->base + config_.staleness;
  const auto work = progress == Progress::drop && nothing_new ? Work::drop
                    : config_.keeps_progress                  ? Work::keep
                                                              : Work::overwrite;
  auto rest =
      s.hand_over(next, config_.self, on_its_way ? FragmentState::Pending::yes : FragmentState::Pending::no, work);
  note_lost(f, rest.tokens_lost,
            work == Work::drop   ? "no_history"
            : !rest.base         ? "restart"
            : work == Work::keep ? "forgotten"
                                 : "overwritten");
  s = std::move(next);
  auto& round = rounds_[f.value];
  std::erase_if(round.offers, [&](const auto& entry) {
    const auto why = obstacle(entry.second);
    if (why == "stale" || why == "overtaken") refuse(entry.second, why);
    return !why.empty() && why != "other_branch";
  });
  round.opened_at.reset();
  round.quorum_at.reset();
  round.snapshot_asked_at.reset();
  adoptions_.push_back(
      {f, s.version, s.anchor, std::move(rest.base), s.newest_serial(config_.self), rest.begins, false});
}

// Eager updates and naive delay: the next steps do not begin at the own parameters. Undone when the offer is answered.
void Protocol::go_on_from_start(FragmentId f) {
  auto& s = state(f);
  s.outstanding->start = start_of(s);
  const auto holds = s.newest_serial(config_.self);
  adoptions_.push_back({f, s.version, s.outstanding->start, s.outstanding->parameters, holds, holds, true});
}

store::Values Protocol::start_of(const FragmentState& s) const {
  if (config_.after_offer == AfterOffer::own) return s.outstanding->parameters;
  if (config_.after_offer == AfterOffer::anchor) return s.anchor;
  // The outer step as if the others had learned nothing: only the own share moves the anchor.
  const auto own = std::ranges::find(s.newest, config_.self, &store::OfferRecord::site);
  const float share = own == s.newest.end() ? 1.0F / static_cast<float>(peers_.size()) : own->weight;
  auto gradient = outer::weighted_mean({{std::span<const float>(*s.outstanding->gradient)}}, {{share}});
  auto anchor = *s.anchor, momentum = *s.momentum;
  config_.outer.step(anchor, momentum, gradient, s.version);
  return std::make_shared<const std::vector<float>>(std::move(anchor));
}

}  // namespace Atoll::federation
