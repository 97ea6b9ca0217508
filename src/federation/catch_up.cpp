// Being behind, and helping those who are: statuses, snapshots, taking over a branch with more history.
#include <algorithm>
#include <numeric>

#include "atoll/federation/protocol.hpp"

namespace Atoll::federation {

using store::Letter;
using store::LetterKind;

void Protocol::receive_status(const Letter& in, Seconds now) {
  const auto steward_before = steward();
  auto& peer = peers_[in.site.value];
  peer.status = in;
  // What a site is ahead of us when we first hear of it was committed before we met: no commit of it is on its way.
  const auto haste = peer.heard ? Haste::none : Haste::at_once;
  peer.heard = true;
  peer.finished = in.finished;
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) note_version(in.site, {f}, in.fragments[f].version);
  if (joining_ && joining_->donor == in.site && in.joining) {
    note("join_given_up", {{"donor", name_of(in.site)}});
    joining_.reset();
  }
  if (!in.joining) compare(in.site, now, haste);  // what it holds is about to be replaced
  if (steward() != steward_before) tick(now);     // offers go to the new one
}

// History weighs by the tokens merged over all fragments; of equal ones that of the first site in the file goes first.
bool Protocol::heavier(SiteId peer) const {
  const auto& status = peers_[peer.value].status;
  if (!status) return false;
  const auto theirs = std::accumulate(status->fragments.begin(), status->fragments.end(), std::uint64_t{0},
                                      [](auto sum, const auto& fragment) { return sum + fragment.tokens_merged; });
  return theirs > tokens_merged() || (theirs == tokens_merged() && peer < config_.self);
}

Protocol::Relation Protocol::relation(FragmentId f, const store::FragmentStatus& theirs) const {
  const auto& s = state(f);
  if (theirs.version > s.version) return Relation::ahead_of_us;
  const auto ours = s.digest_at(theirs.version);
  if (ours && *ours != theirs.anchor) return Relation::other_branch;
  if (theirs.version < s.version) return Relation::behind_us;
  // Equal bits from unequal offers: rare, but another history.
  return theirs.tokens_merged == s.tokens_merged ? Relation::same : Relation::other_branch;
}

void Protocol::compare(SiteId site, Seconds now, Haste haste) {
  if (joining()) return;
  auto& peer = peers_[site.value];
  const auto& theirs = peer.status->fragments;
  std::vector<FragmentId> ahead;
  Version gap = 0;
  bool branches = false;
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    const auto found = relation({f}, theirs[f]);
    branches |= found == Relation::other_branch;
    if (found != Relation::ahead_of_us) continue;
    ahead.push_back({f});
    gap = std::max(gap, theirs[f].version - fragments_[f].version);
  }
  if (branches) {
    if (heavier(site)) join(site, now, "other branch");
    return;
  }
  if (ahead.empty()) return peer.ahead_since.reset();
  if (gap >= config_.far_behind && heavier(site)) return join(site, now, "far behind");
  if (!peer.ahead_since) peer.ahead_since = now;
  if (haste == Haste::none && now - *peer.ahead_since < config_.catch_up_after) return;
  if (!has_history()) return join(site, now, "no history");
  for (const auto f : ahead) ask_snapshot(site, f, now);
}

bool Protocol::settled() const {
  if (joining()) return false;
  return std::ranges::all_of(live_peers(), [&](SiteId site) {
    const auto& peer = peers_[site.value];
    if (!peer.status) return false;
    for (std::uint32_t f = 0; f < fragments_.size(); ++f)
      if (peer.status->fragments[f].version > fragments_[f].version) return false;
    return true;
  });
}

void Protocol::ask_snapshot(SiteId donor, FragmentId f, Seconds now) {
  auto& asked_at = rounds_[f.value].snapshot_asked_at;
  if (asked_at && now - *asked_at < config_.ask_again_after) return;
  asked_at = now;
  auto out = letter(LetterKind::snapshot_request);
  out.fragment = f;
  out.version = state(f).version;
  out.anchor = state(f).digest;
  note("snapshot_asked", {{"donor", name_of(donor)}, {"fragment", std::uint64_t{f.value}}, {"version", out.version}});
  send(donor, std::move(out));
}

void Protocol::receive_snapshot_request(const Letter& in, Seconds now) {
  if (!has_history() || joining()) return refuse(in, "no_history");
  const auto& s = state(in.fragment);
  const auto& asking = peers_[in.site.value].status;
  if (s.digest_at(in.version) != in.anchor && asking && !asking->joining && heavier(in.site))
    return join(in.site, now, "other branch");
  auto out = letter(LetterKind::snapshot);
  out.fragment = in.fragment;
  out.version = s.version;
  out.anchor = s.digest;
  // Says that what the asking site holds lies on our own line, so it may take this one fragment alone.
  if (s.digest_at(in.version) == in.anchor) out.parent = in.anchor;
  out.tokens = s.tokens_merged;
  out.offers = s.newest;
  out.values = s.anchor;
  out.momentum = s.momentum;
  note("snapshot_given",
       {{"site", name_of(in.site)}, {"fragment", std::uint64_t{in.fragment.value}}, {"version", s.version}});
  send(in.site, std::move(out));
}

void Protocol::receive_snapshot(const Letter& in, Seconds now) {
  const auto f = in.fragment;
  FragmentState next = state(f);
  next.version = in.version;
  next.anchor = in.values;
  next.momentum = in.momentum;
  next.tokens_merged = in.tokens;
  next.newest = in.offers;
  next.remember();
  if (next.digest != in.anchor) return refuse(in, "digest");

  if (joining_) {
    if (in.site != joining_->donor) return refuse(in, "not_asked");
    joining_->last_letter = now;
    joining_->bytes += (in.values->size() + in.momentum->size()) * sizeof(float);
    // A later one may follow a commit that we had already put on top: the newer version stays.
    auto& staged = joining_->staged[f.value];
    if (!staged || staged->version < next.version) {
      next.history = {next.history.front(), {next.version, next.digest}};
      staged = std::move(next);
    }
    const auto there = [](const auto& fragment) { return fragment.has_value(); };
    if (std::ranges::all_of(joining_->staged, there)) finish_joining(now);
    return;
  }
  if (in.version <= state(f).version) return refuse(in, "stale");
  const auto& ours = state(f).history;
  const bool same_line = std::ranges::any_of(ours, [&](const auto& entry) { return entry.second == in.parent; });
  if (same_line && in.parent != state(f).digest) {
    // A commit came while it was on its way: whose offers it holds of us is not known any more.
    rounds_[f.value].snapshot_asked_at.reset();
    ask_snapshot(in.site, f, now);
    return refuse(in, "overtaken");
  }
  if (!same_line) return heavier(in.site) ? join(in.site, now, "other branch") : refuse(in, "lighter_branch");
  adopt_snapshot(f, std::move(next), Progress::keep);
  note("snapshot_taken", {{"donor", name_of(in.site)},
                          {"fragment", std::uint64_t{f.value}},
                          {"version", in.version},
                          {"bytes", std::uint64_t{2 * in.values->size() * sizeof(float)}}});
}

void Protocol::join(SiteId donor, Seconds now, const std::string& reason) {
  joining_ = Joining{donor, now, now, std::vector<std::optional<FragmentState>>(fragments_.size()), 0};
  note("join", {{"donor", name_of(donor)}, {"reason", reason}, {"tokens_merged", tokens_merged()}});
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    rounds_[f].snapshot_asked_at.reset();
    ask_snapshot(donor, {f}, now);
  }
}

void Protocol::finish_joining(Seconds now) {
  auto joined = std::move(*joining_);
  joining_.reset();
  const auto theirs = std::accumulate(joined.staged.begin(), joined.staged.end(), std::uint64_t{0},
                                      [](auto sum, const auto& staged) { return sum + staged->tokens_merged; });
  if (theirs < tokens_merged()) return note("join_given_up", {{"donor", name_of(joined.donor)}});
  const auto progress = has_history() ? Progress::keep : Progress::drop;
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    auto& staged = *joined.staged[f];
    // Commits that came meanwhile may have taken our own fragment to the same place or further on the same line.
    const auto& own = state({f});
    const bool same = own.version == staged.version && own.tokens_merged == staged.tokens_merged;
    const bool overtaken = (same || own.version > staged.version) && own.digest_at(staged.version) == staged.digest;
    if (!overtaken) adopt_snapshot({f}, std::move(staged), progress);
  }
  note("joined", {{"donor", name_of(joined.donor)},
                  {"bytes", std::uint64_t{joined.bytes}},
                  {"seconds", (now - joined.started).count()},
                  {"tokens_merged", tokens_merged()}});
  for (const auto site : live_peers()) send_status(site);
}

void Protocol::adopt_snapshot(FragmentId f, FragmentState next, Progress progress) {
  auto& s = state(f);
  auto base = base_after(s, next);
  if (progress == Progress::drop && base == s.anchor) base = nullptr;
  if (s.tokens_since > 0) note("tokens_unweighted", {{"fragment", std::uint64_t{f.value}}, {"tokens", s.tokens_since}});
  // The first offer after a snapshot weighs what the site does from now on.
  s.steps_since = s.tokens_since = 0;
  s.outstanding.reset();
  next.steps_since = next.tokens_since = 0;
  note_taken(f, next);
  replace(f, std::move(next), std::move(base));
}

// What a replay needs: the state that was put in place of our own, whichever letters it came from.
void Protocol::note_taken(FragmentId f, const FragmentState& next) {
  note("anchor_taken", {{"fragment", std::uint64_t{f.value}},
                        {"version", next.version},
                        {"anchor", next.digest.hex()},
                        {"tokens", next.tokens_merged}});
  if (!config_.keeps_letters) return;
  auto taken = letter(LetterKind::snapshot);
  taken.fragment = f;
  taken.version = next.version;
  taken.anchor = next.digest;
  taken.tokens = next.tokens_merged;
  taken.offers = next.newest;
  taken.values = next.anchor;
  taken.momentum = next.momentum;
  records_.push_back({std::move(taken), {}});
}

// Local progress is merged once and never dropped: what it is measured from depends on which of our offers is in
// `next`.
store::Values Protocol::base_after(const FragmentState& old, const FragmentState& next) const {
  const auto merged = next.newest_serial(config_.self);
  if (merged <= old.newest_serial(config_.self)) return old.anchor;
  if (old.outstanding && merged == old.outstanding->serial) return old.outstanding->parameters;
  return nullptr;  // an offer that we made later than the checkpoint that we came back from holds all of it already
}

}  // namespace Atoll::federation
