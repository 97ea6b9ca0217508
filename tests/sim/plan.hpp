#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/federation/protocol.hpp"
#include "atoll/outer/schedule.hpp"
#include "dice.hpp"

namespace Atoll::federation::sim {

/// What can happen to a federation at a moment.
enum class FaultKind {
  late,            ///< the site starts for the first time only then
  crash,           ///< the island dies and starts again after `seconds` from its newest checkpoint
  rewind,          ///< as crash, but from a checkpoint that is `amount` older
  stop,            ///< the job ends in good order, the next one starts after `seconds`
  depart,          ///< the site leaves for good, in good order when `amount` is 0
  cut,             ///< the link between two sites is cut
  split,           ///< two groups (bits of `group`) do not hear of each other
  slow,            ///< a step takes `amount` times as long
  jump,            ///< the site's clock jumps ahead by `amount` seconds
  stall_gateway,   ///< the gateway thread stands still, its pulse beats, the training goes on
  stall_training,  ///< no inner step is made
  freeze,          ///< the whole island stands still, and then goes on
};
inline constexpr std::size_t fault_kinds = 12;
[[nodiscard]] std::string_view name_of(FaultKind kind);

struct Fault {
  std::uint32_t number = 0;  ///< in the list of the seed: its name, which it keeps when others are left out
  FaultKind kind{};
  double time = 0, seconds = 0;  ///< [s] when, and for how long
  std::uint32_t site = 0, other = 0;
  double amount = 0;
  std::uint64_t group = 0;
  [[nodiscard]] std::string text() const;
};

/// What is wrong all the time until the faults end; slow links and sites, skew and `gone` stay.
enum class Disturbance { loss, duplication, reordering, flips, slow_links, slow_sites, skew };
inline constexpr std::size_t disturbances = 7;
[[nodiscard]] std::string_view name_of(Disturbance disturbance);

/// A part of what a seed plans. Everything that is left happens as in the whole.
struct Reduction {
  std::optional<std::set<std::uint32_t>> keep;  ///< numbers of faults; none: all
  std::set<Disturbance> without;
  std::optional<std::uint32_t> sites;  ///< the first ones only
  std::optional<double> until;         ///< earlier end of the faults [s]
  /// As options of the program; empty for the whole.
  [[nodiscard]] std::string options() const;
};

struct SitePlan {
  double start = 0;      ///< [s]
  double step_time = 0;  ///< [s]
  double clock_offset = 0, clock_rate = 1;
};

struct PairPlan {
  double latency = 0, bulk_time = 0;  ///< [s]
};

/// What one seed decides before the time begins: the schedule as data. Each part has dice of its own.
struct Plan {
  explicit Plan(std::uint64_t seed, const Reduction& reduction = {});

  std::uint64_t seed;
  std::uint32_t fragments = 2;
  std::vector<SitePlan> sites;
  std::vector<PairPlan> pairs;  ///< [a * sites + b], a < b
  ProtocolConfig protocol;
  outer::Schedule schedule;
  std::vector<Fault> faults;  ///< by time
  double faults_end = 0;      ///< [s] of simulated time
  bool ends = false;          ///< the tokens are so few that the training comes to its end
  double look_every = 0;      ///< [s] between two looks of a gateway
  double gather = 0;          ///< [s] that an island waits for the others before it begins
  double checkpoint_every = 0;
  double linger = 60;  ///< [s] that a finished island serves the others at most
  double loss = 0, duplication = 0, reordering = 0, flips = 0;  ///< share of the letters
  double round_time = 0;  ///< [s] that a round takes at most when nothing is broken
  double time_limit = 0;  ///< [s] after the last fault until all must be one

  [[nodiscard]] Dice dice(std::uint64_t purpose, std::uint64_t index) const { return Dice::of(seed, purpose, index); }
  [[nodiscard]] std::uint32_t site_count() const { return static_cast<std::uint32_t>(sites.size()); }
  [[nodiscard]] std::string describe() const;

 private:
  void plan_protocol();
  void plan_variants();
  void plan_sites(std::uint32_t count);
  void plan_disturbances(const std::set<Disturbance>& without);
  void plan_faults(std::uint32_t count);
  void reduce(const Reduction& reduction);
  void set_limits();
};

}  // namespace Atoll::federation::sim
