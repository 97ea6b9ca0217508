#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace Atoll::model {

/// Draws a token id from softmax(logits / temperature); temperature 0 takes the most likely one.
[[nodiscard]] std::int32_t draw(std::span<const float> logits, double temperature, std::mt19937_64& random);

}  // namespace Atoll::model
