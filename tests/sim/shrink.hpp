#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "world.hpp"

namespace Atoll::federation::sim {

/// A part of a seed's schedule, and how it fails.
struct Failure {
  Reduction reduction;
  std::string problem;  ///< what Broken says
};

/// Runs a part of a seed's schedule; nothing when no invariant breaks.
[[nodiscard]] std::optional<std::string> broken_by(std::uint64_t seed, const Reduction& reduction, Defect defect);

/// What the shrinker may use up.
struct Patience {
  std::size_t runs = 600;
  std::chrono::milliseconds time{30000};
};

/// The smallest part of a failing schedule that still fails in the same way, as far as patience lasts: fewer faults
/// (delta debugging, Zeller and Hildebrandt 2002), then fewer disturbances, fewer sites, an earlier end of the faults.
[[nodiscard]] Failure shrink(std::uint64_t seed, Failure whole, Defect defect, const Patience& patience = {});

/// The failure as lines for a reader, and the options that repeat it.
[[nodiscard]] std::string text_of(std::uint64_t seed, const Failure& failure, Defect defect);

}  // namespace Atoll::federation::sim
