#include "layout.hpp"

#include <functional>
#include <numeric>
#include <utility>

#include "atoll/core/error.hpp"

namespace Atoll::model {

namespace {

void require_positive(const char* name, std::int64_t value) {
  if (value < 1)
    throw ConfigError("no network has " + std::to_string(value) + " for its " + name, "at least 1 is needed",
                      "give a larger " + std::string(name));
}

void require_sizes(const GptConfig& sizes) {
  require_positive("vocabulary", sizes.vocabulary);
  require_positive("context", sizes.context);
  require_positive("layers", sizes.layers);
  require_positive("heads", sizes.heads);
  require_positive("width", sizes.width);
  if (sizes.width % sizes.heads != 0)
    throw ConfigError("the width " + std::to_string(sizes.width) + " cannot be shared by " +
                          std::to_string(sizes.heads) + " heads",
                      "each head has width / heads columns", "choose a width that is a multiple of the heads");
}

}  // namespace

std::vector<ParameterInfo> parameter_layout(const GptConfig& sizes) {
  require_sizes(sizes);
  std::vector<ParameterInfo> layout;
  std::int64_t offset = 0;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, int layer) {
    const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    layout.push_back({std::move(name), std::move(shape), offset, count, layer});
    offset += count;
  };
  const auto add_norm = [&](const std::string& name, int layer) {
    add(name + ".weight", {sizes.width}, layer);
    add(name + ".bias", {sizes.width}, layer);
  };
  const auto add_linear = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs, int layer) {
    add(name + ".weight", {outputs, inputs}, layer);
    add(name + ".bias", {outputs}, layer);
  };

  add("embedding.tokens", {sizes.vocabulary, sizes.width}, -1);
  add("embedding.positions", {sizes.context, sizes.width}, -1);
  for (int layer = 0; layer < sizes.layers; ++layer) {
    const auto prefix = "layers." + std::to_string(layer);
    add_norm(prefix + ".attention.norm", layer);
    add_linear(prefix + ".attention.qkv", 3 * sizes.width, sizes.width, layer);
    add_linear(prefix + ".attention.projection", sizes.width, sizes.width, layer);
    add_norm(prefix + ".mlp.norm", layer);
    add_linear(prefix + ".mlp.expand", 4 * sizes.width, sizes.width, layer);
    add_linear(prefix + ".mlp.contract", sizes.width, 4 * sizes.width, layer);
  }
  add_norm("norm", -1);
  return layout;
}

std::size_t parameter_count(const std::vector<ParameterInfo>& layout) {
  return static_cast<std::size_t>(layout.back().offset + layout.back().count);
}

}  // namespace Atoll::model
