#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <format>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "atoll/federation/mailbox.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/federation/waiting_letters.hpp"
#include "dice.hpp"
#include "ledger.hpp"
#include "own_work.hpp"
#include "plan.hpp"

namespace Atoll::federation::sim {

/// Counted over a run, for the summary. Only numbers: it is sent between processes as it is.
struct Counts {
  /// steps_dropped: made by a start of a site with history, then replaced though no anchor holds them.
  std::uint64_t events = 0, letters = 0, commits = 0, joins = 0, steps = 0, steps_dropped = 0;
  /// At the end neither merged nor kept, by fragment: steps of a branch that was given up, and those that no note
  /// explains.
  std::uint64_t steps_of_lighter = 0;
  std::uint64_t lost = 0, duplicated = 0, reordered = 0, flipped = 0;
  std::array<std::uint64_t, fault_kinds> faults{};  ///< that met a site in a state in which it could happen
  double seconds_to_agree = 0, rounds_to_agree = 0;
  Counts& operator+=(const Counts& other);
};

/// A defect of the driver, to see whether it is found and its schedule shrunk.
enum class Defect {
  none,
  forgetful,  ///< once the clock of a site has jumped, a site that dies goes on with old fragments instead
};

/// A federation in one process: real protocols; islands, mailboxes and links in simulated time, broken by the dice.
/// The driver repeats what Gateway, OuterLoop and IslandGateway do.
class World {
 public:
  using Trace = std::function<void(const std::string&)>;
  explicit World(Plan plan, Trace trace = {}, Defect defect = Defect::none);

  /// From the first start until all sites agree after the last fault. @throws Broken
  Counts run();

 private:
  struct PendingAdoption {
    Adoption adoption;
    Contents on_its_way;       ///< what the outstanding offer holds
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
    double started = 0, finished_at = 0;  ///< [s] of its own clock
    double leave_until = 0;
    Dice dice{0}, noise{0};  ///< of its pace, and of its training
    double clock_jumps = 0;  ///< [s] by which its clock is ahead of plan
    double slow_until = 0, slow_factor = 1;
    double gateway_since = 0, gateway_until = 0, training_until = 0, frozen_until = 0;  ///< what stands still
    std::size_t back = 0;          ///< how many checkpoints the next start goes back
    std::uint32_t first_step = 0;  ///< of this start
    bool begun = false, leaving = false;
    bool finished = false;  ///< nothing is left to train: lingers
    bool gone = false;      ///< for good: trained to the end
    bool departed = false;  ///< for good, whatever the others do
  };
  struct Flight {
    store::Letter letter;
    double arrival = 0;
    bool flipped = false;  ///< bits will be flipped on the way
  };
  struct Stray {  ///< a letter beside its line: a late copy, or one that is overtaken
    store::Letter letter;
    bool copy = false;
  };
  struct Line {              ///< letters from one site to another
    WaitingLetters waiting;  ///< in the gateway
    std::array<std::deque<Flight>, lanes> posted;
    std::array<double, lanes> last_arrival{};
    double seen = -1e9;           ///< when the sender last saw the receiver's island alive [s] of its own clock
    Incarnation incarnation = 0;  ///< of the receiver, as the sender knows it
    bool alive = false;
  };
  struct Pair {
    bool cut = false;
    double session_at = 0;
  };
  enum class Phase { agreeing, growing, stopping, done };  ///< after the last fault
  enum class Kind { look, step, arrival, stray, fault, start, heal, repair, wake, checkpoint };
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
  /// What the clock of a site shows: the only time that its protocol sees.
  [[nodiscard]] Seconds now(std::uint32_t i) const;
  [[nodiscard]] bool frozen(std::uint32_t i) const;
  [[nodiscard]] bool gateway_stands(std::uint32_t i) const;
  template <class Text>
  void say(Text&& text) const {
    if (trace_) trace_(std::format("{:9.3f} {}", now_, text()));
  }

  // faults.cpp
  void fault(const Fault& fault);
  [[nodiscard]] bool strike(const Fault& fault);
  [[nodiscard]] bool stop_in_order(std::uint32_t i);
  void crash(std::uint32_t i);
  void forget(std::uint32_t i);
  void stand_still(const Fault& fault);
  void jump(std::uint32_t i, double seconds);
  void start(std::uint32_t i);
  void load(std::uint32_t i);
  [[nodiscard]] Incarnation incarnation_of(std::uint32_t i, const std::vector<FragmentState>& fragments) const;
  void split(std::uint64_t group, double seconds);
  void cut(std::uint32_t a, std::uint32_t b, double seconds);
  void heal(std::uint32_t a, std::uint32_t b);
  void end_faults();

  // links.cpp: gateways, mailboxes, links
  [[nodiscard]] std::size_t place(std::uint32_t a, std::uint32_t b) const { return a * plan_.site_count() + b; }
  [[nodiscard]] Line& line(std::uint32_t from, std::uint32_t to) { return lines_[place(from, to)]; }
  [[nodiscard]] Dice& line_dice(std::uint32_t from, std::uint32_t to) { return line_dice_[place(from, to)]; }
  [[nodiscard]] Pair& pair(std::uint32_t a, std::uint32_t b) { return pairs_[place(std::min(a, b), std::max(a, b))]; }
  [[nodiscard]] const PairPlan& link(std::uint32_t a, std::uint32_t b) const {
    return plan_.pairs[place(std::min(a, b), std::max(a, b))];
  }
  [[nodiscard]] bool linked(std::uint32_t a, std::uint32_t b);
  void look(std::uint32_t i);
  void begin_if_ready(std::uint32_t i);
  void end_if_served(std::uint32_t i);
  [[nodiscard]] bool all_delivered(std::uint32_t i);
  void see(std::uint32_t i, std::uint32_t peer);
  void observe(std::uint32_t i, std::uint32_t peer);
  void dispatch(std::uint32_t i);
  void post(std::uint32_t from, std::uint32_t to);
  void arrival(std::uint32_t from, std::uint32_t to, std::size_t lane);
  [[nodiscard]] bool damaged(std::uint32_t from, std::uint32_t to, const store::Letter& letter);
  void go_astray(std::uint32_t from, std::uint32_t to, Stray stray, double delay);
  void stray(std::uint32_t from, std::uint32_t to, std::size_t number);
  void deliver(std::uint32_t from, std::uint32_t to, const store::Letter& letter);
  void new_session(std::uint32_t a, std::uint32_t b);
  void wake(std::uint32_t i);

  // islands.cpp: the training side, and what the ledger sees
  void step(std::uint32_t i);
  void adopt(std::uint32_t i);
  void adopt(std::uint32_t i, const PendingAdoption& pending);
  void check_parameters(std::uint32_t i, FragmentId f, const store::Values& anchor) const;
  void offer(std::uint32_t i, FragmentId f);
  void checkpoint(std::uint32_t i);
  void examine(std::uint32_t i);
  struct Changes {
    bool switched = false;  ///< to another branch
    bool back = false;      ///< to an older version of the own branch
  };
  Changes compare(std::uint32_t i, const std::vector<std::pair<Version, Digest>>& held);
  void weigh(std::uint32_t i, const std::vector<std::pair<Version, Digest>>& held);
  void examine_notes(std::uint32_t i, const std::vector<Note>& notes, const std::vector<Adoption>& adoptions);
  void note_offer(std::uint32_t i, const Note& note);
  void take_adoptions(std::uint32_t i, std::vector<Adoption> adoptions);

  // endings.cpp: what must hold after the last fault
  void check_agreement();
  void check_end();
  void settle_accounts();
  [[nodiscard]] static const OutstandingOffer* outstanding(const Site& site, FragmentId f);
  void leave_for_good(std::uint32_t i);
  [[nodiscard]] bool agree() const;
  [[nodiscard]] bool one_branch() const;
  [[nodiscard]] std::string text_of_held() const;
  [[nodiscard]] Version lowest_version() const;

  Plan plan_;
  Trace trace_;
  Defect defect_;
  Ledger ledger_;
  Counts counts_;
  std::vector<Site> sites_;
  std::vector<Line> lines_;
  std::vector<Pair> pairs_;
  std::vector<Dice> line_dice_;
  std::vector<Stray> strays_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  std::uint64_t order_ = 0, starts_ = 0;
  std::uint32_t inner_steps_ = 0;
  Contents made_;                      ///< every step of every site
  std::vector<Contents> rolled_back_;  ///< by fragment: what a site knew when it died and no more when it came back
  std::vector<std::uint64_t> tokens_lost_;  ///< by fragment: as protocols say
  bool faulty_ = true, training_ = true, changed_ = false, jumped_ = false;
  Phase phase_ = Phase::agreeing;
  double phase_began_ = 0, changed_at_ = 0;
  bool one_end_ = true;          ///< when the first site ended, all knew one another
  Version lowest_at_start_ = 0;  ///< of the growing
};

}  // namespace Atoll::federation::sim
