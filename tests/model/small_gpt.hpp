#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "atoll/model/trainer.hpp"

namespace Atoll::model {

inline constexpr GptConfig small_sizes{.vocabulary = 50, .context = 16, .layers = 2, .heads = 2, .width = 32};

inline Batch random_batch(std::int64_t sequences, std::uint32_t seed, const GptConfig& sizes = small_sizes) {
  std::mt19937 random(seed);
  Batch batch{.tokens = {}, .sequences = sequences};
  for (std::int64_t i = 0; i < sequences * (sizes.context + 1); ++i)
    batch.tokens.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(sizes.vocabulary)));
  return batch;
}

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace Atoll::model
