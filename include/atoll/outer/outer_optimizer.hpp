#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "atoll/core/quantities.hpp"

namespace Atoll::outer {

enum class OuterMethod {
  sgd,               ///< momentum in PyTorch's form, not Nesterov; momentum 0 is FedAvg
  nesterov,          ///< DiLoCo's (Douillard 2023)
  delayed_nesterov,  ///< momentum once every `delay` commits (Liu 2024, algorithm 3)
  adam,              ///< FedOpt (Reddi 2021, algorithm 2)
  yogi,
  adagrad,
};

/// Values of an anchor and the optimizer's state that belong to them, seen in a larger state.
struct AnchorValues {
  std::span<const float> anchor;
  std::span<const float> state;  ///< begins with the first slot of the first value
  std::size_t stride = 0;        ///< from a slot to the next [values]
};

/// Turns a merged pseudo-gradient g (a descent step subtracts it) into the next anchor. A value; local, any thread.
///
/// Every value of anchor and state is one fixed sequence of fp32 operations, each rounded once, so equal inputs give
/// equal bits on every site and for every split into blocks or threads. With x the anchor, m and v the state's slots,
/// eta = learning_rate, mu = momentum, beta2 = second_momentum, tau = epsilon, and fma(a, b, c) = a b + c:
///
///     sgd               m = (mu * m) + g;  x = fma(-eta, m, x)                        equal to torch::optim::SGD
///     nesterov          m = (mu * m) + g;  x = fma(-eta, fma(mu, m, g), x)            equal to torch::optim::SGD
///     delayed_nesterov  v = v + g;  s = g / N;  with N = delay, c = delay_share, and the version made being version+1:
///       version+1 is a multiple of N    m = (mu * m) + (v / N);  x = fma(-eta, fma(((1 - c * N) + c) * mu, m, s), x);
///                                       v = 0
///       otherwise                       x = fma(-eta, fma(c * mu, m, s), x)
///     adam, yogi, adagrad   m = fma(mu, m, (1 - mu) * g);  q = g * g;
///       adam            v = fma(beta2, v, (1 - beta2) * q)
///       yogi            v = fma(-+(1 - beta2), q, v), - where v > q, + where v < q
///       adagrad         v = v + q
///                       x = fma(-eta, m / (sqrt(v) + tau), x)                         no bias correction
///
/// All slots start at zero (FedOpt's paper starts v at tau^2 or more; zero is what its users do, tau keeps it safe).
/// N equal gradients through delayed_nesterov (c = 0, m = 0) move the anchor as one Nesterov step on their mean does.
struct OuterOptimizer {
  OuterMethod method = OuterMethod::nesterov;
  float learning_rate = 0.7F;
  float momentum = 0.9F;          ///< mu; beta1 of adam, yogi and adagrad
  float second_momentum = 0.99F;  ///< beta2 of adam and yogi
  float epsilon = 1e-3F;          ///< tau of adam, yogi and adagrad
  std::uint32_t delay = 1;        ///< N of delayed_nesterov
  float delay_share = 0;          ///< c of delayed_nesterov, between 0 and 1 / N

  /// State values per anchor value, at least 1.
  [[nodiscard]] std::size_t slots() const noexcept;

  /// Makes version `version` into version + 1, in place.
  /// @param state  [slots() * anchor.size()], slot after slot
  /// @pre gradient.size() == anchor.size(), delay > 0
  void step(std::span<float> anchor, std::span<float> state, std::span<const float> gradient, Version version) const;

  /// The same from `old` into `anchor` and `state`, which are the places of the old values or lie wholly elsewhere.
  /// @return whether all new values are finite (given that the old ones are)
  bool step(const AnchorValues& old, std::span<float> anchor, std::span<float> state, std::span<const float> gradient,
            Version version) const;

  /// @throws ConfigError  a constant outside its range
  void check() const;
};

/// The step of OuterMethod::nesterov alone. All three spans have one size. Local, any thread.
void nesterov_step(std::span<float> anchor, std::span<float> momentum, std::span<const float> gradient,
                   float learning_rate, float momentum_factor);

/// anchor - parameters: the pseudo-gradient; a descent step subtracts it from the anchor.
[[nodiscard]] std::vector<float> pseudo_gradient(std::span<const float> anchor, std::span<const float> parameters);

}  // namespace Atoll::outer
