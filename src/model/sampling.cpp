#include "sampling.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace Atoll::model {

std::int32_t draw(std::span<const float> logits, double temperature, std::mt19937_64& random) {
  const auto largest = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<std::int32_t>(largest - logits.begin());

  std::vector<double> cumulative;
  double sum = 0;
  for (const float logit : logits) cumulative.push_back(sum += std::exp((logit - *largest) / temperature));
  const double place = std::ldexp(static_cast<double>(random() >> 11), -53) * sum;  // [0, sum)
  const auto chosen = std::ranges::upper_bound(cumulative, place) - cumulative.begin();
  return static_cast<std::int32_t>(std::min<std::ptrdiff_t>(chosen, std::ssize(logits) - 1));
}

}  // namespace Atoll::model
