#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "atoll/store/letter.hpp"  // Values

namespace Atoll::federation {

/// Memory of arrays that nobody owns any more, for the next ones of about their size. Keeps at most `limit` of them.
/// Any thread.
class SpareValues : public std::enable_shared_from_this<SpareValues> {
 public:
  SpareValues() { spare_.reserve(limit + 1); }
  /// `size` values of any content.
  [[nodiscard]] std::shared_ptr<std::vector<float>> take(std::size_t size);

 private:
  static constexpr std::size_t limit = 3;  // what one round makes: merged gradient, anchor, momentum

  void give_back(std::unique_ptr<std::vector<float>> values);

  std::mutex mutex_;
  std::vector<std::unique_ptr<std::vector<float>>> spare_;
};

}  // namespace Atoll::federation
