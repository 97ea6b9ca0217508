#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atoll/model/trainer.hpp"  // AdamWConfig, ParameterInfo

namespace Atoll::model {

/// Square root of the sum of squares; not finite if and only if a value is not.
/// Summed in blocks of fixed size and fixed order, so the bits do not depend on the number of threads.
[[nodiscard]] double global_norm(std::span<const float> values);

/// AdamW over flat buffers, one pass; owns the two moments. Each value is computed on its own by a fixed sequence of
/// IEEE operations, so the bits do not depend on the number of threads.
class AdamW {
 public:
  /// @throws ConfigError  constants outside their range
  AdamW(const AdamWConfig& config, std::size_t parameter_count);

  /// One step; `gradient_norm` is the global norm of `gradient`, by which it is clipped.
  /// Tensors with two or more dimensions decay, as in nanoGPT: matrices and both embeddings, but no norms or biases.
  void step(std::span<float> parameters, std::span<const float> gradient, const std::vector<ParameterInfo>& layout,
            double learning_rate, double gradient_norm);

  [[nodiscard]] std::span<float> first_moment() { return first_moment_; }
  [[nodiscard]] std::span<float> second_moment() { return second_moment_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  void resume(std::uint64_t steps) noexcept { steps_ = steps; }

 private:
  AdamWConfig config_;
  std::vector<float> first_moment_, second_moment_;
  std::uint64_t steps_ = 0;
};

}  // namespace Atoll::model
