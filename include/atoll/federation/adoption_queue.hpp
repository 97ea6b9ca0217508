#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "atoll/federation/protocol.hpp"

namespace Atoll::federation {

/// Adoptions that wait for their inner step.
///
/// A commit that answers an own offer is taken up exactly `overlap` inner steps after the offer (Streaming DiLoCo,
/// Douillard 2025, algorithm 2), however fast the link was: what a site computes then does not depend on it. A later
/// one is taken up when it comes, and so is one that holds nothing new of this site. The order within a fragment stays.
/// Local; one thread at a time.
class AdoptionQueue {
 public:
  AdoptionQueue(std::size_t fragments, std::uint64_t overlap) : lines_(fragments), overlap_(overlap) {}

  /// An offer of the fragment was taken after `step` inner steps.
  void offered(FragmentId f, std::uint64_t step) { lines_.at(f.value).offered_at = step; }
  void add(Adoption adoption);
  /// What is to be taken up after `step` inner steps, in order.
  [[nodiscard]] std::vector<Adoption> due(std::uint64_t step);
  /// All that waits of one fragment: before its next offer.
  [[nodiscard]] std::vector<Adoption> all(FragmentId f);

 private:
  struct Line {
    std::deque<Adoption> waiting;
    std::optional<std::uint64_t> offered_at;  ///< none: nothing is on its way
    std::uint64_t holds = 0;                  ///< newest own serial in what was added last
    std::optional<std::uint64_t> due_at;      ///< of all that waits
  };

  std::vector<Line> lines_;
  std::uint64_t overlap_;
};

}  // namespace Atoll::federation
