#include "contents.hpp"

#include <algorithm>
#include <bit>
#include <format>

namespace Atoll::federation::sim {

void Contents::add(std::uint32_t step) {
  if (once_.size() <= step / bits) once_.resize(step / bits + 1, 0);
  once_[step / bits] |= std::uint64_t{1} << (step % bits);
}

Contents& Contents::operator+=(const Contents& other) {
  bool plain = odd_.empty() && other.odd_.empty();
  for (std::size_t i = 0; plain && i < std::min(once_.size(), other.once_.size()); ++i)
    plain = (once_[i] & other.once_[i]) == 0;
  if (plain)
    unite(other);
  else
    combine(other, 1);
  return *this;
}

Contents& Contents::operator-=(const Contents& other) {
  bool plain = odd_.empty() && other.odd_.empty() && other.once_.size() <= once_.size();
  for (std::size_t i = 0; plain && i < other.once_.size(); ++i) plain = (other.once_[i] & ~once_[i]) == 0;
  if (plain)
    remove(other);
  else
    combine(other, -1);
  return *this;
}

Contents& Contents::unite(const Contents& other) {
  if (once_.size() < other.once_.size()) once_.resize(other.once_.size(), 0);
  for (std::size_t i = 0; i < other.once_.size(); ++i) once_[i] |= other.once_[i];
  return *this;
}

Contents& Contents::remove(const Contents& other) {
  for (std::size_t i = 0; i < std::min(once_.size(), other.once_.size()); ++i) once_[i] &= ~other.once_[i];
  trim();
  return *this;
}

int Contents::count(std::uint32_t step) const {
  for (const auto& [at, count] : odd_)
    if (at == step) return count;
  return step / bits < once_.size() ? static_cast<int>((once_[step / bits] >> (step % bits)) & 1) : 0;
}

// The slow way, for what should not happen or at least not last.
void Contents::combine(const Contents& other, int sign) {
  auto steps = std::max(once_.size(), other.once_.size()) * bits;
  for (const auto* of : {static_cast<const Contents*>(this), &other})
    for (const auto& [step, count] : of->odd_) steps = std::max(steps, std::size_t{step} + 1);
  Contents sum;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const int there = count(step) + sign * other.count(step);
    if (there == 1)
      sum.add(step);
    else if (there != 0)
      sum.odd_.emplace_back(step, there);
  }
  *this = std::move(sum);
}

void Contents::trim() {
  while (!once_.empty() && once_.back() == 0) once_.pop_back();
}

std::uint64_t Contents::total() const {
  std::uint64_t sum = 0;
  for (const auto word : once_) sum += static_cast<std::uint64_t>(std::popcount(word));
  for (const auto& [step, count] : odd_) sum += static_cast<std::uint64_t>(std::max(count, 0));
  return sum;
}

std::uint64_t Contents::beyond(const Contents& other, std::uint32_t first) const {
  std::uint64_t sum = 0;
  for (std::size_t i = first / bits; i < once_.size(); ++i) {
    auto word = once_[i];
    if (i < other.once_.size()) word &= ~other.once_[i];
    if (i == first / bits) word &= ~std::uint64_t{0} << (first % bits);
    sum += static_cast<std::uint64_t>(std::popcount(word));
  }
  return sum;
}

std::string Contents::text() const {
  std::string text;
  for (const auto& [step, count] : odd_) text += std::format(" step {} x {}", step, count);
  return text;
}

}  // namespace Atoll::federation::sim
