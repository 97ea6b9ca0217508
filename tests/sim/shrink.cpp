#include "shrink.hpp"

#include <algorithm>
#include <cmath>
#include <format>
#include <vector>

namespace Atoll::federation::sim {
namespace {

// What is broken, without the numbers in which it shows.
std::string kind_of(const std::string& problem) {
  auto kind = problem.substr(std::min(problem.find(": "), problem.size()));
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind.substr(0, 32);
}

class Shrinker {
 public:
  Shrinker(std::uint64_t seed, Failure whole, Defect defect, const Patience& patience)
      : seed_(seed), best_(std::move(whole)), defect_(defect), runs_left_(patience.runs) {
    ends_ = std::chrono::steady_clock::now() + patience.time;
  }

  Failure shrunk() {
    std::size_t before = 0;
    do {
      before = size();
      drop_faults();
      drop_disturbances();
      drop_sites();
      end_earlier();
    } while (size() < before && !tired());
    return best_;
  }

 private:
  [[nodiscard]] Plan plan() const { return Plan(seed_, best_.reduction); }
  [[nodiscard]] bool tired() const { return runs_left_ == 0 || std::chrono::steady_clock::now() > ends_; }
  [[nodiscard]] std::size_t size() const {
    const auto now = plan();
    return now.faults.size() + disturbances - best_.reduction.without.size() + now.sites.size();
  }

  // True, and it is the best, when this part fails like the whole.
  bool fails(Reduction reduction) {
    if (tired()) return false;
    --runs_left_;
    auto problem = broken_by(seed_, reduction, defect_);
    if (!problem || kind_of(*problem) != kind_of(best_.problem)) return false;
    best_ = {std::move(reduction), std::move(*problem)};
    return true;
  }

  [[nodiscard]] std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    for (const auto& fault : plan().faults) all.push_back(fault.number);
    return all;
  }

  // Leaves out one n-th of the faults after the other; n grows until it is each alone.
  void drop_faults() {
    auto kept = numbers();
    if (!kept.empty() && without(kept, 0, kept.size())) return;
    for (std::size_t parts = 2; !kept.empty() && !tired();) {
      const auto length = (kept.size() + parts - 1) / parts;
      bool fewer = false;
      for (std::size_t begin = 0; begin < kept.size() && !fewer; begin += length)
        fewer = without(kept, begin, std::min(begin + length, kept.size()));
      if (fewer) {
        kept = numbers();
        parts = std::max<std::size_t>(parts - 1, 2);
      } else {
        if (length == 1) return;
        parts = std::min(2 * parts, kept.size());
      }
    }
  }

  bool without(const std::vector<std::uint32_t>& kept, std::size_t begin, std::size_t end) {
    auto part = best_.reduction;
    part.keep.emplace(kept.begin(), kept.end());
    for (auto i = begin; i < end; ++i) part.keep->erase(kept[i]);
    return fails(std::move(part));
  }

  void drop_disturbances() {
    for (std::size_t number = 0; number < disturbances; ++number) {
      auto part = best_.reduction;
      if (part.without.insert(static_cast<Disturbance>(number)).second) fails(std::move(part));
    }
  }

  void drop_sites() {
    for (auto count = plan().site_count(); count > 2; --count) {
      auto part = best_.reduction;
      part.sites = count - 1;
      if (!fails(std::move(part))) return;
    }
  }

  void end_earlier() {
    const auto now = plan();
    const double last = now.faults.empty() ? 0 : now.faults.back().time;
    for (const double share : {0.0, 0.25, 0.5, 0.75}) {
      auto part = best_.reduction;
      // Rounded up to milliseconds, so that it can be written.
      part.until = std::ceil((last + share * (now.faults_end - last)) * 1000 + 1) / 1000;
      if (*part.until < now.faults_end - 0.01 && fails(std::move(part))) return;
    }
  }

  std::uint64_t seed_;
  Failure best_;
  Defect defect_;
  std::size_t runs_left_;
  std::chrono::steady_clock::time_point ends_;
};

}  // namespace

std::optional<std::string> broken_by(std::uint64_t seed, const Reduction& reduction, Defect defect) {
  try {
    World(Plan(seed, reduction), {}, defect).run();
    return std::nullopt;
  } catch (const Broken& broken) {
    return broken.what();
  }
}

Failure shrink(std::uint64_t seed, Failure whole, Defect defect, const Patience& patience) {
  return Shrinker(seed, std::move(whole), defect, patience).shrunk();
}

std::string text_of(std::uint64_t seed, const Failure& failure, Defect defect) {
  const Plan plan(seed, failure.reduction);
  std::string text = std::format("seed {} BROKEN {}\n  {}\n", seed, failure.problem, plan.describe());
  for (const auto& fault : plan.faults) text += "  fault " + fault.text() + '\n';
  return text + std::format("  again: simulate --seed {}{}{}\n", seed, failure.reduction.options(),
                            defect == Defect::none ? "" : " --plant");
}

}  // namespace Atoll::federation::sim
