#include "utf8.hpp"

#include <algorithm>
#include <string>

#include "atoll/data/token_file.hpp"

namespace Atoll::data {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// How many bytes the character that starts `rest` has; 0 if there is none.
std::size_t character_bytes(std::string_view rest) {
  const auto lead = static_cast<unsigned char>(rest[0]);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || rest.size() < bytes) return 0;
  if (!std::ranges::all_of(rest.substr(1, bytes - 1), continues)) return 0;
  const auto second = static_cast<unsigned char>(rest[1]);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool beyond_unicode = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond_unicode ? 0 : bytes;
}

}  // namespace

std::optional<std::size_t> first_offence(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

std::string readable(std::string_view text) {
  std::string whole;
  while (const auto offence = first_offence(text)) {
    whole.append(text.substr(0, *offence)).append("\xef\xbf\xbd");
    text.remove_prefix(*offence + 1);
  }
  return whole.append(text);
}

std::size_t next_character(std::string_view text, std::size_t offset) {
  while (offset < text.size() && continues(text[offset])) ++offset;
  return std::min(offset, text.size());
}

}  // namespace Atoll::data
