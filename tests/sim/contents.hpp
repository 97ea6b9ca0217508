#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace Atoll::federation::sim {

/// How often each inner step (by its number in the simulation) is contained in some values. Values are sums, so what
/// they contain adds up too: whatever the protocol computes with values, the same is computed with their contents.
/// Nearly always a step is in there once or not at all, so this is a set of bits and a list of what is otherwise.
class Contents {
 public:
  void add(std::uint32_t step);
  Contents& operator+=(const Contents& other);
  Contents& operator-=(const Contents& other);
  /// Takes in the steps of `other` that are not in here.
  Contents& unite(const Contents& other);
  /// Takes out every step of `other`.
  Contents& remove(const Contents& other);
  /// Every step is contained once or not at all.
  [[nodiscard]] bool once() const { return odd_.empty(); }
  [[nodiscard]] bool empty() const { return once_.empty() && odd_.empty(); }
  [[nodiscard]] std::uint64_t total() const;
  /// Steps from number `first` on that are in here and not in `other`.
  [[nodiscard]] std::uint64_t beyond(const Contents& other, std::uint32_t first) const;
  [[nodiscard]] std::string text() const;
  bool operator==(const Contents& other) const = default;

 private:
  static constexpr std::uint32_t bits = 64;
  [[nodiscard]] int count(std::uint32_t step) const;
  void combine(const Contents& other, int sign);
  void trim();

  std::vector<std::uint64_t> once_;                 ///< bit s: step s is in here once; no zero word at the end
  std::vector<std::pair<std::uint32_t, int>> odd_;  ///< by step: counts that are neither 0 nor 1
};

}  // namespace Atoll::federation::sim
