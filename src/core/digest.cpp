#include <algorithm>

#include "atoll/core/error.hpp"
#include "atoll/core/quantities.hpp"

namespace Atoll {

namespace {
constexpr std::string_view digits = "0123456789abcdef";
}

std::string Digest::hex() const {
  std::string text;
  for (const auto byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Digest Digest::from_hex(std::string_view hex) {
  Digest digest;
  const auto is_digit = [](char c) { return digits.find(c) != std::string_view::npos; };
  if (hex.size() != 2 * digest.bytes.size() || !std::ranges::all_of(hex, is_digit))
    throw Error("'" + std::string(hex) + "' is no digest (32 hexadecimal digits expected) use one that Atoll printed");
  for (std::size_t i = 0; i < digest.bytes.size(); ++i)
    digest.bytes[i] = std::byte(digits.find(hex[2 * i]) << 4 | digits.find(hex[2 * i + 1]));
  return digest;
}

}  // namespace Atoll
