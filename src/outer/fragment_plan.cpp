#include "atoll/outer/fragment_plan.hpp"

#include <algorithm>
#include <numeric>

#include "atoll/core/error.hpp"

namespace Atoll::outer {
namespace {

using Unit = std::vector<TensorRange>;

// Values of tensors or ranges.
template <class Parts>
std::size_t size_of(const Parts& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                         [](auto sum, const auto& part) { return sum + part.count; });
}

// Tensors of one layer stay together: a layer is the unit, and so is a tensor that belongs to none.
std::vector<Unit> units_of(const std::vector<TensorRange>& tensors) {
  std::vector<Unit> units;
  int layer = -1;
  for (const auto& tensor : tensors) {
    if (tensor.layer < 0 || tensor.layer != layer) units.emplace_back();
    layer = tensor.layer;
    units.back().push_back(tensor);
  }
  return units;
}

std::vector<std::size_t> balanced_owners(const std::vector<Unit>& units, std::size_t fragments) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](auto a, auto b) { return size_of(units[a]) > size_of(units[b]); });
  std::vector<std::size_t> owners(units.size()), filled(fragments, 0);
  for (const auto unit : order) {
    const auto smallest = std::ranges::min_element(filled);
    owners[unit] = static_cast<std::size_t>(smallest - filled.begin());
    *smallest += size_of(units[unit]);
  }
  return owners;
}

std::vector<std::size_t> owners_of(const std::vector<Unit>& units, std::size_t fragments, Fragmentation fragmentation) {
  if (fragmentation == Fragmentation::balanced) return balanced_owners(units, fragments);
  std::vector<std::size_t> owners(units.size());
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    owners[unit] = fragmentation == Fragmentation::strided ? unit % fragments : unit * fragments / units.size();
  return owners;
}

void append(std::vector<Range>& ranges, const Unit& unit) {
  for (const auto& tensor : unit) {
    if (!ranges.empty() && ranges.back().offset + ranges.back().count == tensor.offset)
      ranges.back().count += tensor.count;
    else
      ranges.push_back({tensor.offset, tensor.count});
  }
}

void append(std::vector<Segment>& segments, const Unit& unit) {
  for (const auto& tensor : unit) {
    const auto offset = segments.empty() ? 0 : segments.back().offset + segments.back().count;
    segments.push_back({offset, tensor.count, tensor.kind});
  }
}

}  // namespace

FragmentPlan::FragmentPlan(const std::vector<TensorRange>& tensors, std::size_t fragments,
                           Fragmentation fragmentation) {
  const auto units = units_of(tensors);
  if (fragments == 0 || fragments > units.size())
    throw ConfigError("cannot cut the model into " + std::to_string(fragments) + " fragments",
                      "it has " + std::to_string(units.size()) + " units: its layers, embeddings and final norm",
                      "set outer.fragments between 1 and " + std::to_string(units.size()));
  const auto owners = owners_of(units, fragments, fragmentation);
  ranges_.resize(fragments);
  segments_.resize(fragments);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    append(ranges_[owners[unit]], units[unit]);
    append(segments_[owners[unit]], units[unit]);
  }
  for (const auto& ranges : ranges_) sizes_.push_back(size_of(ranges));
}

std::vector<float> FragmentPlan::gather(std::span<const float> flat, FragmentId fragment) const {
  std::vector<float> values;
  values.reserve(size(fragment));
  for (const auto& [offset, count] : ranges(fragment)) {
    const auto part = flat.subspan(offset, count);
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

void FragmentPlan::scatter(std::span<const float> values, FragmentId fragment, std::span<float> flat) const {
  ATOLL_EXPECT(values.size() == size(fragment), std::to_string(values.size()) + " values");
  for (const auto& [offset, count] : ranges(fragment)) {
    std::ranges::copy(values.first(count), flat.subspan(offset, count).begin());
    values = values.subspan(count);
  }
}

}  // namespace Atoll::outer
