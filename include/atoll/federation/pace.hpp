#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "atoll/core/quantities.hpp"

namespace Atoll::federation {

/// Exponential moving average of a duration; the first sample counts whole, a later one is cut at four means: a pause
/// is no slowness.
class MovingAverage {
 public:
  void add(Seconds sample) { mean_ = mean_ ? *mean_ + share * (std::min(sample, 4 * *mean_) - *mean_) : sample; }
  [[nodiscard]] std::optional<Seconds> mean() const noexcept { return mean_; }

 private:
  static constexpr double share = 0.2;  ///< of a new sample
  std::optional<Seconds> mean_;
};

/// Mean time of the own inner steps. Pauses (an evaluation, a checkpoint) hardly count.
class StepClock {
 public:
  /// `steps` inner steps have been made since the last call.
  void stepped(std::uint64_t steps, Seconds now);
  [[nodiscard]] std::optional<Seconds> step() const noexcept { return average_.mean(); }

 private:
  MovingAverage average_;
  std::optional<Seconds> last_;
};

/// What a steward's wait for more offers is made from (Decoupled DiLoCo, 2026, section on the grace window).
struct GraceRule {
  Seconds longest{2.0};       ///< never longer than this
  double slack_share = 0;     ///< gamma: share of the slack that is used; 0: always `longest`
  std::uint64_t overlap = 0;  ///< tau: inner steps that a site makes between its offer and the commit
};

/// gamma (tau step - quorum_wait - transfer), between 0 and rule.longest; what is not known yet counts as 0, and
/// without a step time the window is rule.longest.
[[nodiscard]] Seconds grace_window(const GraceRule& rule, std::optional<Seconds> step,
                                   std::optional<Seconds> quorum_wait, std::optional<Seconds> transfer);

}  // namespace Atoll::federation
