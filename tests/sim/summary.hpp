#pragma once

#include <cstdint>
#include <string>

#include "world.hpp"

namespace Atoll::federation::sim {

/// What many runs came to. Only numbers: it is sent between processes as it is.
struct Summary {
  std::uint64_t runs = 0, failures = 0;
  Counts sum;
  std::array<std::uint64_t, 17> runs_with_sites{};
  double slowest_seconds = 0, slowest_rounds = 0;
  std::uint64_t slowest_seed = 0, most_rounds_seed = 0;

  void add(const Plan& plan, const Counts& counts);
  Summary& operator+=(const Summary& other);
  [[nodiscard]] std::string table(double seconds) const;
};

}  // namespace Atoll::federation::sim
