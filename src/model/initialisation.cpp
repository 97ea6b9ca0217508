#include "initialisation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <string>

namespace Atoll::model {

namespace {

// The logarithm of a mathematics library may differ in the last bit between versions and processors; sites must not.
// This one uses only operations that IEEE 754 rounds exactly.
double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.5 * std::numbers::sqrt2) {
    mantissa *= 2;
    --exponent;
  }
  const double z = (mantissa - 1) / (mantissa + 1);
  double series = 0;
  for (int power = 25; power >= 1; power -= 2) series = series * (z * z) + 1.0 / power;
  return exponent * std::numbers::ln2 + 2 * z * series;
}

// Marsaglia's polar method on the 64-bit Mersenne Twister, whose output the C++ standard fixes
// (it does not fix that of std::normal_distribution).
class NormalSource {
 public:
  NormalSource(std::uint64_t seed, std::uint32_t stream) {
    std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), stream};
    engine_.seed(sequence);
  }

  double next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double u = 0, v = 0, square = 0;
    do {
      u = uniform();
      v = uniform();
      square = u * u + v * v;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * portable_log(square) / square);
    spare_ = v * factor;
    has_spare_ = true;
    return u * factor;
  }

 private:
  double uniform() { return std::ldexp(static_cast<double>(engine_() >> 11), -52) - 1; }  // [-1, 1)

  std::mt19937_64 engine_;
  double spare_ = 0;
  bool has_spare_ = false;
};

bool writes_into_residual_stream(const std::string& name) {
  return name.ends_with("projection.weight") || name.ends_with("contract.weight");
}

}  // namespace

void initialise(std::span<float> parameters, const std::vector<ParameterInfo>& layout, std::int64_t layers,
                std::uint64_t seed) {
  const double residual_share = 1 / std::sqrt(2.0 * static_cast<double>(layers));
  std::uint32_t stream = 0;
  for (const auto& info : layout) {
    const auto values = parameters.subspan(static_cast<std::size_t>(info.offset), static_cast<std::size_t>(info.count));
    if (info.shape.size() < 2) {
      std::ranges::fill(values, info.name.ends_with("norm.weight") ? 1.0F : 0.0F);
    } else {
      const double deviation = writes_into_residual_stream(info.name) ? 0.02 * residual_share : 0.02;
      NormalSource normal(seed, stream);
      for (float& value : values) value = static_cast<float>(deviation * normal.next());
    }
    ++stream;
  }
}

}  // namespace Atoll::model
