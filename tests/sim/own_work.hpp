#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "contents.hpp"

namespace Atoll::federation::sim {

/// What a site itself has done on one fragment, as OwnPath should have it: its inner steps, and how far each of them
/// has moved every value.
class OwnWork {
 public:
  struct Place {  ///< on the path
    Contents steps;
    std::vector<double> moved;  ///< empty: not at all
  };

  void step(std::uint32_t number, const std::vector<float>& by);
  /// An offer with this serial is taken now.
  void mark(std::uint64_t serial) { put(serial, std::make_shared<const Place>(now_)); }
  /// The parameters went over to an anchor that holds offer `holds`; what is kept begins at that of `begins`.
  void follow(std::uint64_t holds, std::uint64_t begins);
  /// The parameters became an anchor that holds offer `holds`.
  void restart(std::uint64_t holds);

  [[nodiscard]] const Place& all() const noexcept { return now_; }
  /// What lies behind the anchor: own steps that it does not hold.
  [[nodiscard]] Place rest() const;
  /// Steps from number `first` on that neither `anchor` nor the rest nor `on_its_way` holds, and that were not lost
  /// before.
  std::uint64_t newly_lost(const Contents& anchor, const Contents& on_its_way, std::uint32_t first);

 private:
  using Mark = std::shared_ptr<const Place>;  ///< shared with the checkpoints, of which there are many
  void put(std::uint64_t serial, Mark mark);

  Place now_;
  Mark from_ = std::make_shared<const Place>();
  std::vector<std::pair<std::uint64_t, Mark>> marks_{{0, from_}};  ///< by serial
  Contents lost_;
};

}  // namespace Atoll::federation::sim
