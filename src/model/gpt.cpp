#include "gpt.hpp"

#include <ATen/ATen.h>

namespace Atoll::model {

namespace {

at::Tensor view_of(const at::Tensor& flat, const ParameterInfo& info) {
  return flat.narrow(0, info.offset, info.count).view(info.shape);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(x, weight, bias);
}

}  // namespace

Gpt::Gpt(const GptConfig& sizes, const std::vector<ParameterInfo>& layout, const at::Tensor& flat)
    : sizes_(sizes), layout_(layout) {
  for (const auto& info : layout_) parameters_.push_back(view_of(flat, info).detach());

  auto place = parameters_.begin();
  const auto next_affine = [&place] { return Affine{*place++, *place++}; };  // braces: left to right
  tokens_ = *place++;
  positions_ = *place++;
  for (std::int64_t layer = 0; layer < sizes_.layers; ++layer)
    layers_.push_back({next_affine(), next_affine(), next_affine(), next_affine(), next_affine(), next_affine()});
  norm_ = next_affine();
}

void Gpt::collect_gradient(const at::Tensor& flat_gradient) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].requires_grad_(true);
    parameters_[i].mutable_grad() = view_of(flat_gradient, layout_[i]);
  }
}

at::Tensor Gpt::norm(const at::Tensor& x, const Affine& affine) const {
  return at::layer_norm(x, {sizes_.width}, affine.weight, affine.bias, 1e-5);
}

at::Tensor Gpt::attention(const at::Tensor& x, const Layer& layer) const {
  const auto sequences = x.size(0), time = x.size(1);
  const auto qkv = linear(x, layer.qkv.weight, layer.qkv.bias)
                       .view({sequences, time, 3, sizes_.heads, sizes_.width / sizes_.heads})
                       .unbind(2);  // each [sequences, time, heads, width / heads]
  const auto mixed = at::scaled_dot_product_attention(qkv[0].transpose(1, 2), qkv[1].transpose(1, 2),
                                                      qkv[2].transpose(1, 2), {}, 0.0, /*is_causal=*/true);
  return linear(mixed.transpose(1, 2).reshape(x.sizes()), layer.projection.weight, layer.projection.bias);
}

at::Tensor Gpt::mlp(const at::Tensor& x, const Layer& layer) const {
  const auto expanded = at::gelu(linear(x, layer.expand.weight, layer.expand.bias), "tanh");
  return linear(expanded, layer.contract.weight, layer.contract.bias);
}

// [sequences, time] -> [sequences, time, width]
at::Tensor Gpt::features(const at::Tensor& tokens) const {
  auto x = at::embedding(tokens_, tokens) + positions_.narrow(0, 0, tokens.size(1));
  for (const auto& layer : layers_) {
    x = x + attention(norm(x, layer.attention_norm), layer);
    x = x + mlp(norm(x, layer.mlp_norm), layer);
  }
  return norm(x, norm_);
}

at::Tensor Gpt::loss(const at::Tensor& tokens) const {
  const auto time = tokens.size(1) - 1;
  const auto logits = at::linear(features(tokens.narrow(1, 0, time)), tokens_);
  return at::cross_entropy_loss(logits.flatten(0, 1), tokens.narrow(1, 1, time).flatten());
}

at::Tensor Gpt::next_logits(const at::Tensor& tokens) const {
  const auto last = features(tokens).select(1, tokens.size(1) - 1);
  return at::linear(last, tokens_).squeeze(0);
}

}  // namespace Atoll::model
