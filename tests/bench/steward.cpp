// How much work is a steward's round beside one read of the offers' bytes through memory?
//
//     steward [--values N] [--offers M] [--fragments P] [--repetitions R]
//
// A model of N values (default 25,000,000) lies in P fragments (default 1); M offers (default 4) of each are gated
// (finite values, norm), merged, and make the next anchor and momentum and their digest. Prints JSON: for each merge
// rule the medians over R repetitions (default 9) in seconds of the processor, and the ratio to reading all offers
// once, which is measured between the repetitions. "gate_in_merge" takes the norms that come with the merge;
// "gate_at_arrival" reads each offer once more.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "atoll/device/kernel.hpp"
#include "atoll/device/session.hpp"
#include "atoll/federation/outer_round.hpp"

namespace {

using namespace Atoll;
using Floats = std::vector<float>;

struct Sizes {
  std::size_t values = 25'000'000, offers = 4, fragments = 1, repetitions = 9;
};

struct Fragment {
  std::vector<Floats> offers;
  std::vector<outer::Segment> segments;
  store::Values anchor, momentum;
  Version version = 0;
};

// Processor time of this program, which has one thread: others on the machine must not count.
double seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

// Matrices of a million values and the vectors beside them, as in a GPT of width 512.
std::vector<outer::Segment> segments_of(std::size_t size) {
  constexpr std::size_t matrix = 512 * 2048, vector = 2048;
  std::vector<outer::Segment> segments;
  for (std::size_t offset = 0; offset < size;) {
    const bool is_matrix = segments.size() % 2 == 0;
    const auto count = std::min(is_matrix ? matrix : vector, size - offset);
    segments.push_back({offset, count, is_matrix ? outer::TensorKind::matrix : outer::TensorKind::vector});
    offset += count;
  }
  return segments;
}

std::vector<Fragment> fragments_of(const Sizes& sizes) {
  std::uint32_t random = 1;
  const auto next = [&] { return static_cast<float>((random = random * 1664525 + 1013904223) >> 8) * 0x1p-24F - 0.5F; };
  std::vector<Fragment> fragments(sizes.fragments);
  for (std::size_t f = 0; f < fragments.size(); ++f) {
    const auto size = sizes.values * (f + 1) / sizes.fragments - sizes.values * f / sizes.fragments;
    const auto random_values = [&] {
      Floats values(size);
      std::ranges::generate(values, next);
      return values;
    };
    auto& fragment = fragments[f];
    for (std::size_t k = 0; k < sizes.offers; ++k) fragment.offers.push_back(random_values());
    fragment.segments = segments_of(size);
    fragment.anchor = std::make_shared<const Floats>(random_values());
    fragment.momentum = std::make_shared<const Floats>(size, 0.0F);
  }
  return fragments;
}

// As fast as memory gives them: nothing is done with the bytes but integer additions.
ATOLL_KERNEL std::uint32_t sum_of_words(const float* values, std::size_t count) {
  constexpr std::size_t lane_count = 32;
  std::uint32_t lanes[lane_count] = {};
  for (std::size_t i = 0; i + lane_count <= count; i += lane_count)
    for (std::size_t lane = 0; lane < lane_count; ++lane) lanes[lane] += std::bit_cast<std::uint32_t>(values[i + lane]);
  std::uint32_t sum = 0;
  for (const auto lane : lanes) sum += lane;
  return sum;
}

std::uint64_t read_offers(const std::vector<Fragment>& fragments) {
  std::uint64_t sum = 0;
  for (const auto& fragment : fragments)
    for (const auto& offer : fragment.offers) sum += sum_of_words(offer.data(), offer.size());
  return sum;
}

bool passes(double norm) {
  return norm < 1e30;
}

void gate(const std::vector<Fragment>& fragments) {
  for (const auto& fragment : fragments)
    for (const auto& offer : fragment.offers)
      if (!passes(outer::norm(offer))) throw std::runtime_error("an offer fails the gate");
}

void merge(std::vector<Fragment>& fragments, const federation::OuterRound& round) {
  for (auto& f : fragments) {
    const std::vector<std::span<const float>> gradients(f.offers.begin(), f.offers.end());
    const Floats shares(gradients.size(), 1.0F / static_cast<float>(gradients.size()));
    auto next = round.merge(gradients, shares, f.segments, {*f.anchor, *f.momentum, f.version});
    if (!next.finite || !std::ranges::all_of(next.norms, passes)) throw std::runtime_error("a gate fails");
    f.anchor = std::move(next.anchor);
    f.momentum = std::move(next.state);
    ++f.version;
  }
}

nlohmann::json measure(std::vector<Fragment>& fragments, const Sizes& sizes, outer::MergeRule rule) {
  const federation::OuterRound round({.rule = rule}, {.learning_rate = 0.01F});
  std::map<std::string, std::vector<double>> samples;
  volatile std::uint64_t sum = 0;
  for (std::size_t repetition = 0; repetition <= sizes.repetitions; ++repetition) {
    const double read = seconds([&] { sum = sum + read_offers(fragments); });
    const double merged = seconds([&] { merge(fragments, round); });
    const double gated = seconds([&] { gate(fragments); });
    if (repetition == 0) continue;  // fills the spare memory
    samples["read"].push_back(read);
    samples["gate_in_merge"].push_back(merged);
    samples["gate_at_arrival"].push_back(merged + gated);
  }
  nlohmann::json result;
  for (const auto& [name, times] : samples) result["seconds"][name] = median(times);
  for (const auto* name : {"gate_in_merge", "gate_at_arrival"})
    result["ratio"][name] = result["seconds"][name].get<double>() / result["seconds"]["read"].get<double>();
  return result;
}

Sizes parse(int argc, char** argv) {
  Sizes sizes;
  const std::map<std::string, std::size_t*> options{{"--values", &sizes.values},
                                                    {"--offers", &sizes.offers},
                                                    {"--fragments", &sizes.fragments},
                                                    {"--repetitions", &sizes.repetitions}};
  for (int i = 1; i < argc; i += 2) {
    const auto option = options.find(argv[i]);
    if (option == options.end() || i + 1 == argc) throw std::runtime_error(std::string("cannot read ") + argv[i]);
    *option->second = std::stoull(argv[i + 1]);
    if (*option->second == 0) throw std::runtime_error(option->first + " must be positive");
  }
  return sizes;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto sizes = parse(argc, argv);
  const device::Session session;
  auto fragments = fragments_of(sizes);
  nlohmann::json report{{"benchmark", "steward"},
                        {"git", ATOLL_REVISION},
                        {"values", sizes.values},
                        {"offers", sizes.offers},
                        {"fragments", sizes.fragments},
                        {"repetitions", sizes.repetitions},
                        {"limit", 3.0}};
  report["mean"] = measure(fragments, sizes, outer::MergeRule::mean);
  report["radial_directional"] = measure(fragments, sizes, outer::MergeRule::radial_directional);
  std::cout << report.dump(2) << '\n';
} catch (const std::exception& error) {
  std::cerr << "steward: " << error.what() << '\n';
  return 64;
}
