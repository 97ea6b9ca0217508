#include "atoll/outer/merge.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "atoll/core/error.hpp"
#include "atoll/device/session.hpp"
#include "merge_rules.hpp"

namespace Atoll::outer {
namespace {

Contributors contributors(std::span<const std::span<const float>> gradients, std::span<const float> weights) {
  ATOLL_EXPECT(!gradients.empty() && gradients.size() == weights.size(), "one weight per gradient");
  Contributors found;
  found.size = gradients.front().size();
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    ATOLL_EXPECT(gradients[g].size() == found.size && weights[g] >= 0, "gradient " + std::to_string(g));
    if (weights[g] == 0) continue;
    found.values.push_back(gradients[g].data());
    found.weights.push_back(weights[g]);
  }
  ATOLL_EXPECT(found.count() > 0, "no weight is positive");
  found.squares.resize(found.count(), 0.0);
  return found;
}

using MergeRange = std::function<void(std::span<float> merged, std::size_t begin)>;

// `rule` makes a value from values of the same place only: small blocks stay in the cache until the sink is done.
void by_blocks(std::size_t begin, std::size_t end, const MergeRange& rule, const Merger::Sink& sink) {
  std::vector<float> block(std::min(end - begin, Merger::largest_block));
  for (; begin < end; begin += block.size()) {
    const auto merged = std::span(block).first(std::min(block.size(), end - begin));
    rule(merged, begin);
    sink(merged);
  }
}

void in_blocks(std::span<const float> merged, Contributors& from, const Merger::Sink& sink) {
  from.merged_squares += square_sum(merged);
  for (std::size_t i = 0; i < merged.size(); i += Merger::largest_block)
    sink(merged.subspan(i, std::min(Merger::largest_block, merged.size() - i)));
}

void mean_blocks(std::size_t begin, std::size_t end, Contributors& from, const Merger::Sink& sink) {
  by_blocks(
      begin, end, [&](std::span<float> mean, std::size_t at) { mean_and_squares(mean, from, at); }, sink);
}

void radial_blocks(Contributors& from, std::span<const Segment> segments, const Merger::Sink& sink) {
  std::vector<float> matrix;
  std::size_t done = 0;
  for (const auto& segment : segments) {
    if (segment.kind != TensorKind::matrix || segment.count == 0) continue;
    ATOLL_EXPECT(segment.offset >= done && segment.offset + segment.count <= from.size, "segments out of order");
    mean_blocks(done, segment.offset, from, sink);
    matrix.resize(segment.count);
    merge_radial(matrix, from, segment.offset, sink);
    done = segment.offset + segment.count;
  }
  mean_blocks(done, from.size, from, sink);
}

void robust_blocks(const Merger& merger, Contributors& from, const Merger::Sink& sink) {
  for (std::size_t k = 0; k < from.count(); ++k) from.squares[k] = square_sum({from.values[k], from.size});
  if (merger.rule == MergeRule::krum) return in_blocks({from.values[krum(from, merger.faulty)], from.size}, from, sink);
  const auto rule = [&](std::span<float> merged, std::size_t begin) {
    if (merger.rule == MergeRule::median)
      merge_median(merged, from, begin);
    else
      merge_trimmed(merged, from, begin, merger.faulty);
    from.merged_squares += square_sum(merged);
  };
  by_blocks(0, from.size, rule, sink);
}

}  // namespace

double offer_weight(WeightRule rule, std::uint64_t tokens, std::uint64_t steps) {
  if (tokens == 0) return 0;
  const auto n = static_cast<double>(tokens);
  switch (rule) {
    case WeightRule::equal:
      return 1;
    case WeightRule::tokens:
      return n;
    case WeightRule::tokens_per_step:
      return n * n / static_cast<double>(std::max<std::uint64_t>(steps, 1));
  }
  return 0;
}

std::vector<float> normalised(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  ATOLL_EXPECT(sum > 0, "no weight is positive");
  std::vector<float> shares(weights.size());
  std::ranges::transform(weights, shares.begin(), [sum](double weight) { return static_cast<float>(weight / sum); });
  return shares;
}

std::vector<float> weighted_mean(std::span<const std::span<const float>> gradients, std::span<const float> weights) {
  const auto from = contributors(gradients, weights);
  std::vector<float> mean(from.size);
  device::for_blocks(mean.size(), [&](std::size_t begin, std::size_t end) {
    merge_mean(std::span(mean).subspan(begin, end - begin), from, begin);
  });
  return mean;
}

std::vector<float> Merger::merge(std::span<const std::span<const float>> gradients, std::span<const float> weights,
                                 std::span<const Segment> segments) const {
  std::vector<float> merged;
  merged.reserve(gradients.empty() ? 0 : gradients.front().size());
  merge_blocks(gradients, weights, segments,
               [&](std::span<const float> block) { merged.insert(merged.end(), block.begin(), block.end()); });
  return merged;
}

MergeNorms Merger::merge_blocks(std::span<const std::span<const float>> gradients, std::span<const float> weights,
                                std::span<const Segment> segments, const Sink& sink) const {
  auto from = contributors(gradients, weights);
  if (rule == MergeRule::mean || (rule == MergeRule::radial_directional && from.count() == 1))
    mean_blocks(0, from.size, from, sink);
  else if (rule == MergeRule::radial_directional)
    radial_blocks(from, segments, sink);
  else
    robust_blocks(*this, from, sink);
  MergeNorms norms{std::sqrt(from.merged_squares), std::vector<double>(gradients.size(), 0.0)};
  std::size_t k = 0;
  for (std::size_t g = 0; g < gradients.size(); ++g)
    if (weights[g] != 0) norms.gradients[g] = std::sqrt(from.squares[k++]);
  return norms;
}

}  // namespace Atoll::outer
