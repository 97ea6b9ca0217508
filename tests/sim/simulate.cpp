// Runs the protocol of whole federations through random faults; one seed is one schedule. See --help.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <deque>
#include <format>
#include <iostream>

#include "atoll/device/session.hpp"
#include "world.hpp"

namespace {

using Atoll::federation::sim::Broken;
using Atoll::federation::sim::Counts;
using Atoll::federation::sim::World;

struct Wanted {
  std::uint64_t first = 1, seeds = 1000, jobs = 1, most_failures = 5;
  bool verbose = false;  ///< print every event of every seed
};

// Prints the whole schedule of a seed, step by step.
bool show(std::uint64_t seed) {
  World world(seed, [](const std::string& line) { std::cout << line << '\n'; });
  std::cout << "seed " << seed << ": " << world.describe() << '\n';
  try {
    const auto counts = world.run();
    std::cout << std::format(
        "seed {} passes: {} events, {} letters, {} commits, {} branch changes, {} crashes, {} cuts\n", seed,
        counts.events, counts.letters, counts.commits, counts.joins, counts.crashes, counts.cuts);
    return true;
  } catch (const Broken& broken) {
    std::cout << "seed " << seed << " BROKEN " << broken.what() << '\n';
    return false;
  }
}

// A failed schedule once more, for its last events.
std::string last_events(std::uint64_t seed) {
  std::deque<std::string> lines;
  try {
    World(seed, [&](const std::string& line) {
      lines.push_back(line);
      if (lines.size() > 40) lines.pop_front();
    }).run();
  } catch (const Broken&) {
  }
  std::string text;
  for (const auto& line : lines) text += "  " + line + '\n';
  return text;
}

// Every jobs-th seed from `share` on; the number of failures.
std::uint64_t run_share(const Wanted& wanted, std::uint64_t share) {
  const Atoll::device::Session session;
  const auto began = std::chrono::steady_clock::now();
  Counts sum;
  std::uint64_t failures = 0, runs = 0, slowest_seed = 0;
  double slowest = 0;
  for (auto seed = wanted.first + share; seed < wanted.first + wanted.seeds; seed += wanted.jobs, ++runs) {
    if (wanted.verbose) {
      failures += show(seed) ? 0 : 1;
      continue;
    }
    World world(seed);
    try {
      const auto counts = world.run();
      sum += counts;
      if (counts.seconds_to_agree > slowest) {
        slowest = counts.seconds_to_agree;
        slowest_seed = seed;
      }
    } catch (const Broken& broken) {
      std::cout << std::format("seed {} BROKEN {} ({})\n", seed, broken.what(), world.describe()) << std::flush;
      if (failures == 0) std::cout << "the last events; all of them: --seed " << seed << '\n' << last_events(seed);
      if (++failures >= wanted.most_failures) break;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  std::cout << std::format(
                   "{} schedules in {:.1f} s, {} failures: {} events, {} letters, {} commits, {} branch changes, {} "
                   "crashes, {} cuts, "
                   "{} inner steps, {} dropped unmerged; slowest agreement {:.1f} s (seed {})\n",
                   runs, seconds.count(), failures, sum.events, sum.letters, sum.commits, sum.joins, sum.crashes,
                   sum.cuts, sum.steps, sum.steps_dropped, slowest, slowest_seed)
            << std::flush;
  return failures;
}

int run_all(const Wanted& wanted) {
  std::vector<pid_t> children;
  for (std::uint64_t share = 1; share < wanted.jobs; ++share) {
    const auto child = fork();
    if (child == 0) _exit(run_share(wanted, share) == 0 ? 0 : 1);
    children.push_back(child);
  }
  bool good = run_share(wanted, 0) == 0;
  for (const auto child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    good &= status == 0;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Wanted wanted;
  po::options_description options("simulate: federations under random faults, checked at every event");
  options.add_options()("help", "this text")("seed", po::value<std::uint64_t>(), "run this one and print its events")(
      "first", po::value(&wanted.first)->default_value(wanted.first), "first seed")(
      "seeds", po::value(&wanted.seeds)->default_value(wanted.seeds), "how many seeds")(
      "jobs", po::value(&wanted.jobs)->default_value(wanted.jobs), "processes")(
      "verbose", po::bool_switch(&wanted.verbose), "print the events of every seed")(
      "failures", po::value(&wanted.most_failures)->default_value(wanted.most_failures), "stop after so many");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, options), given);
  po::notify(given);
  if (given.contains("help")) {
    std::cout << options;
    return 0;
  }
  if (given.contains("seed")) {
    const Atoll::device::Session session;
    return show(given["seed"].as<std::uint64_t>()) ? 0 : 1;
  }
  return run_all(wanted);
}
