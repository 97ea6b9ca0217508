#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "atoll/model/trainer.hpp"  // GptConfig, ParameterInfo

namespace Atoll::model {

/// The network as a function of a flat parameter vector that someone else owns: all its tensors are views.
/// No dropout and no random numbers, so equal parameters and tokens give equal results.
class Gpt {
 public:
  /// @param flat  fp32 [parameter_count]; must outlive the network
  Gpt(const GptConfig& sizes, const std::vector<ParameterInfo>& layout, const at::Tensor& flat);

  /// From now on backward() of a loss adds into `flat_gradient`, fp32 [>= parameter_count].
  void collect_gradient(const at::Tensor& flat_gradient);

  /// Mean cross entropy in nats per token, a scalar. @param tokens  int64 [sequences, time + 1], time <= context
  [[nodiscard]] at::Tensor loss(const at::Tensor& tokens) const;

  /// Logits for what follows the last token, [vocabulary]. @param tokens  int64 [1, time], time <= context
  [[nodiscard]] at::Tensor next_logits(const at::Tensor& tokens) const;

 private:
  struct Affine {
    at::Tensor weight, bias;
  };
  struct Layer {
    Affine attention_norm, qkv, projection, mlp_norm, expand, contract;
  };

  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const Affine& affine) const;
  [[nodiscard]] at::Tensor attention(const at::Tensor& x, const Layer& layer) const;
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, const Layer& layer) const;
  [[nodiscard]] at::Tensor features(const at::Tensor& tokens) const;

  GptConfig sizes_;
  std::vector<ParameterInfo> layout_;
  std::vector<at::Tensor> parameters_;  // in the order of the layout; the members below share them
  at::Tensor tokens_, positions_;
  std::vector<Layer> layers_;
  Affine norm_;
};

}  // namespace Atoll::model
