#include "spare_values.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace Atoll::federation {
namespace {

// Large arrays get large pages where the system has them: it then gives and finds them faster. A wish, no more.
void ask_for_large_pages(std::span<float> memory) {
  constexpr std::uintptr_t page = 2 << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()), end = begin + memory.size_bytes();
  const auto first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace

std::shared_ptr<std::vector<float>> SpareValues::take(std::size_t size) {
  std::unique_ptr<std::vector<float>> values;
  {
    const std::scoped_lock lock(mutex_);
    const auto fits = [size](const auto& spare) { return spare->capacity() >= size && spare->capacity() / 2 <= size; };
    if (const auto found = std::ranges::find_if(spare_, fits); found != spare_.end()) {
      values = std::move(*found);
      spare_.erase(found);
    }
  }
  if (!values) {
    values = std::make_unique<std::vector<float>>();
    values->reserve(size);
    ask_for_large_pages({values->data(), size});
  }
  values->resize(size);
  return {values.release(), [self = shared_from_this()](std::vector<float>* unused) {
            self->give_back(std::unique_ptr<std::vector<float>>(unused));
          }};
}

// The oldest goes when there are too many: sizes that are no longer asked for do not stay.
void SpareValues::give_back(std::unique_ptr<std::vector<float>> values) {
  const std::scoped_lock lock(mutex_);
  spare_.push_back(std::move(values));
  if (spare_.size() > limit) spare_.erase(spare_.begin());
}

}  // namespace Atoll::federation
