#include "own_work.hpp"

namespace Atoll::federation::sim {
void OwnWork::step(std::uint32_t number, const std::vector<float>& by) {
  now_.steps.add(number);
  now_.moved.resize(by.size());
  for (std::size_t k = 0; k < by.size(); ++k) now_.moved[k] += by[k];
}

void OwnWork::follow(std::uint64_t holds, std::uint64_t begins) {
  from_ = marks_.at(begins);
  marks_[holds] = from_;
}

void OwnWork::restart(std::uint64_t holds) {
  from_ = now_;
  marks_.try_emplace(holds);
  for (auto& [serial, place] : marks_) place = now_;
}

OwnWork::Place OwnWork::rest() const {
  auto rest = now_;
  rest.steps -= from_.steps;
  for (std::size_t k = 0; k < from_.moved.size(); ++k) rest.moved[k] -= from_.moved[k];
  return rest;
}

std::uint64_t OwnWork::newly_lost(const Contents& anchor, const Contents& on_its_way, std::uint32_t first) {
  auto held = anchor;
  held.unite(rest().steps);
  held.unite(on_its_way);
  auto lost = now_.steps;
  lost.remove(held);
  const auto fresh = lost.beyond(lost_, first);
  lost_.unite(lost);
  return fresh;
}

}  // namespace Atoll::federation::sim
