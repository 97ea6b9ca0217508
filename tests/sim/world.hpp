#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "atoll/federation/mailbox.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/outer/schedule.hpp"
#include "dice.hpp"
#include "ledger.hpp"
#include "own_work.hpp"

namespace Atoll::federation::sim {

/// What one seed decides before the time begins.
struct Plan {
  explicit Plan(std::uint64_t seed);

  Dice dice;
  std::uint32_t sites, fragments;
  ProtocolConfig protocol;
  outer::Schedule schedule;
  double faults_end;         ///< [s] of simulated time
  double seconds_per_fault;  ///< mean
  bool ends;                 ///< the tokens are so few that the training comes to its end
  double look_every;         ///< [s] between two looks of a gateway
  double gather;             ///< [s] that an island waits for the others before it begins
  double checkpoint_every;   ///< [s]
  double linger = 60;        ///< [s] that a finished island serves the others at most
  double loss, duplication;  ///< share of the letters; mailboxes do neither, so mostly 0
  double time_limit;         ///< [s] after the last fault until all must be one
};

/// Counted over a run, for the summary.
struct Counts {
  /// steps_dropped: made by a start of a site with history, then replaced though no anchor holds them.
  std::uint64_t events = 0, letters = 0, commits = 0, joins = 0, crashes = 0, cuts = 0, steps = 0, steps_dropped = 0;
  double seconds_to_agree = 0;
  Counts& operator+=(const Counts& other);
};

/// A federation in one process: real protocols; islands, mailboxes and links in simulated time, broken by the dice.
/// The driver repeats what Gateway, OuterLoop and IslandGateway do.
class World {
 public:
  using Trace = std::function<void(const std::string&)>;
  explicit World(std::uint64_t seed, Trace trace = {});

  /// From the first start until all sites agree after the last fault. @throws Broken
  Counts run();
  [[nodiscard]] std::string describe() const;

 private:
  struct PendingAdoption {
    Adoption adoption;
    bool had_history = false;  ///< before
  };
  struct Island {  ///< what a checkpoint holds
    std::vector<FragmentState> fragments;
    std::vector<std::vector<float>> parameters;
    std::vector<OwnWork> work;  ///< by fragment
    std::uint64_t steps = 0;
  };
  struct Site {
    std::optional<Protocol> protocol;  ///< none: the island is down
    Island island;                     ///< its `fragments` are current only in checkpoints
    std::deque<Island> checkpoints;
    std::deque<PendingAdoption> adoptions;
    std::vector<std::pair<Version, Digest>> held;  ///< by fragment, as of the last look of the ledger
    std::vector<std::uint64_t> noted_lost;         ///< by fragment: tokens that this start says are lost
    std::optional<FragmentId> offering;
    std::uint64_t start = 0;  ///< number of this start: events of earlier ones are void
    Incarnation incarnation = 0;
    double started = 0, finished_at = 0, leave_until = 0, step_time = 0.5;
    std::uint32_t first_step = 0;  ///< of this start
    bool begun = false, leaving = false;
    bool finished = false;  ///< nothing is left to train: lingers
    bool gone = false;      ///< for good: trained to the end, or away since the last fault
  };
  struct Flight {
    store::Letter letter;
    double arrival = 0;
  };
  struct Line {                         ///< letters from one site to another
    std::deque<store::Letter> waiting;  ///< in the gateway
    std::array<std::deque<Flight>, lanes> posted;
    std::array<double, lanes> last_arrival{};
    double seen = -1e9;           ///< when the sender last saw the receiver's island alive
    Incarnation incarnation = 0;  ///< of the receiver, as the sender knows it
    bool alive = false;
  };
  struct Pair {
    bool cut = false;
    double latency = 0.02, bulk_time = 0.1, session_at = 0;
  };
  enum class Phase { agreeing, growing, stopping, done };  ///< after the last fault
  enum class Kind { look, step, arrival, fault, start, heal, checkpoint };
  struct Event {
    double time = 0;
    std::uint64_t order = 0;
    Kind kind{};
    std::uint32_t a = 0, b = 0;
    std::uint64_t mark = 0;  ///< the start of the site, or the lane
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };

  // world.cpp: time
  void at(double time, Kind kind, std::uint32_t a = 0, std::uint32_t b = 0, std::uint64_t mark = 0);
  void happen(const Event& event);
  [[nodiscard]] Seconds now() const { return Seconds{now_}; }
  template <class Text>
  void say(Text&& text) const {
    if (trace_) trace_(text());
  }

  // faults.cpp
  void fault();
  void crash(std::uint32_t i);
  void stop_in_order(std::uint32_t i);
  void start(std::uint32_t i);
  void split();
  void cut(std::uint32_t a, std::uint32_t b, double seconds);
  void heal(std::uint32_t a, std::uint32_t b);
  void end_faults();

  // links.cpp: gateways, mailboxes, links
  [[nodiscard]] Line& line(std::uint32_t from, std::uint32_t to) { return lines_[from * plan_.sites + to]; }
  [[nodiscard]] Pair& pair(std::uint32_t a, std::uint32_t b) {
    return pairs_[std::min(a, b) * plan_.sites + std::max(a, b)];
  }
  [[nodiscard]] bool linked(std::uint32_t a, std::uint32_t b);
  void look(std::uint32_t i);
  void observe(std::uint32_t i, std::uint32_t peer);
  void dispatch(std::uint32_t i);
  void post(std::uint32_t from, std::uint32_t to);
  void arrival(std::uint32_t from, std::uint32_t to, std::size_t lane);
  void new_session(std::uint32_t a, std::uint32_t b);

  // islands.cpp: the training side, and what the ledger sees
  void step(std::uint32_t i);
  void adopt(std::uint32_t i);
  void adopt(std::uint32_t i, const PendingAdoption& pending);
  void check_parameters(std::uint32_t i, FragmentId f, const store::Values& anchor) const;
  void offer(std::uint32_t i, FragmentId f);
  void checkpoint(std::uint32_t i);
  void examine(std::uint32_t i);
  void examine_notes(std::uint32_t i, const std::vector<Note>& notes, const std::vector<Adoption>& adoptions);
  void note_offer(std::uint32_t i, const Note& note);
  void take_adoptions(std::uint32_t i, std::vector<Adoption> adoptions);
  void check_agreement();
  void check_end();
  void leave_for_good(std::uint32_t i);
  [[nodiscard]] bool agree() const;
  [[nodiscard]] bool one_branch() const;
  [[nodiscard]] std::string text_of_held() const;
  [[nodiscard]] Version lowest_version() const;

  Plan plan_;
  Trace trace_;
  Dice dice_;
  Ledger ledger_;
  Counts counts_;
  std::vector<Site> sites_;
  std::vector<Line> lines_;
  std::vector<Pair> pairs_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  std::uint64_t order_ = 0, starts_ = 0;
  std::uint32_t inner_steps_ = 0;
  bool faulty_ = true, training_ = true, changed_ = false;
  Phase phase_ = Phase::agreeing;
  double phase_began_ = 0, changed_at_ = 0;
  bool one_end_ = true;          ///< when the first site ended, all knew one another
  Version lowest_at_start_ = 0;  ///< of the growing
};

}  // namespace Atoll::federation::sim
