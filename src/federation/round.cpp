// One round of one fragment, DESIGN section 3: offer -> merge -> commit -> adoption.
#include <algorithm>

#include "atoll/federation/protocol.hpp"
#include "atoll/outer/outer_optimizer.hpp"

namespace Atoll::federation {

using store::Letter;

// Every site, when the schedule says so: what it learned since the anchor that it really started from.
std::uint64_t Protocol::offer(FragmentId f, store::Values parameters, Seconds now) {
  if (!may_offer(f)) return 0;
  auto& s = state(f);
  auto gradient = outer::pseudo_gradient(*s.anchor, *parameters);
  if (!outer::all_finite(gradient)) return discard_progress(), 0;
  const auto serial = config_.incarnation + ++offers_made_;
  s.take_offer(config_.self, serial, std::move(parameters), std::move(gradient));
  s.outstanding->tokens = std::min(s.outstanding->tokens, config_.total_tokens);
  if (config_.after_offer != AfterOffer::own) go_on_from_start(f);
  send_offer(f, now);
  return serial;
}

// The steward: gather, gate, wait for quorum and grace.
void Protocol::receive_offer(const Letter& in) {
  auto& round = rounds_[in.fragment.value];
  if (const auto reason = obstacle(in); !reason.empty()) return refuse(in, reason);
  const auto earlier = round.offers.find(in.site);
  if (earlier == round.offers.end() || in.serial > earlier->second.serial) round.offers.insert_or_assign(in.site, in);
}

void Protocol::merge_if_ready(FragmentId f, Seconds now) {
  if (closed(f) || steward(f) != config_.self || !may_be_steward(config_.self)) return;
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
  const auto shares = shares_of(f, offers);
  std::vector<std::span<const float>> gradients;
  for (const auto* offer : offers) gradients.emplace_back(*offer->values);
  const auto made = outer_.merge(gradients, shares, segments(f), s.view());
  if (set_aside(f, offers, made)) return merge_if_ready(f, now);
  const auto commit = commit_letter(f, offers, shares, made);
  auto next = s.advanced(made, commit.offers);
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

}  // namespace Atoll::federation
