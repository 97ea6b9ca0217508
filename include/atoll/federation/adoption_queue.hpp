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
/// Douillard 2025, algorithm 2), however fast the link was: what a site computes then does not depend on it, but where
/// all() is called before. A later one is taken up when it comes, and so is one that holds nothing new of this site.
/// The order within a fragment stays. Local; one thread at a time.
class AdoptionQueue {
 public:
  AdoptionQueue(std::size_t fragments, std::uint64_t overlap) : lines_(fragments), overlap_(overlap) {}

  /// The offer with this serial was taken after `step` inner steps.
  void offered(FragmentId f, std::uint64_t step, std::uint64_t serial) { lines_.at(f.value).offer = {step, serial}; }
  void add(Adoption adoption);
  /// What is to be taken up after `step` inner steps, in order.
  [[nodiscard]] std::vector<Adoption> due(std::uint64_t step);
  /// All that waits of one fragment, due or not: before its next offer, and before a checkpoint.
  [[nodiscard]] std::vector<Adoption> all(FragmentId f);

 private:
  struct Offer {
    std::uint64_t step, serial;
  };
  struct Waiting {
    Adoption adoption;
    std::uint64_t due_at = 0;  ///< and not before what stands in front of it
  };
  struct Line {
    std::deque<Waiting> waiting;
    std::optional<Offer> offer;  ///< none: nothing is on its way
  };

  std::vector<Line> lines_;
  std::uint64_t overlap_;
};

}  // namespace Atoll::federation
