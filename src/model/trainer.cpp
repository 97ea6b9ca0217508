#include "atoll/model/trainer.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "adamw.hpp"
#include "atoll/core/error.hpp"
#include "gpt.hpp"
#include "initialisation.hpp"
#include "layout.hpp"
#include "sampling.hpp"

namespace Atoll::model {

namespace {

std::span<float> span_of(const at::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

void require_in_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  const auto beyond = std::ranges::find_if(tokens, [&](std::int32_t id) { return id < 0 || id >= vocabulary; });
  if (beyond != tokens.end())
    throw Error("token id " + std::to_string(*beyond) + " is beyond the vocabulary (the model has " +
                std::to_string(vocabulary) + " tokens) use the token file that the model was configured for");
}

at::Tensor tensor_of(std::span<const std::int32_t> tokens, std::int64_t rows) {
  const auto columns = std::ssize(tokens) / rows;
  return at::from_blob(const_cast<std::int32_t*>(tokens.data()), {rows, columns}, at::kInt).to(at::kLong);
}

at::Tensor tensor_of(const Batch& batch, const GptConfig& sizes) {
  ATOLL_EXPECT(batch.sequences > 0 && std::ssize(batch.tokens) == batch.sequences * (sizes.context + 1),
               std::to_string(batch.tokens.size()) + " tokens for " + std::to_string(batch.sequences) + " sequences");
  require_in_vocabulary(batch.tokens, sizes.vocabulary);
  return tensor_of(batch.tokens, batch.sequences);
}

// Share of each batch in the mean over all sequences of all batches.
std::vector<double> shares(std::span<const Batch> batches) {
  double sequences = 0;
  for (const auto& batch : batches) sequences += static_cast<double>(batch.sequences);
  std::vector<double> result;
  for (const auto& batch : batches) result.push_back(static_cast<double>(batch.sequences) / sequences);
  return result;
}

}  // namespace

struct Trainer::State {
  State(const GptConfig& gpt, const AdamWConfig& adamw, std::uint64_t seed)
      : sizes(gpt),
        layout(parameter_layout(gpt)),
        count(model::parameter_count(layout)),
        optimizer(adamw, count),
        parameters(at::empty({static_cast<std::int64_t>(count)}, at::kFloat)),
        gradient(at::zeros({static_cast<std::int64_t>(count) + 1}, at::kFloat)),
        network(gpt, layout, parameters) {
    initialise(span_of(parameters), layout, gpt.layers, seed);
    network.collect_gradient(gradient);
  }

  // The network on the trainer's own parameters, or on the given ones without copying them.
  [[nodiscard]] Gpt network_on(std::span<const float> given) const {
    if (given.empty()) return network;
    ATOLL_EXPECT(given.size() == count, std::to_string(given.size()) + " values for another model");
    return {sizes, layout, at::from_blob(const_cast<float*>(given.data()), {std::ssize(given)}, at::kFloat)};
  }

  GptConfig sizes;
  std::vector<ParameterInfo> layout;
  std::size_t count;
  AdamW optimizer;
  at::Tensor parameters;  // [count]
  at::Tensor gradient;    // [count + 1], the last value is the loss
  Gpt network;
};

Trainer::Trainer(const GptConfig& sizes, const AdamWConfig& adamw, std::uint64_t seed)
    : state_(std::make_unique<State>(sizes, adamw, seed)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

const std::vector<ParameterInfo>& Trainer::layout() const { return state_->layout; }
std::size_t Trainer::parameter_count() const { return state_->count; }
std::span<float> Trainer::parameters() { return span_of(state_->parameters); }
std::span<float> Trainer::first_moment() { return state_->optimizer.first_moment(); }
std::span<float> Trainer::second_moment() { return state_->optimizer.second_moment(); }
std::uint64_t Trainer::optimizer_steps() const { return state_->optimizer.steps(); }
void Trainer::resume_optimizer(std::uint64_t steps) { state_->optimizer.resume(steps); }

StepReport Trainer::inner_step(std::span<const Batch> micro_batches, double learning_rate,
                               const AverageInPlace& average) {
  ATOLL_EXPECT(!micro_batches.empty(), "no micro-batch");
  auto& state = *state_;
  const auto gradient_and_loss = span_of(state.gradient);
  std::ranges::fill(gradient_and_loss, 0.0F);

  const auto share = shares(micro_batches);
  double loss = 0;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const auto micro_loss = state.network.loss(tensor_of(micro_batches[i], state.sizes));
    micro_loss.backward(at::full({}, share[i], at::kFloat));
    loss += share[i] * micro_loss.item<float>();
  }
  gradient_and_loss.back() = static_cast<float>(loss);
  if (average) average(gradient_and_loss);

  const auto gradient = gradient_and_loss.first(state.count);
  StepReport report{.loss = gradient_and_loss.back(), .gradient_norm = global_norm(gradient)};
  report.skipped = !std::isfinite(report.gradient_norm) || !std::isfinite(report.loss);
  if (!report.skipped)
    state.optimizer.step(parameters(), gradient, state.layout, learning_rate, report.gradient_norm);
  return report;
}

double Trainer::loss(std::span<const Batch> batches, std::span<const float> parameters) {
  ATOLL_EXPECT(!batches.empty(), "no batch");
  const c10::NoGradGuard no_gradient;
  const auto network = state_->network_on(parameters);
  const auto share = shares(batches);
  double loss = 0;
  for (std::size_t i = 0; i < batches.size(); ++i)
    loss += share[i] * network.loss(tensor_of(batches[i], state_->sizes)).item<float>();
  return loss;
}

std::vector<std::int32_t> Trainer::sample(std::span<const std::int32_t> prompt, std::size_t count, double temperature,
                                          std::uint64_t seed, std::span<const float> parameters) {
  if (prompt.empty()) throw Error("nothing to continue (the prompt is empty) give a prompt of at least one token");
  require_in_vocabulary(prompt, state_->sizes.vocabulary);
  const c10::NoGradGuard no_gradient;
  const auto network = state_->network_on(parameters);
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  for (std::size_t i = 0; i < count; ++i) {
    const auto window = std::min(tokens.size(), static_cast<std::size_t>(state_->sizes.context));
    const auto logits = network.next_logits(tensor_of(std::span(tokens).last(window), 1));
    tokens.push_back(draw(span_of(logits), temperature, random));
  }
  return {tokens.begin() + std::ssize(prompt), tokens.end()};
}

}  // namespace Atoll::model
