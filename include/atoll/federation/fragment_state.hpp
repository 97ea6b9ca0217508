#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/outer_round.hpp"
#include "atoll/federation/own_path.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::federation {

/// This site's offer that no commit has answered yet. What was offered never changes: it is sent again as it is.
struct OutstandingOffer {
  std::uint64_t serial = 0;
  Version base = 0;
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::uint64_t work_steps = 0;  ///< inner steps that it holds, also those that do not count in `steps`
  store::Values gradient;    ///< anchor - parameters, when the offer was taken
  store::Values parameters;  ///< the site's parameters then, moved along with every anchor that came since
  store::Values start;       ///< what the site went on from: `parameters`, or what they were replaced by
  SiteId sent_to;
  Incarnation sent_to_incarnation = 0;
  Seconds sent_at{};
};

/// So much of its history a snapshot carries.
inline constexpr std::size_t sent_versions = 64;

using VersionDigest = std::pair<Version, Digest>;

/// Where a site stands with one fragment: what all sites share, and below it what is the site's own.
struct FragmentState {
  Version version = 0;
  store::Values anchor;
  store::Values momentum;                  ///< the outer optimizer's state: its slots, one after the other
  Digest digest;                           ///< of anchor and momentum
  std::uint64_t tokens_merged = 0;         ///< since version 0
  std::vector<store::OfferRecord> newest;  ///< newest merged offer of each site, ordered by site
  std::vector<VersionDigest> history;      ///< version 0 and the latest ones, ordered by version

  std::uint64_t steps_since = 0;   ///< inner steps that the next offer counts
  std::uint64_t tokens_since = 0;  ///< tokens that the next offer counts
  std::optional<OutstandingOffer> outstanding;
  OwnPath path;  ///< the site's own work, and what of it lines of commits hold

  /// Version 0: the common initialisation, the outer optimizer's state zero. @param slots  of the OuterOptimizer
  [[nodiscard]] static FragmentState initial(std::vector<float> anchor, std::size_t slots = 1);

  /// The state after the outer step that made `made`; the site's own part is copied unchanged.
  [[nodiscard]] FragmentState advanced(const NextAnchor& made, const std::vector<store::OfferRecord>& offers) const;
  /// The state that a snapshot stands for; the site's own part is copied unchanged. The digest is computed anew: the
  /// caller compares it with the one that the snapshot claims.
  [[nodiscard]] FragmentState taken_over(const store::Letter& snapshot) const;
  [[nodiscard]] AnchorView view() const { return {*anchor, *momentum, version}; }

  /// Takes an offer of all own work that the anchor does not hold.
  void take_offer(SiteId self, std::uint64_t serial, store::Values parameters, std::vector<float> gradient);

  /// What becomes of the site's own work when its parameters go over to another anchor.
  enum class Work {
    keep,       ///< moves along with the anchor
    overwrite,  ///< gives way to the anchor; an offer on its way may still be merged
    drop,       ///< is worth nothing
  };
  /// Whether the outstanding offer may still be merged on the line of the next state.
  enum class Pending { no, yes };
  /// Gives the own part of `self` over to `next`, in which the own part is not set yet. The result says what the
  /// parameters are measured from.
  [[nodiscard]] OwnPath::Rest hand_over(FragmentState& next, SiteId self, Pending pending, Work work) const;

  /// Serial of the newest merged offer of `site`, 0 for none.
  [[nodiscard]] std::uint64_t newest_serial(SiteId site) const;
  /// Digest at `version` as far as history remembers.
  [[nodiscard]] std::optional<Digest> digest_at(Version version) const;
  [[nodiscard]] store::FragmentStatus status() const { return {version, digest, tokens_merged, 0, {}}; }

  /// Recomputes the digest and notes it in the history.
  void remember();
  void remember(const Digest& of_anchor);
  /// The newest part of the history, as a snapshot carries it.
  [[nodiscard]] std::vector<store::FragmentStatus> recent_line() const;
  /// Recomputes the digest; the history becomes that of a snapshot. What we know of its line ourselves stays.
  void take_line(const std::vector<store::FragmentStatus>& line);
  /// Notes merged offers as the newest of their sites.
  void note_offers(const std::vector<store::OfferRecord>& offers);
};

}  // namespace Atoll::federation
