#include <gtest/gtest.h>

#include <array>
#include <random>

#include "recorded_run.hpp"

namespace Atoll::federation::test {
namespace {

/// Three sites that are killed, brought back from older checkpoints, cut off and met again by a seed's dice.
class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed) : dice_(seed) {
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

TEST(Replay, RunsUnderRandomFaultsAreRepeatedToTheSameDigests) {
  Repeated all;
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
      if (!random.lives(i)) continue;
      for (std::uint32_t f = 0; f < 2; ++f)
        EXPECT_EQ(done.fragments[f].digest, random.run().sites().state(i, f).digest);
    }
  }
  EXPECT_GT(all.merges, 500);
  EXPECT_GT(all.commits, 100);
  EXPECT_GT(all.snapshots, 50);
  EXPECT_GT(all.starts, 100);
}

}  // namespace
}  // namespace Atoll::federation::test
