#include "atoll/outer/fragment_plan.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "atoll/core/error.hpp"

namespace Atoll::outer {
namespace {

// Embedding, two tensors in each of three layers, final norm.
const std::vector<TensorRange> small_model = {{0, 10, -1}, {10, 4, 0}, {14, 2, 0}, {16, 4, 1},
                                              {20, 2, 1},  {22, 4, 2}, {26, 2, 2}, {28, 3, -1}};

std::vector<float> numbered(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(FragmentPlan, EveryValueBelongsToExactlyOneFragment) {
  for (const auto kind : {Fragmentation::strided, Fragmentation::sequential, Fragmentation::balanced}) {
    for (std::size_t fragments = 1; fragments <= 5; ++fragments) {
      const FragmentPlan plan(small_model, fragments, kind);
      std::vector<int> owners(31, 0);
      for (std::uint32_t f = 0; f < plan.count(); ++f)
        for (const auto& range : plan.ranges({f}))
          for (std::size_t i = 0; i < range.count; ++i) ++owners[range.offset + i];
      EXPECT_EQ(owners, std::vector<int>(31, 1));
    }
  }
}

TEST(FragmentPlan, StridedDealsLayersInTurnAndKeepsALayerTogether) {
  const FragmentPlan plan(small_model, 2, Fragmentation::strided);
  EXPECT_EQ(plan.ranges({0}), (std::vector<Range>{{0, 10}, {16, 6}, {28, 3}}));
  EXPECT_EQ(plan.ranges({1}), (std::vector<Range>{{10, 6}, {22, 6}}));
}

TEST(FragmentPlan, SegmentsAreTheTensorsInTheOrderOfGather) {
  using enum TensorKind;
  const std::vector<TensorRange> tensors = {{0, 10, -1, embedding}, {10, 4, 0, matrix}, {14, 2, 0, vector},
                                            {16, 4, 1, matrix},     {20, 2, 1, vector}, {22, 3, -1, vector}};
  const FragmentPlan plan(tensors, 2, Fragmentation::strided);
  EXPECT_EQ(plan.segments({0}), (std::vector<Segment>{{0, 10, embedding}, {10, 4, matrix}, {14, 2, vector}}));
  EXPECT_EQ(plan.segments({1}), (std::vector<Segment>{{0, 4, matrix}, {4, 2, vector}, {6, 3, vector}}));
}

TEST(FragmentPlan, GatherAndScatterAreInverse) {
  const FragmentPlan plan(small_model, 3, Fragmentation::balanced);
  const auto flat = numbered(31);
  std::vector<float> copy(31, -1.0F);
  for (std::uint32_t f = 0; f < plan.count(); ++f) plan.scatter(plan.gather(flat, {f}), {f}, copy);
  EXPECT_EQ(copy, flat);
}

TEST(FragmentPlan, MoreFragmentsThanUnitsAreRefused) {
  EXPECT_THROW(FragmentPlan(small_model, 6, Fragmentation::strided), ConfigError);
  EXPECT_THROW(FragmentPlan(small_model, 0, Fragmentation::strided), ConfigError);
}

}  // namespace
}  // namespace Atoll::outer
