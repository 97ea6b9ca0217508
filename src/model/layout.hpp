#pragma once

#include <vector>

#include "atoll/model/trainer.hpp"  // GptConfig, ParameterInfo

namespace Atoll::model {

/// The parameters of a GPT in the order of the flat vector, without gaps. W = width, V = vocabulary, C = context:
///
///     embedding.tokens [V, W], embedding.positions [C, W]
///     for N = 0 .. layers - 1
///       layers.N.attention.norm.{weight, bias} [W]
///       layers.N.attention.qkv.{weight [3W, W], bias [3W]}       queries, keys, values below one another
///       layers.N.attention.projection.{weight [W, W], bias [W]}
///       layers.N.mlp.norm.{weight, bias} [W]
///       layers.N.mlp.expand.{weight [4W, W], bias [4W]}
///       layers.N.mlp.contract.{weight [W, 4W], bias [W]}
///     norm.{weight, bias} [W]
///
/// The output layer has no parameters of its own: it is embedding.tokens again.
/// @throws ConfigError  sizes that make no network
[[nodiscard]] std::vector<ParameterInfo> parameter_layout(const GptConfig& sizes);

/// Values in the flat vector.
[[nodiscard]] std::size_t parameter_count(const std::vector<ParameterInfo>& layout);

}  // namespace Atoll::model
