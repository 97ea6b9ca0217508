#include "atoll/federation/fragment_state.hpp"

#include <algorithm>

#include "atoll/outer/outer_optimizer.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::federation {
namespace {

constexpr std::size_t remembered_versions = 256;

store::Values shared(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

}  // namespace

FragmentState FragmentState::initial(std::vector<float> anchor) {
  FragmentState state;
  state.momentum = shared(std::vector<float>(anchor.size(), 0.0F));
  state.anchor = shared(std::move(anchor));
  state.remember();
  return state;
}

FragmentState FragmentState::advanced(std::span<const float> merged, const std::vector<store::OfferRecord>& offers,
                                      float learning_rate, float momentum_factor) const {
  FragmentState next = *this;
  auto new_anchor = *anchor;
  auto new_momentum = *momentum;
  outer::nesterov_step(new_anchor, new_momentum, merged, learning_rate, momentum_factor);
  next.anchor = shared(std::move(new_anchor));
  next.momentum = shared(std::move(new_momentum));
  next.version = version + 1;
  for (const auto& offer : offers) next.tokens_merged += offer.tokens;
  next.note_offers(offers);
  next.remember();
  return next;
}

std::uint64_t FragmentState::newest_serial(SiteId site) const {
  const auto found = std::ranges::find(newest, site, &store::OfferRecord::site);
  return found == newest.end() ? 0 : found->serial;
}

std::optional<Digest> FragmentState::digest_at(Version wanted) const {
  const auto found = std::ranges::find(history, wanted, [](const auto& entry) { return entry.first; });
  if (found == history.end()) return std::nullopt;
  return found->second;
}

void FragmentState::remember() {
  digest = store::digest_of_values({*anchor, *momentum});
  history.emplace_back(version, digest);
  // Version 0 stays: every site starts there, so a newcomer is always known as an ancestor.
  if (history.size() > remembered_versions) history.erase(history.begin() + 1);
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
