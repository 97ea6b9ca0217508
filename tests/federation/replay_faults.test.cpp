#include <gtest/gtest.h>

#include <array>
#include <random>
#include <sstream>

#include "recorded_run.hpp"

namespace Atoll::federation::test {
namespace {

/// Three sites that are killed, brought back from older checkpoints, cut off and met again by a seed's dice.
class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed) : dice_(static_cast<std::minstd_rand::result_type>(seed)) {
    run_.sites().config().staleness = seed % 3;
    run_.sites().config().stewardship = seed % 2 == 0 ? Stewardship::first : Stewardship::spread;
    for (std::size_t i = 0; i < 3; ++i) {
      run_.start(i);
      saved_[i] = {run_.sites().beginning()};
    }
    for (int event = 0; event < 150; ++event) something();
  }
  RecordedRun& run() { return run_; }
  bool lives(std::size_t i) { return run_.sites().site(i).protocol.has_value(); }

 private:
  std::size_t below(std::size_t n) { return dice_() % n; }

  void something() {
    const auto i = below(3);
    const auto what = below(20);
    if (what == 0 && lives(i))
      return below(2) == 0 ? run_.kill(i) : run_.sites().kill(i);  // with and without last words
    if (!lives(i)) return run_.start(i, saved_[i][below(saved_[i].size())]);
    if (what == 1) return run_.sites().connect(i, (i + 1 + below(2)) % 3, below(3) > 0);
    if (what <= 3) return save(i);
    if (what <= 6) return run_.sites().pass(0.5 * static_cast<double>(1 + below(12)));
    if (what <= 11) return run_.sites().deliver([this](SiteId, const Send&) { return below(8) == 0; });
    run_.sites().step(i, 0.01F * static_cast<float>(1 + below(100)));
    if (what > 14) run_.sites().offer_all(i);
  }
  // As an island does: the newest two are kept, and those of a future that was given up go.
  void save(std::size_t i) {
    saved_[i].push_back(run_.checkpoint(i));
    if (saved_[i].size() > 2) saved_[i].erase(saved_[i].begin());
  }

  std::minstd_rand dice_;
  RecordedRun run_{KeepLetters::all, 0, 3};
  std::array<std::vector<std::vector<FragmentState>>, 3> saved_;
};

/// Commits whose weights do not sum to 1, because an offer was late.
std::size_t damped(const std::vector<std::string>& lines) {
  std::size_t count = 0;
  for (const auto& line : lines) {
    const auto begin = line.find(R"("weights":[)");
    if (begin == std::string::npos) continue;
    double sum = 0;
    std::istringstream numbers(line.substr(begin + 11));
    char separator = ',';
    for (double weight = 0; separator == ',' && numbers >> weight >> separator;) sum += weight;
    count += sum < 0.99 ? 1 : 0;
  }
  return count;
}

TEST(Replay, RunsUnderRandomFaultsAreRepeatedToTheSameDigests) {
  Repeated all;
  std::size_t late = 0;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun random(seed);
    for (std::size_t i = 0; i < 3; ++i) {
      if (random.lives(i)) random.run().checkpoint(i);
      const auto done = random.run().replayed(i);
      ASSERT_EQ(text_of(done), "equal") << "site " << i;
      all.merges += done.merges;
      all.commits += done.commits;
      all.snapshots += done.snapshots;
      all.starts += done.starts;
      late += damped(random.run().lines(i));
      if (!random.lives(i)) continue;
      for (std::uint32_t f = 0; f < 2; ++f)
        EXPECT_EQ(done.fragments[f].digest, random.run().sites().state(i, f).digest);
    }
  }
  EXPECT_GT(all.merges, 500);
  EXPECT_GT(all.commits, 100);
  EXPECT_GT(all.snapshots, 50);
  EXPECT_GT(all.starts, 100);
  EXPECT_GT(late, 10);
}

}  // namespace
}  // namespace Atoll::federation::test
