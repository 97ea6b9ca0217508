#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace Atoll::model {

/// Sizes of a GPT (pre-norm, learned positions, tied embedding).
struct GptConfig {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;  ///< tokens per sequence
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2) with decay on matrices only.
struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  ///< gradients are scaled down to this global norm; 0 = never
};

/// Token ids of some sequences, [sequences, context + 1], row-major; inputs are columns 0..context-1, targets
/// 1..context.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::int64_t sequences = 0;
};

/// Where one parameter tensor lies in the flat parameter vector.
struct ParameterInfo {
  std::string name;                 ///< as in "layers.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;          ///< in the flat vector [values]
  std::int64_t count = 0;           ///< [values]
  int layer = -1;                   ///< transformer layer, or -1 for embeddings and the final norm
};

/// What one inner step reports.
struct StepReport {
  double loss = 0;           ///< mean over the micro-batches and the ranks of the island, in nats per token
  double gradient_norm = 0;  ///< global norm of the averaged gradient before clipping
  bool skipped = false;      ///< gradient or loss were not finite: neither parameters nor moments were changed
};

/// Averages a flat gradient in place over the ranks of the island (collective there); a no-op with one rank.
/// The last value of the span is the loss, so that both travel in one reduction.
using AverageInPlace = std::function<void(std::span<float>)>;

/// The network, its flat fp32 parameters and its AdamW state. Local (collective only through AverageInPlace).
/// Owns everything. Thread use: one thread; the spans are invalid after destruction and move with inner_step().
class Trainer {
 public:
  /// Initialises like GPT-2 from `seed`: equal seeds give equal bits on every site.
  /// @throws ConfigError  sizes that make no network, or AdamW constants outside their range
  Trainer(const GptConfig& sizes, const AdamWConfig& adamw, std::uint64_t seed);
  Trainer(Trainer&&) noexcept;
  ~Trainer();

  /// The parameters in the order of the flat vector, without gaps (names: src/model/layout.hpp).
  [[nodiscard]] const std::vector<ParameterInfo>& layout() const;
  [[nodiscard]] std::size_t parameter_count() const;

  /// Flat views [parameter_count()], fp32, host.
  [[nodiscard]] std::span<float> parameters();
  [[nodiscard]] std::span<float> first_moment();
  [[nodiscard]] std::span<float> second_moment();
  /// Steps that AdamW's bias correction has counted; part of a checkpoint.
  [[nodiscard]] std::uint64_t optimizer_steps() const;
  void resume_optimizer(std::uint64_t steps);

  /// One optimizer step from the mean gradient over all sequences of the micro-batches (gradient accumulation).
  /// @throws Error  a token id is beyond the vocabulary; also thrown by loss() and sample(). Nothing was changed.
  StepReport inner_step(std::span<const Batch> micro_batches, double learning_rate, const AverageInPlace& average);

  /// Mean loss over the batches in nats per token, without gradient. `parameters` (flat) are used instead of the
  /// trainer's own when not empty; the own ones are untouched.
  [[nodiscard]] double loss(std::span<const Batch> batches, std::span<const float> parameters = {});

  /// The `count` tokens that continue `prompt`, drawn at the given temperature (0: always the most likely one);
  /// the last `context` tokens count. Equal arguments give equal tokens. `parameters` as for loss().
  [[nodiscard]] std::vector<std::int32_t> sample(std::span<const std::int32_t> prompt, std::size_t count,
                                                 double temperature, std::uint64_t seed,
                                                 std::span<const float> parameters = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Limits the threads of LibTorch and OpenBLAS in this process; call before any other use of this module.
/// With one thread, equal inputs give equal bits.
void limit_threads(int threads);

}  // namespace Atoll::model
