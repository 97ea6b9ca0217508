// What becomes of this site's own work as anchors move, offers are refused, or parameters become unusable.
#include <algorithm>

#include "atoll/federation/protocol.hpp"
#include "atoll/outer/merge.hpp"

namespace Atoll::federation {

using store::Letter;

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

void Protocol::receive_refusal(const Letter& in) {
  const auto& outstanding = state(in.fragment).outstanding;
  if (outstanding && outstanding->serial == in.serial) discard(in.fragment, "refused");
}

void Protocol::discard_progress() {
  for (std::uint32_t f = 0; f < fragments_.size(); ++f) discard({f}, "not_finite");
}

void Protocol::discard(FragmentId f, const std::string& reason) {
  auto& s = state(f);
  const auto newest = s.newest_serial(config_.self);
  const auto& out = s.outstanding;  // where anchors replace progress, what it holds is no more behind the newest
  const auto offered = out ? s.path.tokens_behind(out->serial) + out->tokens : 0;
  note_lost(f, std::max(s.path.tokens_behind(newest), offered), reason);
  s.path.restart(newest);
  s.steps_since = s.tokens_since = 0;
  s.outstanding.reset();
  adoptions_.push_back({f, s.version, s.anchor, nullptr, newest, newest, false});
}

}  // namespace Atoll::federation
