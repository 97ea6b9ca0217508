#include "atoll/federation/fragment_state.hpp"

#include <algorithm>
#include <iterator>

#include "atoll/outer/mixing.hpp"

namespace Atoll::federation {
namespace {

constexpr std::size_t remembered_versions = 256;

store::Values shared(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

// anchor + (values - base)
store::Values moved(std::vector<float> values, const std::vector<float>& anchor, const std::vector<float>& base) {
  outer::rebase(values, anchor, base);
  return shared(std::move(values));
}

}  // namespace

FragmentState FragmentState::initial(std::vector<float> anchor, std::size_t slots) {
  FragmentState state;
  state.momentum = shared(std::vector<float>(slots * anchor.size(), 0.0F));
  state.anchor = shared(std::move(anchor));
  state.remember();
  return state;
}

FragmentState FragmentState::advanced(const NextAnchor& made, const std::vector<store::OfferRecord>& offers) const {
  FragmentState next = *this;
  next.anchor = made.anchor;
  next.momentum = made.state;
  next.version = version + 1;
  for (const auto& offer : offers) next.tokens_merged += offer.tokens;
  next.note_offers(offers);
  next.remember(made.digest);
  return next;
}

FragmentState FragmentState::taken_over(const store::Letter& snapshot) const {
  FragmentState next = *this;
  next.version = snapshot.version;
  next.anchor = snapshot.values;
  next.momentum = snapshot.momentum;
  next.tokens_merged = snapshot.tokens;
  next.newest = snapshot.offers;
  next.take_line(snapshot.fragments);
  return next;
}

void FragmentState::take_offer(SiteId self, std::uint64_t serial, store::Values parameters,
                               std::vector<float> gradient) {
  OutstandingOffer offer;
  offer.serial = serial;
  offer.base = version;
  offer.steps = steps_since;
  offer.tokens = tokens_since;
  offer.work_steps = path.steps_behind(newest_serial(self));
  offer.gradient = shared(std::move(gradient));
  offer.parameters = offer.start = std::move(parameters);
  path.mark(serial, newest_serial(self), offer.gradient);
  outstanding = std::move(offer);
}

OwnPath::Rest FragmentState::hand_over(FragmentState& next, SiteId self, Pending pending, Work work) const {
  const auto to = next.newest_serial(self);
  const bool on_its_way = outstanding && pending == Pending::yes;
  const bool merged = outstanding && !on_its_way && to == outstanding->serial;
  auto rest = path.behind(anchor, newest_serial(self), to);
  if (merged)
    rest.base = outstanding->start;
  else if (rest.base && outstanding && !on_its_way && outstanding->start != outstanding->parameters)
    rest.base = moved(*outstanding->start, *rest.base, *outstanding->parameters);  // what it went on from is undone

  next.path = path;
  next.steps_since = steps_since - (merged ? outstanding->steps : 0);
  next.tokens_since = tokens_since - (merged ? outstanding->tokens : 0);
  next.outstanding = on_its_way ? outstanding : std::nullopt;
  if (rest.base && work == Work::keep) {
    if (on_its_way)
      next.outstanding->parameters = next.outstanding->start =
          moved(*outstanding->parameters, *next.anchor, *rest.base);
    next.path.follow(to, rest.begins);
    next.steps_since = std::min(next.steps_since, path.steps_behind(rest.begins));
    next.tokens_since = std::min(next.tokens_since, path.tokens_behind(rest.begins));
    return rest;
  }
  const auto from = newest_serial(self);
  if (work == Work::overwrite && outstanding && !merged)
    rest.tokens_lost = path.tokens_behind(outstanding->serial) + (on_its_way ? 0 : outstanding->tokens);
  else if (rest.base)
    rest.tokens_lost = path.tokens_behind(std::max(from, to));
  if (rest.base) rest.tokens_lost += path.tokens_between(to, from);
  if (work == Work::drop) rest.base = nullptr;
  next.path.restart(to);
  next.steps_since = on_its_way ? outstanding->steps : 0;
  next.tokens_since = on_its_way ? outstanding->tokens : 0;
  return rest;
}

std::uint64_t FragmentState::newest_serial(SiteId site) const {
  const auto found = std::ranges::find(newest, site, &store::OfferRecord::site);
  return found == newest.end() ? 0 : found->serial;
}

std::optional<Digest> FragmentState::digest_at(Version wanted) const {
  const auto found = std::ranges::lower_bound(history, wanted, {}, [](const auto& entry) { return entry.first; });
  if (found == history.end() || found->first != wanted) return std::nullopt;
  return found->second;
}

void FragmentState::remember() {
  remember(digest_of_anchor(*anchor, *momentum));
}

void FragmentState::remember(const Digest& of_anchor) {
  digest = of_anchor;
  history.emplace_back(version, digest);
  // Version 0 stays: every site starts there, so a newcomer is always known as an ancestor.
  if (history.size() > remembered_versions) history.erase(history.begin() + 1);
}

std::vector<store::FragmentStatus> FragmentState::recent_line() const {
  std::vector<store::FragmentStatus> line;
  for (auto at = history.size() - std::min(history.size(), sent_versions); at < history.size(); ++at)
    line.push_back({history[at].first, history[at].second, 0, 0, {}});
  return line;
}

void FragmentState::take_line(const std::vector<store::FragmentStatus>& line) {
  std::vector<VersionDigest> known;
  const auto on_it = [&](const auto& entry) { return digest_at(entry.version) == entry.anchor; };
  // Below a version that both know, our own history is that of the line, too.
  if (const auto shared = std::ranges::find_if(line, on_it); shared != line.end())
    std::ranges::copy_if(history, std::back_inserter(known), [&](const auto& h) { return h.first < shared->version; });
  if (known.empty()) known.push_back(history.front());
  for (const auto& entry : line)
    if (entry.version > known.back().first && entry.version < version) known.emplace_back(entry.version, entry.anchor);
  history = std::move(known);
  remember();
}

void FragmentState::note_offers(const std::vector<store::OfferRecord>& offers) {
  for (const auto& offer : offers) {
    const auto place = std::ranges::lower_bound(newest, offer.site, {}, &store::OfferRecord::site);
    if (place != newest.end() && place->site == offer.site)
      *place = offer;
    else
      newest.insert(place, offer);
  }
}

}  // namespace Atoll::federation
