// Merge rules that some faulty offers cannot lead astray.
#include <algorithm>
#include <vector>

#include "atoll/core/error.hpp"
#include "atoll/device/kernel.hpp"
#include "merge_rules.hpp"

namespace Atoll::outer {
namespace {

constexpr std::size_t row_values = 1024;

ATOLL_KERNEL void order(float* lower, float* upper, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float a = lower[i], b = upper[i];
    lower[i] = b < a ? b : a;
    upper[i] = b < a ? a : b;
  }
}

ATOLL_KERNEL void add(float* sum, const float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = sum[i] + values[i];
}

ATOLL_KERNEL void divide(float* values, float divisor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] / divisor;
}

// Rows of the contributors' values, sorted at every place from the first row to the last.
std::vector<std::vector<float>> sorted_rows(const Contributors& from, std::size_t begin, std::size_t count) {
  std::vector<std::vector<float>> rows;
  for (const float* values : from.values) rows.emplace_back(values + begin, values + begin + count);
  for (std::size_t last = rows.size(); last-- > 1;)
    for (std::size_t row = 0; row < last; ++row) order(rows[row].data(), rows[row + 1].data(), count);
  return rows;
}

template <class Body>
void by_rows(std::span<float> merged, const Contributors& from, std::size_t begin, const Body& body) {
  for (std::size_t i = 0; i < merged.size(); i += row_values) {
    const auto part = merged.subspan(i, std::min(row_values, merged.size() - i));
    body(part, sorted_rows(from, begin + i, part.size()));
  }
}

}  // namespace

void merge_trimmed(std::span<float> merged, const Contributors& from, std::size_t begin, std::uint32_t faulty) {
  const auto trimmed = std::min<std::size_t>(faulty, (from.count() - 1) / 2);
  const auto kept = from.count() - 2 * trimmed;
  by_rows(merged, from, begin, [&](std::span<float> part, const auto& rows) {
    std::ranges::copy(rows[trimmed], part.begin());
    for (std::size_t k = 1; k < kept; ++k) add(part.data(), rows[trimmed + k].data(), part.size());
    divide(part.data(), static_cast<float>(kept), part.size());
  });
}

void merge_median(std::span<float> merged, const Contributors& from, std::size_t begin) {
  by_rows(merged, from, begin, [&](std::span<float> part, const auto& rows) {
    std::ranges::copy(rows[(from.count() - 1) / 2], part.begin());
  });
}

std::size_t krum(const Contributors& from, std::uint32_t faulty) {
  const auto n = from.count();
  const std::size_t closest = n > faulty + std::size_t{2} ? n - faulty - 2 : 1;
  std::vector<std::vector<double>> distances(n);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const double distance = square_distance({from.values[a], from.size}, {from.values[b], from.size});
      distances[a].push_back(distance);
      distances[b].push_back(distance);
    }
  std::vector<double> scores(n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    std::ranges::sort(distances[k]);
    for (std::size_t i = 0; i < std::min(closest, distances[k].size()); ++i) scores[k] += distances[k][i];
  }
  return static_cast<std::size_t>(std::ranges::min_element(scores) - scores.begin());
}

}  // namespace Atoll::outer
