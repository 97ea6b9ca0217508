#pragma once

#include <memory>
#include <span>
#include <vector>

#include "atoll/core/quantities.hpp"
#include "atoll/outer/merge.hpp"
#include "atoll/outer/outer_optimizer.hpp"
#include "atoll/store/letter.hpp"  // Values

namespace Atoll::federation {

/// What an outer step starts from.
struct AnchorView {
  std::span<const float> anchor;
  std::span<const float> state;  ///< [slots * anchor.size()], slot after slot
  Version version = 0;
};

/// What an outer step leads to.
struct NextAnchor {
  store::Values merged;  ///< the merged pseudo-gradient that the step was made of; null from step()
  store::Values anchor;
  store::Values state;
  Digest digest;              ///< digest_of_anchor(anchor, state)
  bool finite = true;         ///< all of the above are
  double merged_norm = 0;     ///< L2, fp64
  std::vector<double> norms;  ///< of each gradient given to merge(), L2, fp64; not finite when a value is not
};

/// Digest of an anchor and the outer optimizer's state: an array for the anchor and one for each slot.
[[nodiscard]] Digest digest_of_anchor(std::span<const float> anchor, std::span<const float> state);

class SpareValues;

/// The arithmetic of one round of one fragment: merge, outer step, digest, in one pass over memory, block after block.
///
/// It equals Merger::merge, OuterOptimizer::step and digest_of_anchor one after the other, to the bit. The memory of
/// its results comes back to it when their last owner lets go, from any thread, and is used again: new memory of the
/// system would cost more than all the arithmetic. Results may outlive the OuterRound. Local; one thread at a time.
class OuterRound {
 public:
  OuterRound(outer::Merger merger, outer::OuterOptimizer optimizer);

  /// The steward: from offers to the next anchor. The norms come for nothing, so a steward may gate with them
  /// afterwards and merge again without an offer that fails.
  /// @pre as for Merger::merge and OuterOptimizer::step
  [[nodiscard]] NextAnchor merge(std::span<const std::span<const float>> gradients, std::span<const float> shares,
                                 std::span<const outer::Segment> segments, AnchorView from) const;

  /// Every other site: the same step with the merged gradient of a commit.
  [[nodiscard]] NextAnchor step(std::span<const float> merged, AnchorView from) const;

 private:
  outer::Merger merger_;
  outer::OuterOptimizer optimizer_;
  std::shared_ptr<SpareValues> spare_;
};

}  // namespace Atoll::federation
