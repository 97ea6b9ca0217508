#include "atoll/federation/protocol.hpp"

#include <algorithm>
#include <numeric>

#include "atoll/core/error.hpp"
#include "atoll/outer/outer_optimizer.hpp"

namespace Atoll::federation {

using store::Letter;
using store::LetterKind;

Protocol::Protocol(ProtocolConfig config, std::vector<FragmentState> fragments)
    : config_(std::move(config)),
      outer_(config_.merger, config_.outer),
      fragments_(std::move(fragments)),
      peers_(config_.sites.size()),
      rounds_(fragments_.size()) {
  ATOLL_EXPECT(config_.self.value < config_.sites.size() && !fragments_.empty(), "a site of the federation, fragments");
  ATOLL_EXPECT(config_.after_offer == AfterOffer::own || (config_.staleness == 0 && config_.keeps_progress),
               "an offer is answered before the next one");
  for (auto& s : fragments_) {  // the path begins with this start
    s.path = OwnPath(s.newest_serial(config_.self));
    const auto offered = s.outstanding ? s.outstanding->tokens : 0, of_steps = s.outstanding ? s.outstanding->steps : 0;
    s.path.walked(of_steps, offered);
    if (s.outstanding) {
      s.path.mark(s.outstanding->serial, s.newest_serial(config_.self), s.outstanding->gradient);
      if (!s.outstanding->start) s.outstanding->start = start_of(s);
    }
    s.path.walked(s.steps_since - std::min(s.steps_since, of_steps),
                  s.tokens_since - std::min(s.tokens_since, offered));
  }
}

// ---- views

bool Protocol::closed(FragmentId f) const {
  return state(f).tokens_merged >= config_.total_tokens;
}

bool Protocol::finished() const {
  return std::ranges::all_of(fragments_, [&](const auto& s) { return s.tokens_merged >= config_.total_tokens; });
}

std::vector<SiteId> Protocol::live_peers() const {
  std::vector<SiteId> live;
  for (std::uint32_t site = 0; site < peers_.size(); ++site)
    if (peers_[site].alive && peers_[site].left != peers_[site].incarnation) live.push_back({site});
  return live;
}

std::size_t Protocol::sites_alive() const {
  return 1 + live_peers().size();
}

bool Protocol::has_history() const {
  return std::ranges::any_of(fragments_, [](const auto& s) { return s.version > 0; });
}

bool Protocol::all_finished() const {
  const auto served = [](const Peer& peer) {
    return peer.incarnation == 0 || peer.left == peer.incarnation || peer.finished;
  };
  const auto agrees = [&](SiteId site) {
    const auto& status = peers_[site.value].status;
    for (std::uint32_t f = 0; status && f < fragments_.size(); ++f)
      if (relation({f}, status->fragments[f]) != Relation::same) return false;
    return true;
  };
  return finished() && !joining() && std::ranges::all_of(peers_, served) && std::ranges::all_of(live_peers(), agrees);
}

std::uint64_t Protocol::tokens_merged() const {
  return std::accumulate(fragments_.begin(), fragments_.end(), std::uint64_t{0},
                         [](auto sum, const auto& s) { return sum + s.tokens_merged; });
}

double Protocol::progress_tokens() const {
  double sum = 0;
  for (const auto& s : fragments_) {
    // Others are expected to be as far as we are since the last commit; their number is that of its contributors.
    const auto contributors = s.newest.empty() ? config_.sites.size() : s.newest.size();
    sum += static_cast<double>(s.tokens_merged) + static_cast<double>(s.tokens_since * contributors);
  }
  return sum / static_cast<double>(fragments_.size());
}

// ---- the own island

void Protocol::begin(Seconds now) {
  begun_ = true;
  status_sent_at_.reset();
  tick(now);
}

void Protocol::stepped(std::uint64_t tokens, Seconds now, std::uint64_t steps) {
  clock_.stepped(steps, now);
  inner_steps_ += steps;
  for (auto& s : fragments_) {
    s.steps_since += steps;
    s.tokens_since += steps * tokens;
    s.path.walked(steps, steps * tokens);
  }
}

bool Protocol::may_offer(FragmentId f) const {
  return !joining() && !closed(f) && !state(f).outstanding && state(f).tokens_since > 0;
}

// ---- the world

void Protocol::observe(SiteId site, bool alive, Incarnation incarnation, Seconds now) {
  auto& peer = peers_.at(site.value);
  if (alive && incarnation < peer.incarnation) return;
  const bool restarted = alive && incarnation != peer.incarnation;
  if (alive == peer.alive && !restarted) return;
  if (restarted) {
    peer = Peer{};
    for (auto& round : rounds_) round.offers.erase(site);  // of another start, perhaps of another branch
    if (joining_ && joining_->donor == site) joining_.reset();
    peer.incarnation = incarnation;
  }
  peer.alive = alive;
  for (auto& round : rounds_) round.snapshot_asked_at.reset();  // whom we asked may be gone
  if (alive) {
    note("site_up", {{"site", name_of(site)}, {"incarnation", incarnation}});
    send_status(site);
  } else {
    note("site_down", {{"site", name_of(site)}});
    peer.status.reset();
    peer.at.clear();
    peer.ahead_since.reset();
    if (joining_ && joining_->donor == site) joining_.reset();
  }
  tick(now);
}

void Protocol::tick(Seconds now) {
  if (!status_sent_at_ || now - *status_sent_at_ >= config_.status_interval || (finished() && !announced_finish_)) {
    status_sent_at_ = now;
    announced_finish_ = finished();
    for (const auto site : live_peers()) send_status(site);
  }
  if (joining_ && now - joining_->last_letter > config_.join_patience) {
    note("join_given_up", {{"donor", name_of(joining_->donor)}});
    joining_.reset();
  }
  if (joining_)  // a request may have met a donor that could not answer then
    for (std::uint32_t f = 0; f < fragments_.size(); ++f)
      if (!joining_->staged[f]) ask_snapshot(joining_->donor, {f}, now);
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    const auto& out = fragments_[f].outstanding;
    const auto to = steward({f});
    if (out && (out->sent_to != to || out->sent_to_incarnation != peers_[to.value].incarnation ||
                now - out->sent_at > config_.resend_after))
      send_offer({f}, now);
    merge_if_ready({f}, now);
  }
}

// The first gate that a letter fails, or nothing. Everything that indexes or computes later is checked here.
std::string Protocol::gate(const Letter& in) const {
  if (in.federation != config_.federation) return "other_federation";
  if (in.configuration != config_.configuration) return "other_configuration";
  if (in.site.value >= peers_.size() || in.site == config_.self) return "unknown_site";
  if (in.incarnation < peers_[in.site.value].incarnation) return "old_incarnation";
  if (in.kind == LetterKind::status) return in.fragments.size() == fragments_.size() ? "" : "layout";
  if (in.kind == LetterKind::leave) return "";
  if (in.fragment.value >= fragments_.size()) return "layout";
  if (in.kind == LetterKind::snapshot_request || in.kind == LetterKind::refusal) return "";
  const auto size = state(in.fragment).anchor->size();
  if (!in.values || in.values->size() != size) return "layout";
  if (in.fragments.size() > sent_versions) return "layout";
  if (in.kind == LetterKind::offer && in.tokens > config_.total_tokens) return "implausible";
  if (in.kind == LetterKind::snapshot && (!in.momentum || in.momentum->size() != size * config_.outer.slots()))
    return "layout";
  if (in.kind == LetterKind::offer) return "";  // whether it is finite shows when it is merged
  if (!outer::all_finite(*in.values) || (in.momentum && !outer::all_finite(*in.momentum))) return "not_finite";
  const auto known = [&](const store::OfferRecord& offer) { return offer.site.value < peers_.size(); };
  if (!std::ranges::all_of(in.offers, known)) return "unknown_site";
  return "";
}

void Protocol::receive(const Letter& in, Seconds now) {
  if (const auto reason = gate(in); !reason.empty()) return refuse(in, reason);
  if (in.incarnation > peers_[in.site.value].incarnation) observe(in.site, true, in.incarnation, now);
  switch (in.kind) {
    case LetterKind::status:
      return receive_status(in, now);
    case LetterKind::offer:
      note_version(in.site, in.fragment, std::max(in.version, version_of(in.site, in.fragment)), now);
      receive_offer(in);
      return merge_if_ready(in.fragment, now);
    case LetterKind::commit:
      return receive_commit(in, now);
    case LetterKind::snapshot_request:
      return receive_snapshot_request(in, now);
    case LetterKind::snapshot:
      return receive_snapshot(in, now);
    case LetterKind::refusal:
      return receive_refusal(in);
    case LetterKind::leave:
      peers_[in.site.value].left = in.incarnation;
      if (joining_ && joining_->donor == in.site) joining_.reset();
      return note("site_left", {{"site", name_of(in.site)}});
  }
}

// Who has a commit of ours tells how long it was on its way, there and the answer back.
void Protocol::note_version(SiteId site, FragmentId f, Version version, Seconds now) {
  auto& peer = peers_[site.value];
  peer.at.resize(fragments_.size(), 0);
  const auto sent = rounds_[f.value].committed_at;
  const auto ours = state(f).version;
  if (sent && version == ours && peer.at[f.value] < ours) peer.transfer.add(now - *sent);
  peer.at[f.value] = version;
}

Version Protocol::version_of(SiteId site, FragmentId f) const {
  const auto& at = peers_[site.value].at;
  return at.empty() ? 0 : at[f.value];
}

}  // namespace Atoll::federation
