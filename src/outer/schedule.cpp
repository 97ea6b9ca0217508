#include "atoll/outer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace Atoll::outer {

std::uint64_t dynamic_steps(double speed, double fastest, std::uint64_t inner_steps) {
  const double share = std::min(speed / fastest, 1.0);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share * static_cast<double>(inner_steps)));
}

double CosineSchedule::at(double tokens) const {
  if (tokens < warmup_tokens) return peak * (tokens + 1) / (warmup_tokens + 1);
  const double decay_tokens = std::max(1.0, total_tokens - warmup_tokens);
  const double share = std::clamp((tokens - warmup_tokens) / decay_tokens, 0.0, 1.0);
  return peak * (final_share + (1 - final_share) * 0.5 * (1 + std::cos(std::numbers::pi * share)));
}

}  // namespace Atoll::outer
