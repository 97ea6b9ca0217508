#include "atoll/federation/norm_gate.hpp"

#include <algorithm>
#include <vector>

namespace Atoll::federation {
namespace {

constexpr std::size_t remembered = 31, needed = 8;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void NormGate::merged(double norm, const std::vector<store::OfferRecord>& offers) {
  double steps = 0;
  for (const auto& offer : offers) steps += static_cast<double>(offer.steps);
  samples_.push_back({norm, steps / std::max<double>(1, static_cast<double>(offers.size()))});
  if (samples_.size() > remembered) samples_.pop_front();
}

bool NormGate::allows(double norm, std::uint64_t steps, double factor) const {
  if (factor <= 0 || samples_.size() < needed) return true;
  std::vector<double> norms, counts;
  for (const auto& sample : samples_) {
    norms.push_back(sample.norm);
    counts.push_back(sample.steps);
  }
  const double longer = std::max(1.0, static_cast<double>(steps) / std::max(1.0, median(counts)));
  return norm <= factor * longer * median(norms);
}

}  // namespace Atoll::federation
