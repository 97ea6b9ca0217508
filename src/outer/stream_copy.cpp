#include "atoll/outer/stream_copy.hpp"

#include <algorithm>
#include <cstdint>

#include "atoll/core/error.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace Atoll::outer {

#if defined(__SSE__)

void stream_copy(std::span<const float> from, std::span<float> to) {
  ATOLL_EXPECT(from.size() == to.size(), "spans of one size");
  constexpr std::size_t vector_values = 4, line_values = 16, vector_bytes = vector_values * sizeof(float);
  const auto bytes_over = reinterpret_cast<std::uintptr_t>(to.data()) % vector_bytes;
  const std::size_t head = std::min((vector_bytes - bytes_over) % vector_bytes / sizeof(float), from.size());
  std::ranges::copy(from.first(head), to.begin());
  std::size_t i = head;
  for (; i + line_values <= from.size(); i += line_values) {
    const float* source = from.data() + i;
    float* target = to.data() + i;
    _mm_stream_ps(target, _mm_loadu_ps(source));
    _mm_stream_ps(target + 4, _mm_loadu_ps(source + 4));
    _mm_stream_ps(target + 8, _mm_loadu_ps(source + 8));
    _mm_stream_ps(target + 12, _mm_loadu_ps(source + 12));
  }
  std::ranges::copy(from.subspan(i), to.subspan(i).begin());
  _mm_sfence();  // another thread that learns of these values afterwards sees them
}

#else

void stream_copy(std::span<const float> from, std::span<float> to) {
  ATOLL_EXPECT(from.size() == to.size(), "spans of one size");
  std::ranges::copy(from, to.begin());
}

#endif

}  // namespace Atoll::outer
