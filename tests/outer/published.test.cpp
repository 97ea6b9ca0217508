// Published numbers of other projects, kept outside the repository; CMake adds this file where they lie beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "atoll/outer/fragment_plan.hpp"
#include "atoll/outer/merge.hpp"
#include "atoll/outer/mixing.hpp"
#include "atoll/outer/outer_optimizer.hpp"
#include "atoll/outer/schedule.hpp"
#include "session_environment.hpp"

namespace Atoll::outer {
namespace {

nlohmann::json fixture(const std::string& name) {
  std::ifstream stream(std::string(ATOLL_SOURCE_DIR) + "/../shared/fixtures/" + name);
  return nlohmann::json::parse(stream);
}

struct Replica {
  std::vector<float> parameters{1, 1};
};

float recorded(const nlohmann::json& moment, int layer) {
  return moment.at("layers." + std::to_string(layer) + ".weight").at(0).at(0);
}

// Two replicas, two layers of one weight, constant gradient 2; the published test's whole training.
class PublishedTrajectory : public ::testing::TestWithParam<int> {};

TEST_P(PublishedTrajectory, IsReproducedExactly) {
  constexpr float alphas[] = {0.0F, 0.5F, 1.0F};
  const float alpha = alphas[GetParam()];
  const auto published = fixture("torchft.diloco_regression_test.DiLoCoMockedUpdateTest.test_diloco_mocked_updates_" +
                                 std::to_string(GetParam()) + ".json");
  const Schedule schedule{.inner_steps = 6, .fragments = 2, .overlap = 0};
  const FragmentPlan plan({{0, 1, 0}, {1, 1, 1}}, 2, Fragmentation::strided);
  std::vector<Replica> replicas(2);
  std::vector<float> anchor{1, 1}, momentum{0, 0};

  const auto& history = published[0][0]["history"];
  const auto& anchors = published[0][0]["global_parameter_history"];
  ASSERT_GT(history.size(), 10);
  for (std::uint64_t step = 0; history.contains(std::to_string(step)); ++step) {
    const auto key = std::to_string(step);
    for (int layer = 0; layer < 2; ++layer) {
      for (int r = 0; r < 2; ++r)
        EXPECT_EQ(replicas[r].parameters[layer], recorded(published[r][0]["history"][key], layer)) << "step " << step;
      if (anchors.contains(key)) {
        EXPECT_EQ(anchor[layer], recorded(anchors[key], layer)) << "step " << step;
      }
    }
    for (auto& replica : replicas)
      for (auto& value : replica.parameters) value -= 1.0F * 2.0F;
    for (std::uint32_t f = 0; f < 2; ++f) {
      if (!schedule.offers({f}, step + 1)) continue;
      auto values = plan.gather(anchor, {f}), moved = plan.gather(momentum, {f});
      std::vector<std::vector<float>> offers;
      for (auto& replica : replicas) offers.push_back(pseudo_gradient(values, plan.gather(replica.parameters, {f})));
      const std::vector<std::span<const float>> gradients(offers.begin(), offers.end());
      nesterov_step(values, moved, weighted_mean(gradients, std::vector<float>{0.5F, 0.5F}), 2.0F, 0.0F);
      plan.scatter(values, {f}, anchor);
      plan.scatter(moved, {f}, momentum);
      for (auto& replica : replicas) {
        auto own = plan.gather(replica.parameters, {f});
        blend(own, values, alpha);
        plan.scatter(own, {f}, replica.parameters);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Alpha, PublishedTrajectory, ::testing::Values(0, 1, 2));

TEST(PublishedVectors, OfferWeights) {
  const auto vectors = fixture("vectors.json");
  for (const auto& c : vectors["pcp"]["token_step_weight"]["cases"])
    EXPECT_EQ(offer_weight(WeightRule::tokens_per_step, c[0].get<std::uint64_t>(), c[1].get<std::uint64_t>()),
              c[2].get<double>());
}

TEST(PublishedVectors, DirectMerge) {
  const auto vectors = fixture("vectors.json");
  for (const auto& c : vectors["pcp"]["direct_merge"]["cases"]) {
    if (c.contains("sanitized")) continue;  // values that are not finite: theirs become 0, our gate refuses the offer
    const auto global = c["global"].get<std::vector<float>>();
    std::vector<std::vector<float>> offers;
    for (const auto& learner : c["learners"])
      offers.push_back(pseudo_gradient(global, learner.get<std::vector<float>>()));
    const auto weights = c["weights"].get<std::vector<double>>();
    const std::vector<std::span<const float>> gradients(offers.begin(), offers.end());
    const auto merged = weighted_mean(gradients, normalised(weights));
    const auto expected = c["out"].get<std::vector<float>>();
    ASSERT_EQ(merged.size(), expected.size());
    for (std::size_t i = 0; i < merged.size(); ++i) EXPECT_NEAR(merged[i], expected[i], 1e-6) << c;
  }
}

TEST(PublishedVectors, FragmentOwners) {
  const auto vectors = fixture("vectors.json");
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
  }
}

TEST(PublishedVectors, Blend) {
  const auto vectors = fixture("vectors.json");
  for (const auto& c : vectors["pcp"]["blend"]["cases"]) {
    auto parameters = c["local"].get<std::vector<float>>();
    blend(parameters, c["global"].get<std::vector<float>>(), c["alpha"].get<float>());
    EXPECT_EQ(parameters, c["out"].get<std::vector<float>>());
  }
}

TEST(PublishedVectors, SynchronousAverage) {
  const auto c = fixture("vectors.json")["forgather"]["sync_average"];
  std::vector<float> anchor{c["p0"].get<float>()}, momentum{0};
  const std::vector<float> a{c["pg"][0].get<float>()}, b{c["pg"][1].get<float>()};
  const std::vector<std::span<const float>> gradients{a, b};
  nesterov_step(anchor, momentum, weighted_mean(gradients, std::vector<float>{0.5F, 0.5F}), c["lr"].get<float>(),
                c["mu"].get<float>());
  EXPECT_EQ(anchor[0], c["p"].get<float>());
}

}  // namespace
}  // namespace Atoll::outer
