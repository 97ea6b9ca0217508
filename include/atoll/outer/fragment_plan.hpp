#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "atoll/core/quantities.hpp"

namespace Atoll::outer {

/// What a parameter tensor is to a merge: only matrices that map a layer's values have a direction as a whole.
enum class TensorKind {
  vector,     ///< biases and norms
  embedding,  ///< a table of rows, of which a batch touches few
  matrix,
};

/// One parameter tensor in the flat parameter vector.
struct TensorRange {
  std::size_t offset = 0;  ///< [values]
  std::size_t count = 0;   ///< [values]
  int layer = -1;          ///< transformer layer, or -1 when it belongs to none
  TensorKind kind = TensorKind::vector;
};

/// One tensor's values inside a fragment.
struct Segment {
  std::size_t offset = 0;  ///< among the fragment's gathered values
  std::size_t count = 0;   ///< [values]
  TensorKind kind = TensorKind::vector;
  bool operator==(const Segment&) const = default;
};

/// How whole units (a layer, or a tensor that belongs to none) are dealt to fragments.
enum class Fragmentation {
  strided,     ///< unit i goes to fragment i mod P (Douillard 2025, section 2.3)
  sequential,  ///< equal numbers of consecutive units
  balanced,    ///< largest first, each to the fragment with the fewest values so far (Decoupled DiLoCo)
};

/// Consecutive values of the flat parameter vector.
struct Range {
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const Range&) const = default;
};

/// The partition of the model into fragments; equal on all sites. Immutable, local, any thread.
class FragmentPlan {
 public:
  /// @throws ConfigError  fewer units than fragments, or no fragment at all
  FragmentPlan(const std::vector<TensorRange>& tensors, std::size_t fragments, Fragmentation fragmentation);

  [[nodiscard]] std::size_t count() const noexcept { return ranges_.size(); }
  [[nodiscard]] std::size_t size(FragmentId fragment) const { return sizes_.at(fragment.value); }  ///< [values]
  [[nodiscard]] const std::vector<Range>& ranges(FragmentId fragment) const { return ranges_.at(fragment.value); }
  /// The fragment's tensors in the order of gather(): they cover its values without gaps.
  [[nodiscard]] const std::vector<Segment>& segments(FragmentId fragment) const { return segments_.at(fragment.value); }

  /// Copies the fragment's values out of / into the flat vector.
  [[nodiscard]] std::vector<float> gather(std::span<const float> flat, FragmentId fragment) const;
  void scatter(std::span<const float> values, FragmentId fragment, std::span<float> flat) const;

 private:
  std::vector<std::vector<Range>> ranges_;
  std::vector<std::vector<Segment>> segments_;
  std::vector<std::size_t> sizes_;
};

}  // namespace Atoll::outer
