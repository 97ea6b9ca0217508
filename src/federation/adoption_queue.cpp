#include "atoll/federation/adoption_queue.hpp"

#include <utility>

namespace Atoll::federation {

void AdoptionQueue::add(Adoption adoption) {
  auto& line = lines_.at(adoption.fragment.value);
  const bool answers = !adoption.is_start && adoption.base && line.offer && adoption.holds >= line.offer->serial;
  const auto due_at = answers ? std::exchange(line.offer, std::nullopt)->step + overlap_ : 0;
  line.waiting.push_back({std::move(adoption), due_at});
}

std::vector<Adoption> AdoptionQueue::due(std::uint64_t step) {
  std::vector<Adoption> due;
  for (auto& line : lines_)
    for (; !line.waiting.empty() && line.waiting.front().due_at <= step; line.waiting.pop_front())
      due.push_back(std::move(line.waiting.front().adoption));
  return due;
}

std::vector<Adoption> AdoptionQueue::all(FragmentId f) {
  std::vector<Adoption> all;
  for (auto& entry : std::exchange(lines_.at(f.value).waiting, {})) all.push_back(std::move(entry.adoption));
  return all;
}

}  // namespace Atoll::federation
