#include "atoll/federation/adoption_queue.hpp"

#include <iterator>
#include <utility>

namespace Atoll::federation {

void AdoptionQueue::add(Adoption adoption) {
  auto& line = lines_.at(adoption.fragment.value);
  const bool answers = !adoption.is_start && adoption.base && line.offered_at && adoption.holds > line.holds;
  if (answers) line.due_at = *std::exchange(line.offered_at, std::nullopt) + overlap_;
  line.holds = std::max(line.holds, adoption.holds);
  line.waiting.push_back(std::move(adoption));
}

std::vector<Adoption> AdoptionQueue::due(std::uint64_t step) {
  std::vector<Adoption> due;
  for (std::uint32_t f = 0; f < lines_.size(); ++f) {
    if (lines_[f].due_at && step < *lines_[f].due_at) continue;
    auto ready = all({f});
    due.insert(due.end(), std::move_iterator(ready.begin()), std::move_iterator(ready.end()));
  }
  return due;
}

std::vector<Adoption> AdoptionQueue::all(FragmentId f) {
  auto& line = lines_.at(f.value);
  line.due_at.reset();
  auto waiting = std::exchange(line.waiting, {});
  return {std::move_iterator(waiting.begin()), std::move_iterator(waiting.end())};
}

}  // namespace Atoll::federation
