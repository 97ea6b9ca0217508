#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "atoll/model/trainer.hpp"  // ParameterInfo

namespace Atoll::model {

/// Initialises like GPT-2: matrices from N(0, 0.02), those that write into the residual stream from
/// N(0, 0.02 / sqrt(2 layers)), norms 1, biases 0.
/// The bits depend on `seed` and on nothing else: not on threads, processor, or version of a mathematics library.
void initialise(std::span<float> parameters, const std::vector<ParameterInfo>& layout, std::int64_t layers,
                std::uint64_t seed);

}  // namespace Atoll::model
