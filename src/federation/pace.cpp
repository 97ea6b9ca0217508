#include "atoll/federation/pace.hpp"

#include <algorithm>

namespace Atoll::federation {

void StepClock::stepped(std::uint64_t steps, Seconds now) {
  if (last_ && steps > 0 && now > *last_) average_.add((now - *last_) / static_cast<double>(steps));
  last_ = now;
}

Seconds grace_window(const GraceRule& rule, std::optional<Seconds> step, std::optional<Seconds> quorum_wait,
                     std::optional<Seconds> transfer) {
  if (rule.slack_share <= 0 || !step) return rule.longest;
  constexpr Seconds none{0};
  const auto slack = static_cast<double>(rule.overlap) * *step - quorum_wait.value_or(none) - transfer.value_or(none);
  return std::clamp(rule.slack_share * slack, none, rule.longest);
}

}  // namespace Atoll::federation
