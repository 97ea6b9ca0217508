#pragma once

#include <cstdint>
#include <vector>

#include "atoll/store/letter.hpp"

namespace Atoll::federation {

/// A site's own work on one fragment: the path of its inner steps through parameter space, with a mark at every offer.
///
/// An offer that follows mark r and has serial s holds the path from r to s, and a steward merges it only into a line
/// of commits that holds r and nothing newer of this site. So a line whose newest offer of this site is s holds the
/// path up to mark s, and lacks exactly what lies behind it: nothing is merged twice, and nothing that a mark remembers
/// is lost, whatever branch the site goes over to. Marks are few; what is merged for all is forgotten. Local; one
/// thread at a time.
class OwnPath {
 public:
  /// The path begins at mark `serial`: a line that holds it lacks nothing.
  explicit OwnPath(std::uint64_t serial = 0) : marks_{{serial, serial, 0, 0, nullptr}} {}

  void walked(std::uint64_t steps, std::uint64_t tokens) noexcept {
    steps_ += steps;
    tokens_ += tokens;
  }
  /// An offer of all that lies behind mark `follows` was taken. @pre `follows` is a mark, `serial` is newer than all
  void mark(std::uint64_t serial, std::uint64_t follows, store::Values gradient);

  /// What a line lacks of the path.
  struct Rest {
    store::Values base;             ///< what it is measured from; null: nothing of it can be kept
    std::uint64_t tokens_lost = 0;  ///< at most so many are neither in the line nor kept
    std::uint64_t begins = 0;       ///< the mark where it begins; without a base the newest serial of the line
  };
  /// Parameters lie on `anchor`, which holds mark `from`, and go over to a line that holds mark `to`.
  [[nodiscard]] Rest behind(const store::Values& anchor, std::uint64_t from, std::uint64_t to) const;
  /// Tokens walked behind mark `serial` and not dropped before.
  [[nodiscard]] std::uint64_t tokens_behind(std::uint64_t serial) const;
  /// Inner steps walked behind mark `serial` and not dropped before.
  [[nodiscard]] std::uint64_t steps_behind(std::uint64_t serial) const;

  /// The parameters went over to a line that holds `to`; what it lacks begins at mark `begins`.
  void follow(std::uint64_t to, std::uint64_t begins);
  /// The parameters became an anchor that holds mark `serial`: what was walked and is not in it is gone.
  void restart(std::uint64_t serial);
  /// Tokens between two marks: what a line that holds `from` has and one that holds only `to` has not, at most.
  [[nodiscard]] std::uint64_t tokens_between(std::uint64_t to, std::uint64_t from) const;
  /// Nobody is on a line any more that does not hold `serial`.
  void forget_before(std::uint64_t serial);

  [[nodiscard]] std::size_t marks() const noexcept { return marks_.size(); }

 private:
  struct Mark {
    std::uint64_t serial = 0;
    std::uint64_t follows = 0;
    std::uint64_t steps = 0, tokens = 0;  ///< walked up to here
    store::Values gradient;               ///< from `follows` to here; null: nothing
  };

  [[nodiscard]] const Mark* find(std::uint64_t serial) const;
  [[nodiscard]] std::uint64_t tokens_held(std::uint64_t to) const;
  [[nodiscard]] std::vector<const Mark*> chain(std::uint64_t serial) const;
  void drop(std::vector<Mark>::iterator mark);

  std::vector<Mark> marks_;  ///< ordered by serial; never empty
  std::uint64_t steps_ = 0, tokens_ = 0;
  std::uint64_t dropped_at_ = 0, steps_dropped_at_ = 0;  ///< walked when the parameters last became an anchor
};

}  // namespace Atoll::federation
