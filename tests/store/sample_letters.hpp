#pragma once

#include <vector>

#include "atoll/store/digest.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::store::test {

inline Values ramp(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + 0.25f * static_cast<float>(i);
  return std::make_shared<const std::vector<float>>(std::move(values));
}

/// A letter in which every field differs from its default.
inline Letter full_letter(LetterKind kind, std::size_t values = 100) {
  Letter letter;
  letter.kind = kind;
  letter.federation = "two-sites";
  letter.configuration = digest_of("configuration");
  letter.site = SiteId{1};
  letter.incarnation = 1'790'000'000'000'000;
  letter.fragment = FragmentId{3};
  letter.version = 41;
  letter.parent = digest_of("parent");
  letter.anchor = digest_of("anchor");
  letter.serial = 7;
  letter.follows = 5;
  letter.steps = 30;
  letter.tokens = 123'456;
  letter.offers = {{SiteId{0}, 6, 30, 1000, 0.25f}, {SiteId{1}, 7, 29, 3000, 0.75f}};
  letter.fragments = {{40, digest_of("a"), 5000, 39, digest_of("c")}, {41, digest_of("b"), 6000, 0, {}}};
  letter.inner_step = 1230;
  letter.step_micros = 250'000;
  letter.finished = true;
  letter.ready = true;
  letter.joining = true;
  letter.values = ramp(values, 1.0f);
  letter.momentum = ramp(values, -1.0f);
  return letter;
}

inline std::vector<std::byte> image_of(const Letter& letter, std::byte filling = std::byte{0xaa}) {
  const auto count = [](const Values& values) { return values ? values->size() : 0; };
  std::vector<std::byte> memory(
      image_bound(count(letter.values) + count(letter.momentum), letter.offers.size(), letter.fragments.size()),
      filling);
  memory.resize(encode(letter, memory));
  return memory;
}

}  // namespace Atoll::store::test
