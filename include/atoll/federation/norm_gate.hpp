#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "atoll/store/letter.hpp"

namespace Atoll::federation {

/// Keeps offers out whose norm is far beyond what was merged lately. Local; one thread at a time.
class NormGate {
 public:
  /// Notes the L2 norm of a commit's merged gradient.
  void merged(double norm, const std::vector<store::OfferRecord>& offers);
  /// False when `norm` is more than `factor` times the running median of merged norms, or of that in proportion to the
  /// steps when the offer holds more steps than usual (a site that was cut off comes back with much). Always true with
  /// factor 0, and as long as fewer than eight commits are known.
  [[nodiscard]] bool allows(double norm, std::uint64_t steps, double factor) const;

 private:
  struct Sample {
    double norm, steps;  ///< mean inner steps of the offers
  };
  std::deque<Sample> samples_;  ///< of the latest commits
};

}  // namespace Atoll::federation
