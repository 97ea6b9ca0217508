#pragma once

#include <cstdint>

namespace Atoll::federation::sim {

/// Random numbers that are the same on every machine (splitmix64): one seed, one sequence.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  /// Dice of their own for each purpose and index of a seed.
  static Dice of(std::uint64_t seed, std::uint64_t purpose, std::uint64_t index) {
    Dice mixed(seed * 0x2545f4914f6cdd1dU + purpose);
    return Dice(mixed.next() + index * 0xd1342543de82ef95U);
  }

  std::uint64_t next() {
    auto z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// One of first, ..., last.
  std::uint64_t whole(std::uint64_t first, std::uint64_t last) { return first + next() % (last - first + 1); }
  double real(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double probability) { return real(0, 1) < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace Atoll::federation::sim
