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
      fragments_(std::move(fragments)),
      peers_(config_.sites.size()),
      rounds_(fragments_.size()) {
  ATOLL_EXPECT(config_.self.value < config_.sites.size() && !fragments_.empty(), "a site of the federation, fragments");
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

SiteId Protocol::steward() const {
  for (std::uint32_t site = 0; site < peers_.size(); ++site)
    if (may_be_steward({site})) return {site};
  return config_.self;
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

void Protocol::stepped(std::uint64_t tokens) {
  ++inner_steps_;
  for (auto& s : fragments_) {
    ++s.steps_since;
    s.tokens_since += tokens;
  }
}

bool Protocol::may_offer(FragmentId f) const {
  return !joining() && !closed(f) && !state(f).outstanding && state(f).tokens_since > 0;
}

void Protocol::offer(FragmentId f, store::Values parameters, Seconds now) {
  if (!may_offer(f)) return;
  auto& s = state(f);
  auto gradient = outer::pseudo_gradient(*s.anchor, *parameters);
  if (!outer::all_finite(gradient)) {
    note("progress_discarded", {{"fragment", std::uint64_t{f.value}}, {"reason", std::string("not finite")}});
    return discard_progress();
  }
  OutstandingOffer offer;
  offer.serial = config_.incarnation + ++offers_made_;
  offer.base = s.version;
  offer.steps = s.steps_since;
  // A site that trained alone for long, because no commit was possible, must not be refused for it.
  offer.tokens = std::min(s.tokens_since, config_.total_tokens);
  offer.gradient = std::make_shared<const std::vector<float>>(std::move(gradient));
  offer.parameters = std::move(parameters);
  s.outstanding = std::move(offer);
  send_offer(f, now);
}

void Protocol::discard_progress() {
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) {
    auto& s = fragments_[f];
    s.steps_since = s.tokens_since = 0;
    s.outstanding.reset();
    adoptions_.push_back({{f}, s.version, s.anchor, nullptr});
  }
}

void Protocol::send_offer(FragmentId f, Seconds now) {
  auto& s = state(f);
  auto& offer = *s.outstanding;
  auto out = letter(LetterKind::offer);
  out.fragment = f;
  out.version = offer.base;
  out.parent = s.digest;
  out.serial = offer.serial;
  out.steps = offer.steps;
  out.tokens = offer.tokens;
  out.values = offer.gradient;
  offer.sent_to = steward();
  offer.sent_to_incarnation = peers_[offer.sent_to.value].incarnation;
  offer.sent_at = now;
  note("offer", {{"fragment", std::uint64_t{f.value}},
                 {"version", offer.base},
                 {"serial", offer.serial},
                 {"steps", offer.steps},
                 {"tokens", offer.tokens},
                 {"steward", name_of(offer.sent_to)}});
  if (offer.sent_to == config_.self) {
    receive_offer(out);
    merge_if_ready(f, now);
  } else {
    send(offer.sent_to, std::move(out));
  }
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
    const auto to = steward();
    if (out && (out->sent_to != to || out->sent_to_incarnation != peers_[to.value].incarnation ||
                now - out->sent_at > config_.resend_after))
      send_offer({f}, now);
    merge_if_ready({f}, now);
  }
}

void Protocol::leave() {
  for (const auto site : live_peers()) send(site, letter(LetterKind::leave));
}

Letter Protocol::letter(LetterKind kind) const {
  Letter out;
  out.kind = kind;
  out.federation = config_.federation;
  out.configuration = config_.configuration;
  out.site = config_.self;
  out.incarnation = config_.incarnation;
  return out;
}

void Protocol::send_status(SiteId to) {
  auto out = letter(LetterKind::status);
  for (const auto& s : fragments_) out.fragments.push_back(s.status());
  out.inner_step = inner_steps_;
  out.finished = finished();
  out.ready = begun_ && !joining();
  out.joining = joining();
  send(to, std::move(out));
}

void Protocol::refuse(const Letter& in, const std::string& reason) {
  ++refused_[reason];
  note("letter_refused", {{"kind", std::string(store::name_of(in.kind))},
                          {"site", in.site.value < peers_.size() ? name_of(in.site) : std::string("unknown")},
                          {"fragment", std::uint64_t{in.fragment.value}},
                          {"version", in.version},
                          {"reason", reason}});
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
  if (in.kind == LetterKind::snapshot_request) return "";
  const auto size = state(in.fragment).anchor->size();
  if (!in.values || in.values->size() != size) return "layout";
  if (in.kind == LetterKind::offer && in.tokens > config_.total_tokens) return "implausible";
  if (in.kind == LetterKind::snapshot && (!in.momentum || in.momentum->size() != size)) return "layout";
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
      receive_offer(in);
      return merge_if_ready(in.fragment, now);
    case LetterKind::commit:
      return receive_commit(in, now);
    case LetterKind::snapshot_request:
      return receive_snapshot_request(in, now);
    case LetterKind::snapshot:
      return receive_snapshot(in, now);
    case LetterKind::leave:
      peers_[in.site.value].left = in.incarnation;
      return note("site_left", {{"site", name_of(in.site)}});
  }
}

void Protocol::note_version(SiteId site, FragmentId f, Version version) {
  auto& at = peers_[site.value].at;
  at.resize(fragments_.size(), 0);
  at[f.value] = std::max(at[f.value], version);
}

void Protocol::receive_offer(const Letter& in) {
  const auto& s = state(in.fragment);
  note_version(in.site, in.fragment, in.version);
  if (in.version < s.version || closed(in.fragment)) return refuse(in, "stale");
  if (in.version == s.version && in.parent != s.digest) return refuse(in, "other_branch");
  if (in.serial <= s.newest_serial(in.site)) return refuse(in, "duplicate");
  if (in.tokens == 0) return refuse(in, "no_tokens");
  auto& offers = rounds_[in.fragment.value].offers;
  const auto earlier = offers.find(in.site);
  if (earlier != offers.end() && in.serial <= earlier->second.serial) return;
  offers.insert_or_assign(in.site, in);
}

void Protocol::receive_commit(const Letter& in, Seconds now) {
  const auto f = in.fragment;
  auto* current = &state(f);
  const bool staged = joining_ && joining_->staged[f.value];
  if (staged) current = &*joining_->staged[f.value];

  if (in.version <= current->version) {
    const auto known = current->digest_at(in.version);
    return refuse(in, known && *known != in.anchor ? "other_branch" : "duplicate");
  }
  if (in.version > current->version + 1) {
    if (!joining_) ask_snapshot(in.site, f, now);
    return refuse(in, "gap");
  }
  if (in.parent != current->digest) return refuse(in, "other_branch");
  auto next = current->advanced(*in.values, in.offers, config_.outer_learning_rate, config_.outer_momentum);
  if (next.digest != in.anchor || next.tokens_merged != in.tokens) {
    if (!joining_) ask_snapshot(in.site, f, now);
    return refuse(in, "digest");
  }
  if (staged) {
    *current = std::move(next);
    return;
  }
  note_commit(in, Seconds{0});
  const auto base = base_after(*current, next);
  replace(f, std::move(next), base);
}

// What a replay needs: which offers were merged, in which order, with which weights.
void Protocol::note_commit(const Letter& commit, Seconds waited, const std::vector<const Letter*>& offers) {
  if (config_.keeps_letters) {
    auto& record = records_.emplace_back(Record{commit, {}});
    for (const auto* offer : offers) record.offers.push_back(*offer);
  }
  std::vector<std::string> names;
  std::vector<std::uint64_t> serials, tokens, steps;
  std::vector<double> weights;
  for (const auto& offer : commit.offers) {
    names.push_back(name_of(offer.site));
    serials.push_back(offer.serial);
    tokens.push_back(offer.tokens);
    steps.push_back(offer.steps);
    weights.push_back(offer.weight);
  }
  note("commit", {{"fragment", std::uint64_t{commit.fragment.value}},
                  {"version", commit.version},
                  {"anchor", commit.anchor.hex()},
                  {"steward", name_of(commit.site)},
                  {"offers", names},
                  {"serials", serials},
                  {"offer_tokens", tokens},
                  {"offer_steps", steps},
                  {"weights", weights},
                  {"tokens", commit.tokens},
                  {"seconds", waited.count()}});
}

// Puts a committed state in place; steps and tokens that went into it leave the site's own count.
void Protocol::replace(FragmentId f, FragmentState next, store::Values base) {
  auto& s = state(f);
  const bool ours = s.outstanding && next.newest_serial(config_.self) == s.outstanding->serial;
  if (ours) {
    next.steps_since -= s.outstanding->steps;
    next.tokens_since -= s.outstanding->tokens;
  }
  if (!base || !config_.keeps_progress) next.steps_since = next.tokens_since = 0;
  next.outstanding.reset();
  s = std::move(next);
  auto& round = rounds_[f.value];
  std::erase_if(round.offers, [&](const auto& entry) { return entry.second.version < s.version; });
  round.quorum_at.reset();
  round.snapshot_asked_at.reset();
  adoptions_.push_back({f, s.version, s.anchor, std::move(base)});
}

}  // namespace Atoll::federation
