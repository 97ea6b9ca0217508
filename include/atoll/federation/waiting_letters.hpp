#pragma once

#include <cstddef>
#include <deque>

#include "atoll/store/letter.hpp"

namespace Atoll::federation {

/// Letters for one site that wait for room in its outbox, in the order in which they go. Local; one thread at a time.
///
/// A slow link must not fall behind for ever. So a newer status, offer, request or snapshot takes the place of an older
/// one of its kind and fragment and keeps its turn; of three commits of one fragment the first two go (the peer sees a
/// gap and asks for a snapshot, which is as large as two commits and the newest there is); and a snapshot makes the
/// commits before it useless.
class WaitingLetters {
 public:
  void add(store::Letter letter);
  /// The next letter that `wanted` picks is given to `take`, and leaves when that returns true. False: there is none,
  /// or it stays.
  template <class Wanted, class Take>
  bool next(Wanted&& wanted, Take&& take) {
    for (auto at = letters_.begin(); at != letters_.end(); ++at) {
      if (!wanted(*at)) continue;
      if (!take(*at)) return false;
      letters_.erase(at);
      return true;
    }
    return false;
  }
  void clear() { letters_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return letters_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return letters_.size(); }

 private:
  std::deque<store::Letter> letters_;
};

}  // namespace Atoll::federation
