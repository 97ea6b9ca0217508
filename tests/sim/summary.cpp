#include "summary.hpp"

#include <format>

namespace Atoll::federation::sim {

void Summary::add(const Plan& plan, const Counts& counts) {
  Summary one;
  one.runs = 1;
  one.sum = counts;
  one.runs_with_sites.at(plan.sites.size()) = 1;
  one.slowest_seconds = counts.seconds_to_agree;
  one.slowest_rounds = counts.rounds_to_agree;
  one.slowest_seed = one.most_rounds_seed = plan.seed;
  *this += one;
}

Summary& Summary::operator+=(const Summary& other) {
  runs += other.runs;
  failures += other.failures;
  sum += other.sum;
  for (std::size_t i = 0; i < runs_with_sites.size(); ++i) runs_with_sites[i] += other.runs_with_sites[i];
  if (other.slowest_seconds > slowest_seconds) {
    slowest_seconds = other.slowest_seconds;
    slowest_seed = other.slowest_seed;
  }
  if (other.slowest_rounds > slowest_rounds) {
    slowest_rounds = other.slowest_rounds;
    most_rounds_seed = other.most_rounds_seed;
  }
  return *this;
}

std::string Summary::table(double seconds) const {
  auto text = std::format("{} schedules in {:.1f} s ({:.0f}/s), {} failures\n", runs, seconds,
                          static_cast<double>(runs) / seconds, failures);
  text += "  by sites    ";
  for (std::size_t i = 2; i < runs_with_sites.size(); ++i) text += std::format(" {}:{}", i, runs_with_sites[i]);
  text += "\n  faults      ";
  for (std::size_t kind = 0; kind < fault_kinds; ++kind)
    text += std::format(" {}:{}", name_of(static_cast<FaultKind>(kind)), sum.faults[kind]);
  text +=
      std::format("\n  letters      {} carried, {} lost, {} carried again, {} overtaken, {} refused for flipped bits",
                  sum.letters, sum.lost, sum.duplicated, sum.reordered, sum.flipped);
  text += std::format(
      "\n  training     {} events, {} inner steps, {} commits, {} branch changes, {} steps dropped where "
      "progress is kept",
      sum.events, sum.steps, sum.commits, sum.joins, sum.steps_dropped);
  text += std::format("\n  not merged   {} steps in branches that were given up", sum.steps_of_lighter);
  return text + std::format("\n  agreement    slowest {:.1f} s (seed {}), {:.1f} rounds (seed {})\n", slowest_seconds,
                            slowest_seed, slowest_rounds, most_rounds_seed);
}

}  // namespace Atoll::federation::sim
