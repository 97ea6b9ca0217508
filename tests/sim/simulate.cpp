// Runs the protocol of whole federations through random faults; one seed is one schedule. See --help.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <csignal>
#include <deque>
#include <format>
#include <iostream>
#include <sstream>

#include "atoll/device/session.hpp"
#include "shrink.hpp"
#include "summary.hpp"

namespace {

using namespace Atoll::federation::sim;

constexpr auto help = R"(
simulate: federations of 2 to 16 sites under random faults, checked at every event.

The protocols are the real ones; islands, gateways, mailboxes and links are simulated, each site with a clock of its
own. A seed plans a whole schedule: the sites, what is wrong all the time (disturbances: loss, duplication, reordering,
flips, slow_links, slow_sites, skew), and a list of faults, each with a number. Checked at every event:
  - equal version of a fragment in one branch means equal bits
  - versions never go back on a live site, but where the whole model goes to a heavier branch
  - no step is merged twice, and an offer claims no more tokens than it holds
  - a letter with flipped bits is never taken; a site without history never donates
and after the last fault: one branch within a bounded number of rounds, three more commits of every fragment, one end;
where the tokens end during the run, every site comes to its end, and all to the same; and every step that was made is
merged, or kept, or went with an island that died or a branch that was given up, or a note says why it is lost.

A schedule that fails is shrunk and printed with the options that repeat it:
  simulate --seed 17 --keep 3,5 --without loss,skew --sites 3 --until 12.5      prints every event of that part
  simulate --seeds 1000000 --jobs 16                                           many, with the time that is left

Options)";

struct Wanted {
  std::uint64_t first = 1, seeds = 1000, jobs = 1, most_failures = 5;
  bool verbose = false;  ///< print every event of every seed
  Defect defect = Defect::none;
  Reduction reduction;  ///< mostly the whole
};

// For the handler below alone: a broken contract aborts, and then only this says in which schedule.
volatile std::sig_atomic_t seed_under_way = 0;

void tell_seed(int) {
  char text[] = "the schedule under way is that of seed            \n";
  auto* at = text + sizeof text - 3;
  for (auto left = seed_under_way; left > 0 && *at == ' '; left /= 10) *at-- = static_cast<char>('0' + left % 10);
  std::ignore = write(STDERR_FILENO, text, sizeof text - 1);
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Prints the whole schedule of a seed, or of a part of it, step by step.
bool show(std::uint64_t seed, const Reduction& reduction, Defect defect) {
  const Plan plan(seed, reduction);
  std::cout << "seed " << seed << ": " << plan.describe() << '\n';
  for (const auto& fault : plan.faults) std::cout << "  fault " << fault.text() << '\n';
  World world(
      plan, [](const std::string& line) { std::cout << line << '\n'; }, defect);
  try {
    const auto counts = world.run();
    std::cout << std::format("seed {} passes: {} events, {} letters, {} commits, {} branch changes\n", seed,
                             counts.events, counts.letters, counts.commits, counts.joins);
    return true;
  } catch (const Broken& broken) {
    std::cout << "seed " << seed << " BROKEN " << broken.what() << '\n';
    return false;
  }
}

// A failed schedule once more, for its last events.
std::string last_events(std::uint64_t seed, const Reduction& reduction, Defect defect) {
  std::deque<std::string> lines;
  const auto keep = [&](const std::string& line) {
    lines.push_back(line);
    if (lines.size() > 40) lines.pop_front();
  };
  try {
    World(Plan(seed, reduction), keep, defect).run();
  } catch (const Broken&) {
    lines.emplace_back("BROKEN");
  }
  std::string text;
  for (const auto& line : lines) text += "    " + line + '\n';
  return text;
}

// In one piece, so that it stays together when several processes print.
void print(const std::string& text) {
  std::cout << text << std::flush;
}

void report(std::uint64_t seed, const std::string& problem, const Wanted& wanted) {
  print(std::format("seed {} BROKEN {}; shrinking\n", seed, problem));
  const auto least = shrink(seed, {wanted.reduction, problem}, wanted.defect);
  print(text_of(seed, least, wanted.defect) + last_events(seed, least.reduction, wanted.defect));
}

// On long runs, every ten seconds, by the process that has the first share.
class Progress {
 public:
  explicit Progress(const Wanted& wanted) : wanted_(wanted) {}
  void tell(const Summary& share) {
    const double seconds = seconds_since(began_);
    if (seconds < told_ + 10) return;
    told_ = seconds;
    const double all = static_cast<double>(wanted_.seeds), here = static_cast<double>(share.runs * wanted_.jobs);
    std::cerr << std::format("about {:.0f} of {} schedules, {:.0f}/s, {:.0f} s left, {} failures here\n", here,
                             wanted_.seeds, here / seconds, (all - here) * seconds / here, share.failures);
  }

 private:
  const Wanted& wanted_;
  Clock::time_point began_ = Clock::now();
  double told_ = 0;
};

// Every jobs-th seed from `share` on.
Summary run_share(const Wanted& wanted, std::uint64_t share) {
  const Atoll::device::Session session;
  Progress progress(wanted);
  Summary summary;
  for (auto seed = wanted.first + share; seed < wanted.first + wanted.seeds; seed += wanted.jobs) {
    const Plan plan(seed, wanted.reduction);
    seed_under_way = static_cast<std::sig_atomic_t>(seed);
    try {
      if (wanted.verbose) show(seed, wanted.reduction, wanted.defect);
      summary.add(plan, World(plan, {}, wanted.defect).run());
    } catch (const Broken& broken) {
      if (++summary.failures <= wanted.most_failures) report(seed, broken.what(), wanted);
      if (summary.failures >= wanted.most_failures) break;
    }
    if (share == 0) progress.tell(summary);
  }
  return summary;
}

// One process for each share but the first; what they come to is sent through pipes.
class Child {
 public:
  Child(const Wanted& wanted, std::uint64_t share) {
    static_assert(std::is_trivially_copyable_v<Summary>);
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      const auto summary = run_share(wanted, share);
      _exit(write(ends[1], &summary, sizeof summary) == sizeof summary ? 0 : 1);
    }
    close(ends[1]);
    reads_ = ends[0];
  }

  Summary wait() const {
    Summary summary;
    const bool whole = read(reads_, &summary, sizeof summary) == sizeof summary;
    close(reads_);
    int status = 1;
    waitpid(process_, &status, 0);
    if (whole && status == 0) return summary;
    Summary none;
    none.failures = 1;
    return none;
  }

 private:
  pid_t process_;
  int reads_;
};

int run_all(const Wanted& wanted) {
  const auto began = Clock::now();
  std::vector<Child> children;
  for (std::uint64_t share = 1; share < wanted.jobs; ++share) children.emplace_back(wanted, share);
  auto summary = run_share(wanted, 0);
  for (const auto& child : children) summary += child.wait();
  print(summary.table(seconds_since(began)));
  return summary.failures == 0 ? 0 : 1;
}

// The planted defect needs a clock that jumped and a site that died: its schedules must shrink to these two faults.
int check_shrinker(const Wanted& wanted) {
  const Atoll::device::Session session;
  std::size_t found = 0, exact = 0;
  for (auto seed = wanted.first; seed < wanted.first + wanted.seeds && found < 10; ++seed) {
    const auto problem = broken_by(seed, {}, Defect::forgetful);
    if (!problem) continue;
    ++found;
    const auto least = shrink(seed, {{}, *problem}, Defect::forgetful);
    print(text_of(seed, least, Defect::forgetful));
    const auto faults = Plan(seed, least.reduction).faults;
    const bool two = faults.size() == 2 && faults[0].kind == FaultKind::jump &&
                     (faults[1].kind == FaultKind::crash || faults[1].kind == FaultKind::rewind);
    exact +=
        two && broken_by(seed, least.reduction, Defect::forgetful) && !broken_by(seed, least.reduction, Defect::none);
  }
  print(std::format("{} schedules with the planted defect fail, {} shrink to its two faults\n", found, exact));
  return found == 10 && exact == found ? 0 : 1;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

Reduction reduction_of(const boost::program_options::variables_map& given) {
  Reduction reduction;
  if (given.contains("keep")) {
    reduction.keep.emplace();
    for (const auto& part : parts_of(given["keep"].as<std::string>()))
      if (part != "none") reduction.keep->insert(static_cast<std::uint32_t>(std::stoul(part)));
  }
  if (given.contains("without"))
    for (const auto& part : parts_of(given["without"].as<std::string>()))
      for (std::size_t number = 0; number < disturbances; ++number)
        if (name_of(static_cast<Disturbance>(number)) == part)
          reduction.without.insert(static_cast<Disturbance>(number));
  if (given.contains("sites")) reduction.sites = given["sites"].as<std::uint32_t>();
  if (given.contains("until")) reduction.until = given["until"].as<double>();
  return reduction;
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  std::signal(SIGABRT, tell_seed);
  Wanted wanted;
  po::options_description options(help);
  options.add_options()("help", "this text")("first", po::value(&wanted.first)->default_value(wanted.first),
                                             "first seed")(
      "seeds", po::value(&wanted.seeds)->default_value(wanted.seeds), "how many seeds")(
      "jobs", po::value(&wanted.jobs)->default_value(wanted.jobs), "processes")(
      "verbose", po::bool_switch(&wanted.verbose), "print the events of every seed")(
      "failures", po::value(&wanted.most_failures)->default_value(wanted.most_failures),
      "stop a process after so many")("seed", po::value<std::uint64_t>(), "run this one only and print its events")(
      "keep", po::value<std::string>(), "of every seed only the faults with these numbers: 3,5 or none")(
      "without", po::value<std::string>(), "of every seed without these disturbances: loss,skew")(
      "sites", po::value<std::uint32_t>(), "of every seed only so many sites")(
      "until", po::value<double>(), "of every seed only the time until then [s of simulated time]")(
      "plant", "with a defect that shows when a clock jumped and then a site died")(
      "check-shrinker", "plant the defect, and see that failing schedules shrink to these two faults");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, options), given);
  po::notify(given);
  if (given.contains("help")) {
    std::cout << options;
    return 0;
  }
  if (given.contains("check-shrinker")) return check_shrinker(wanted);
  if (given.contains("plant")) wanted.defect = Defect::forgetful;
  wanted.reduction = reduction_of(given);
  if (given.contains("seed")) {
    const Atoll::device::Session session;
    return show(given["seed"].as<std::uint64_t>(), wanted.reduction, wanted.defect) ? 0 : 1;
  }
  return run_all(wanted);
}
