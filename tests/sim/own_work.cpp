#include "own_work.hpp"

#include <algorithm>

#include "ledger.hpp"

namespace Atoll::federation::sim {
void OwnWork::step(std::uint32_t number, const std::vector<float>& by) {
  now_.steps.add(number);
  now_.moved.resize(by.size());
  for (std::size_t k = 0; k < by.size(); ++k) now_.moved[k] += by[k];
}

void OwnWork::put(std::uint64_t serial, Mark mark) {
  const auto place = std::ranges::lower_bound(marks_, serial, {}, &std::pair<std::uint64_t, Mark>::first);
  if (place != marks_.end() && place->first == serial)
    place->second = std::move(mark);
  else
    marks_.emplace(place, serial, std::move(mark));
}

void OwnWork::follow(std::uint64_t holds, std::uint64_t begins) {
  const auto begin = std::ranges::find(marks_, begins, &std::pair<std::uint64_t, Mark>::first);
  if (begin == marks_.end()) throw Broken("what is kept begins at an offer that was never made");
  from_ = begin->second;
  put(holds, from_);
}

void OwnWork::restart(std::uint64_t holds) {
  from_ = std::make_shared<const Place>(now_);
  put(holds, from_);
  for (auto& [serial, mark] : marks_) mark = from_;
}

OwnWork::Place OwnWork::rest() const {
  auto rest = now_;
  rest.steps -= from_->steps;
  for (std::size_t k = 0; k < from_->moved.size(); ++k) rest.moved[k] -= from_->moved[k];
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
