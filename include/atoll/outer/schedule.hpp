#pragma once

#include <cstdint>

#include "atoll/core/quantities.hpp"

namespace Atoll::outer {

/// When a fragment is offered and when its commit is due, in inner steps (Streaming DiLoCo, Douillard 2025, algorithm
/// 2). Fragment f's rounds end at steps (f + 1) H / P, then every H steps; its offer leaves `overlap` steps earlier.
struct Schedule {
  std::uint64_t inner_steps = 20;  ///< H: inner steps of a round
  std::uint64_t fragments = 1;     ///< P
  std::uint64_t overlap = 0;       ///< tau: inner steps between an offer and its commit; at most H

  /// True when `step` inner steps are done and fragment f is now due for an offer.
  [[nodiscard]] bool offers(FragmentId f, std::uint64_t step) const {
    return step > 0 && ends_round(f, step + overlap);
  }
  /// True when `step` inner steps are done and the commit of f's last offer is now due.
  [[nodiscard]] bool ends_round(FragmentId f, std::uint64_t step) const {
    const std::uint64_t first = (f.value + 1) * inner_steps / fragments;
    return step >= first && (step - first) % inner_steps == 0;
  }
};

/// Inner steps of a site that makes `speed` steps a second where the fastest makes `fastest`, so that all return
/// together (Liu 2024, dynamic local updates): max(1, floor(speed / fastest * inner_steps)), and never more than
/// inner_steps.
/// @pre speed >= 0, fastest > 0
[[nodiscard]] std::uint64_t dynamic_steps(double speed, double fastest, std::uint64_t inner_steps);

/// Learning rate of the inner optimizer: linear warm-up, then cosine decay (Loshchilov and Hutter 2017).
struct CosineSchedule {
  double peak = 1e-3;
  double warmup_tokens = 0;  ///< [tokens of the whole federation]
  double total_tokens = 1;   ///< [tokens of the whole federation]
  double final_share = 0.1;  ///< of the peak, at the end

  /// `tokens`: progress of the federation, so that a site that was away does not repeat its warm-up.
  [[nodiscard]] double at(double tokens) const;
};

}  // namespace Atoll::outer
