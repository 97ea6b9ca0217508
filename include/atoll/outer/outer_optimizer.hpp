#pragma once

#include <span>
#include <vector>

namespace Atoll::outer {

/// Nesterov momentum in PyTorch's form (dampening 0): m <- mu m + g ; anchor <- anchor - eta (g + mu m).
/// Each value is one fixed sequence of fp32 operations, equal to the bit to torch::optim::SGD on a CPU with fma:
/// m = mu * m + g (rounded twice), anchor = fma(-eta, fma(mu, m, g), anchor). momentum_factor 0 is plain SGD (FedAvg).
/// All three spans have one size. Local, any thread.
void nesterov_step(std::span<float> anchor, std::span<float> momentum, std::span<const float> gradient,
                   float learning_rate, float momentum_factor);

/// anchor - parameters: the pseudo-gradient; a descent step subtracts it from the anchor.
[[nodiscard]] std::vector<float> pseudo_gradient(std::span<const float> anchor, std::span<const float> parameters);

}  // namespace Atoll::outer
