// Being behind, and helping those who are: statuses, snapshots, taking over a branch with more history.
#include <algorithm>
#include <numeric>

#include "atoll/federation/protocol.hpp"

namespace Atoll::federation {

using store::Letter;
using store::LetterKind;

void Protocol::receive_status(const Letter& in, Seconds now) {
  auto& peer = peers_[in.site.value];
  peer.status = in;
  // What a site is ahead of us when we first hear of it was committed before we met: no commit of it is on its way.
  const auto haste = peer.heard ? Haste::none : Haste::at_once;
  peer.heard = peer.heard_since_join = true;
  peer.finished = in.finished ? in.fragments : std::vector<store::FragmentStatus>{};
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) note_version(in.site, {f}, in.fragments[f].version, now);
  if (joining_ && joining_->donor == in.site && in.joining) {
    note("join_given_up", {{"donor", name_of(in.site)}});
    joining_.reset();
  }
  if (!in.joining) compare(in.site, now, haste);  // what it holds is about to be replaced
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) forget_common_work({f});
  tick(now);  // a new steward gets the offers
}

// History weighs by the tokens merged over all fragments. Those that both branches share weigh the same on both sides,
// but a commit of them that only one side has yet would tip the balance to and fro: they are left out. Of equal
// branches that of the first site in the file wins. `told`: a fragment that is known to differ though the statuses do
// not say so.
bool Protocol::heavier(SiteId peer, std::optional<FragmentId> told) const {
  const auto& status = peers_[peer.value].status;
  if (!status) return false;
  std::uint64_t ours = 0, theirs = 0;
  bool differ = false;
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    if (told != FragmentId{f} && relation({f}, status->fragments[f]) != Relation::other_branch) continue;
    differ = true;
    ours += fragments_[f].tokens_merged;
    theirs += status->fragments[f].tokens_merged;
  }
  if (!differ) {
    ours = tokens_merged();
    for (const auto& fragment : status->fragments) theirs += fragment.tokens_merged;
  }
  return theirs > ours || (theirs == ours && peer < config_.self);
}

Protocol::Relation Protocol::relation(FragmentId f, const store::FragmentStatus& theirs) const {
  const auto& s = state(f);
  if (theirs.version > s.version) {
    const bool told = theirs.receiver_anchor != Digest{};
    const auto then = s.digest_at(theirs.receiver_version);
    return told && then && *then != theirs.receiver_anchor ? Relation::other_branch : Relation::ahead_of_us;
  }
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
  if (s.digest_at(in.version) != in.anchor && asking && !asking->joining && heavier(in.site, in.fragment))
    return join(in.site, now, "other branch");
  auto out = letter(LetterKind::snapshot);
  out.fragment = in.fragment;
  out.version = s.version;
  out.anchor = s.digest;
  // Whether what the asking site holds lies on our own line, so that it may take this one fragment alone.
  if (s.digest_at(in.version) == in.anchor) out.parent = in.anchor;
  out.fragments = s.recent_line();
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
  auto next = state(f).taken_over(in);
  if (next.digest != in.anchor) return refuse(in, "digest");

  if (joining_) {
    if (in.site != joining_->donor) return refuse(in, "not_asked");
    joining_->last_letter = now;
    joining_->bytes += (in.values->size() + in.momentum->size()) * sizeof(float);
    // A later one may follow a commit that we had already put on top: the newer version stays.
    auto& staged = joining_->staged[f.value];
    if (!staged || staged->version < next.version) staged = std::move(next);
    const auto there = [](const auto& fragment) { return fragment.has_value(); };
    if (std::ranges::all_of(joining_->staged, there)) finish_joining(now);
    return;
  }
  if (in.version <= state(f).version) return refuse(in, "stale");
  const auto& s = state(f);
  const auto there = next.digest_at(s.version);
  const bool same_line = there == s.digest || in.parent == s.digest;
  if (!same_line && !there && std::ranges::find(s.history, in.parent, &VersionDigest::second) != s.history.end()) {
    // We have gone on since we asked, and its history does not reach down to where we are.
    rounds_[f.value].snapshot_asked_at.reset();
    ask_snapshot(in.site, f, now);
    return refuse(in, "overtaken");
  }
  if (!same_line) return heavier(in.site, f) ? join(in.site, now, "other branch") : refuse(in, "lighter_branch");
  adopt_snapshot(f, std::move(next), Line::same, Progress::keep);
  note("snapshot_taken", {{"donor", name_of(in.site)},
                          {"fragment", std::uint64_t{f.value}},
                          {"version", in.version},
                          {"bytes", std::uint64_t{(in.values->size() + in.momentum->size()) * sizeof(float)}}});
}

void Protocol::join(SiteId donor, Seconds now, const std::string& reason) {
  joining_ = Joining{donor, now, now, std::vector<std::optional<FragmentState>>(fragments_.size()), 0};
  note("join", {{"donor", name_of(donor)}, {"reason", reason}, {"tokens_merged", tokens_merged()}});
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    rounds_[f].snapshot_asked_at.reset();
    ask_snapshot(donor, {f}, now);
  }
}

// Commits that came meanwhile may have taken our own fragment to the same place or further on the same line.
bool Protocol::overtaken(FragmentId f, const FragmentState& staged) const {
  const auto& own = state(f);
  const bool same = own.version == staged.version && own.tokens_merged == staged.tokens_merged;
  return (same || own.version > staged.version) && own.digest_at(staged.version) == staged.digest;
}

void Protocol::finish_joining(Seconds now) {
  auto joined = std::move(*joining_);
  joining_.reset();
  std::uint64_t ours = 0, theirs = 0;
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    if (overtaken({f}, *joined.staged[f])) continue;
    ours += fragments_[f].tokens_merged;
    theirs += joined.staged[f]->tokens_merged;
  }
  if (theirs < ours) return note("join_given_up", {{"donor", name_of(joined.donor)}});
  const auto progress = has_history() ? Progress::keep : Progress::drop;
  for (std::uint32_t f = 0; f < fragments_.size(); ++f)
    if (!overtaken({f}, *joined.staged[f])) adopt_snapshot({f}, std::move(*joined.staged[f]), Line::other, progress);
  note("joined", {{"donor", name_of(joined.donor)},
                  {"bytes", std::uint64_t{joined.bytes}},
                  {"seconds", (now - joined.started).count()},
                  {"tokens_merged", tokens_merged()}});
  for (auto& peer : peers_) peer.heard_since_join = false;
  for (const auto site : live_peers()) send_status(site);
}

void Protocol::adopt_snapshot(FragmentId f, FragmentState next, Line line, Progress progress) {
  const auto before = state(f).tokens_since;
  note_taken(f, next);
  advance(f, std::move(next), line, progress);
  auto& s = state(f);
  // The first offer after a snapshot weighs what the site does from now on, though it holds all that it did before.
  const auto pending = s.outstanding ? s.outstanding->tokens : 0;
  if (s.tokens_since > pending && before > 0)
    note("tokens_unweighted", {{"fragment", std::uint64_t{f.value}}, {"tokens", s.tokens_since - pending}});
  s.steps_since = s.outstanding ? s.outstanding->steps : 0;
  s.tokens_since = pending;
}

// Own work that every site has in its line needs no memory any more. A site that is away may be on another line.
void Protocol::forget_common_work(FragmentId f) {
  if (state(f).path.marks() == 1) return;
  const auto has_it = [&](const Peer& peer) {
    if (&peer == &peers_[config_.self.value] || (peer.incarnation != 0 && peer.left == peer.incarnation)) return true;
    if (!peer.status) return false;
    const auto& theirs = peer.status->fragments[f.value];
    return relation(f, theirs) == Relation::same ||
           (theirs.receiver_version == state(f).version && theirs.receiver_anchor == state(f).digest);
  };
  if (std::ranges::all_of(peers_, has_it)) state(f).path.forget_before(state(f).newest_serial(config_.self));
}

}  // namespace Atoll::federation
