// Published numbers of other projects. Where their files lie beside the repository, our copies are compared with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "atoll/outer/fragment_plan.hpp"
#include "atoll/outer/merge.hpp"
#include "atoll/outer/mixing.hpp"
#include "atoll/outer/outer_optimizer.hpp"
#include "atoll/outer/schedule.hpp"
#include "published_vectors.hpp"
#include "session_environment.hpp"

namespace Atoll::outer {
namespace {

const nlohmann::json vectors = nlohmann::json::parse(published::vectors);

// The file of that name, or nothing where the folder of published numbers does not exist.
nlohmann::json file(const std::string& name) {
  const std::string path = std::string(ATOLL_SOURCE_DIR) + "/../shared/fixtures/" + name;
  if (!std::filesystem::exists(path)) return {};
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

std::vector<std::span<const float>> spans(const std::vector<std::vector<float>>& values) {
  return {values.begin(), values.end()};
}

// Every member of ours is in theirs with the same value; theirs may have more, such as cases that are not ours.
void expect_copied(const nlohmann::json& ours, const nlohmann::json& theirs) {
  for (const auto& [key, value] : ours.items()) {
    if (key != "cases" && value.is_object())
      expect_copied(value, theirs.at(key));
    else if (key != "cases")
      EXPECT_EQ(value, theirs.at(key)) << key;
    else
      for (const auto& c : value)
        EXPECT_TRUE(std::ranges::any_of(theirs.at(key), [&](const auto& t) {
          return c == t || (c.is_object() && std::ranges::all_of(c.items(), [&](const auto& item) {
                              return t.contains(item.key()) && t.at(item.key()) == item.value();
                            }));
        })) << c;
  }
}

TEST(PublishedVectors, AreCopiedFaithfully) {
  const auto theirs = file("vectors.json");
  if (!theirs.is_null()) expect_copied(vectors, theirs);
  for (int i = 0; i < 3; ++i) {
    const auto replicas = file("torchft.diloco_regression_test.DiLoCoMockedUpdateTest.test_diloco_mocked_updates_" +
                               std::to_string(i) + ".json");
    const auto& ours = published::trajectories[static_cast<std::size_t>(i)];
    for (const auto& replica : replicas)
      for (std::size_t layer = 0; layer < 2; ++layer) {
        const auto name = "layers." + std::to_string(layer) + ".weight";
        const auto recorded = [&](const auto& moments, std::size_t step) {
          return moments.at(std::to_string(step)).at(name).at(0).at(0).template get<float>();
        };
        EXPECT_EQ(replica[0]["history"].size(), 16);
        for (std::size_t step = 0; step < 16; ++step)
          EXPECT_EQ(recorded(replica[0]["history"], step), ours.parameters[layer][step]);
        for (std::size_t a = 0; a < 5; ++a)
          EXPECT_EQ(recorded(replica[0]["global_parameter_history"], 3 * a), ours.anchors[layer][a]);
      }
  }
}

// torchft: two replicas, two layers of one weight, constant gradient 2; the whole training.
class PublishedTrajectory : public ::testing::TestWithParam<published::Trajectory> {
 protected:
  void end_round(FragmentId f) {
    auto values = plan_.gather(anchor_, f), state = plan_.gather(momentum_, f);
    std::vector<std::vector<float>> offers;
    for (auto& replica : replicas_) offers.push_back(pseudo_gradient(values, plan_.gather(replica, f)));
    const auto merged = Merger{}.merge(spans(offers), std::vector<float>{0.5F, 0.5F}, plan_.segments(f));
    const OuterOptimizer optimizer{.method = OuterMethod::sgd, .learning_rate = 2, .momentum = 0};
    optimizer.step(values, state, merged, 0);
    plan_.scatter(values, f, anchor_);
    plan_.scatter(state, f, momentum_);
    for (auto& replica : replicas_) {
      auto own = plan_.gather(replica, f);
      blend(own, values, GetParam().alpha);
      plan_.scatter(own, f, replica);
    }
  }

  const FragmentPlan plan_{{{0, 1, 0}, {1, 1, 1}}, 2, Fragmentation::strided};
  std::vector<std::vector<float>> replicas_{{1, 1}, {1, 1}};
  std::vector<float> anchor_{1, 1}, momentum_{0, 0};
};

TEST_P(PublishedTrajectory, IsReproducedExactly) {
  const auto& published = GetParam();
  const Schedule schedule{.inner_steps = 6, .fragments = 2, .overlap = 0};
  for (std::uint64_t step = 0; step < published.parameters[0].size(); ++step) {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      for (const auto& replica : replicas_)
        EXPECT_EQ(replica[layer], published.parameters[layer][step]) << "step " << step;
      if (step % 3 == 0 && step / 3 < published.anchors[layer].size()) {
        EXPECT_EQ(anchor_[layer], published.anchors[layer][step / 3]) << "step " << step;
      }
    }
    for (auto& replica : replicas_)
      for (auto& value : replica) value -= 1.0F * 2.0F;
    for (std::uint32_t f = 0; f < 2; ++f)
      if (schedule.offers({f}, step + 1)) end_round({f});
  }
}

INSTANTIATE_TEST_SUITE_P(Alpha, PublishedTrajectory, ::testing::ValuesIn(published::trajectories),
                         [](const auto& info) { return "Index" + std::to_string(info.index); });

TEST(PublishedVectors, OfferWeights) {
  for (const auto& c : vectors["pcp"]["token_step_weight"]["cases"])
    EXPECT_EQ(offer_weight(WeightRule::tokens_per_step, c[0].get<std::uint64_t>(), c[1].get<std::uint64_t>()),
              c[2].get<double>());
}

// Offers that are not finite are left out: theirs become 0, our gate refuses the whole offer.
void expect_merges(const nlohmann::json& published, const Merger& merger) {
  for (const auto& c : published["cases"]) {
    const auto global = c["global"].get<std::vector<float>>();
    std::vector<std::vector<float>> offers;
    for (const auto& learner : c["learners"])
      offers.push_back(pseudo_gradient(global, learner.get<std::vector<float>>()));
    const std::vector<Segment> segments{{0, global.size(), TensorKind::matrix}};
    const auto merged = merger.merge(spans(offers), normalised(c["weights"].get<std::vector<double>>()), segments);
    const auto expected = c["out"].get<std::vector<float>>();
    ASSERT_EQ(merged.size(), expected.size());
    for (std::size_t i = 0; i < merged.size(); ++i)
      EXPECT_NEAR(merged[i], expected[i], published["tol"].get<double>()) << c;
  }
}

TEST(PublishedVectors, DirectMerge) {
  expect_merges(vectors["pcp"]["direct_merge"], {});
}

TEST(PublishedVectors, RadialDirectionalMerge) {
  expect_merges(vectors["pcp"]["rda_merge"], {.rule = MergeRule::radial_directional});
}

TEST(PublishedVectors, FragmentOwners) {
  for (const auto& c : vectors["pcp"]["fragments"]["cases"]) {
    std::vector<TensorRange> tensors;
    for (const auto size : c["sizes"].get<std::vector<std::size_t>>())
      tensors.push_back({tensors.empty() ? 0 : tensors.back().offset + tensors.back().count, size, -1});
    const auto kind = c["strategy"] == "strided" ? Fragmentation::strided : Fragmentation::balanced;
    const FragmentPlan plan(tensors, c["n"].get<std::size_t>(), kind);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const auto& ranges = plan.ranges({c["owner"][t].get<std::uint32_t>()});
      const auto holds = [&](const Range& range) {
        return range.offset <= tensors[t].offset && tensors[t].offset + tensors[t].count <= range.offset + range.count;
      };
      EXPECT_TRUE(std::ranges::any_of(ranges, holds)) << c << " tensor " << t;
    }
    if (c.contains("bytes0")) {
      EXPECT_EQ(sizeof(float) * plan.size({0}), c["bytes0"].get<std::size_t>());
      EXPECT_EQ(sizeof(float) * plan.segments({0})[1].offset, c["offset_of_tensor3_in_0"].get<std::size_t>());
    }
    for (std::uint32_t f = 0; c.contains("bytes") && f < plan.count(); ++f)
      EXPECT_EQ(sizeof(float) * plan.size({f}), c["bytes"][f].get<std::size_t>());
  }
}

TEST(PublishedVectors, Blend) {
  for (const auto& c : vectors["pcp"]["blend"]["cases"]) {
    auto parameters = c["local"].get<std::vector<float>>();
    blend(parameters, c["global"].get<std::vector<float>>(), c["alpha"].get<float>());
    EXPECT_EQ(parameters, c["out"].get<std::vector<float>>());
  }
}

TEST(PublishedVectors, SynchronousAverage) {
  const auto& c = vectors["forgather"]["sync_average"];
  std::vector<float> anchor{c["p0"].get<float>()}, momentum{0};
  const std::vector<std::vector<float>> offers{{c["pg"][0].get<float>()}, {c["pg"][1].get<float>()}};
  const OuterOptimizer optimizer{.learning_rate = c["lr"].get<float>(), .momentum = c["mu"].get<float>()};
  optimizer.step(anchor, momentum, weighted_mean(spans(offers), std::vector<float>{0.5F, 0.5F}), 0);
  EXPECT_EQ(anchor[0], c["p"].get<float>());
}

// Liu 2024, algorithm 3; forgather's third step differs (it merges the same gradients twice), its first two agree with
// neither, as it applies whole gradients.
TEST(PublishedVectors, DelayedNesterovOfThreeEqualGradients) {
  const OuterOptimizer delayed{
      .method = OuterMethod::delayed_nesterov, .learning_rate = 1, .momentum = 0.9F, .delay = 3};
  std::vector<float> anchor{0}, state{0, 0};
  for (Version version = 0; version < 3; ++version) delayed.step(anchor, state, std::vector<float>{1}, version);
  EXPECT_NEAR(anchor[0], -1.9, 1e-6);
}

TEST(PublishedVectors, DynamicLocalSteps) {
  for (const auto& c : vectors["forgather"]["dylu"]["cases"]) {
    const auto speeds = c["v"].get<std::vector<double>>();
    for (std::size_t i = 0; i < speeds.size(); ++i)
      EXPECT_EQ(dynamic_steps(speeds[i], std::ranges::max(speeds), c["H"].get<std::uint64_t>()),
                c["out"][i].get<std::uint64_t>())
          << c;
  }
}

float merged_scalars(const Merger& merger, const std::vector<float>& scalars, std::size_t size = 1) {
  std::vector<std::vector<float>> offers;
  for (const float scalar : scalars) offers.emplace_back(size, scalar);
  const auto share = 1.0F / static_cast<float>(scalars.size());
  const auto merged = merger.merge(spans(offers), std::vector<float>(scalars.size(), share), {});
  EXPECT_EQ(merged, std::vector<float>(size, merged.at(0)));
  return merged.at(0);
}

TEST(PublishedVectors, Krum) {
  const auto& c = vectors["flower"]["krum"];
  const Merger merger{.rule = MergeRule::krum, .faulty = c["f"].get<std::uint32_t>()};
  EXPECT_EQ(merged_scalars(merger, c["scalars_x4"].get<std::vector<float>>(), 4), c["out"].get<float>());
}

TEST(PublishedVectors, TrimmedMean) {
  const auto& c = vectors["flower"]["trimmed_mean"];  // beta 0.25 of four offers is one on either side
  const Merger merger{.rule = MergeRule::trimmed_mean, .faulty = 1};
  EXPECT_EQ(merged_scalars(merger, c["scalars"].get<std::vector<float>>()), c["out"].get<float>());
}

TEST(PublishedVectors, RobustRulesOfEightOffers) {
  const auto& c = vectors["robustdiloco"]["n8"];
  const auto gradients = c["grads"].get<std::vector<float>>();
  EXPECT_EQ(merged_scalars({}, gradients), c["mean"].get<float>());
  EXPECT_EQ(merged_scalars({MergeRule::trimmed_mean, 1}, gradients), c["trimmed_f1"].get<float>());
  EXPECT_EQ(merged_scalars({MergeRule::trimmed_mean, 2}, gradients), c["trimmed_f2"].get<float>());
  EXPECT_EQ(merged_scalars({MergeRule::median}, gradients), c["lower_median"].get<float>());
}

TEST(PublishedVectors, FedAdagrad) {
  const auto& c = vectors["flower"]["fedadagrad"];
  std::vector<float> anchor{c["from"].get<float>()}, state{0, 0};
  std::vector<std::vector<float>> offers;
  for (const auto& scalar : c["scalars"]) offers.push_back(pseudo_gradient(anchor, std::vector{scalar.get<float>()}));
  const OuterOptimizer optimizer{.method = OuterMethod::adagrad,
                                 .learning_rate = c["eta"].get<float>(),
                                 .momentum = 0,
                                 .epsilon = c["tau"].get<float>()};
  optimizer.step(anchor, state, Merger{}.merge(spans(offers), std::vector<float>{0.5F, 0.5F}, {}), 0);
  EXPECT_NEAR(anchor[0], c["out"].get<float>(), 1e-7);
}

}  // namespace
}  // namespace Atoll::outer
