#include "atoll/federation/outer_round.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "atoll/core/error.hpp"
#include "atoll/outer/stream_copy.hpp"
#include "atoll/store/digest.hpp"
#include "spare_values.hpp"

namespace Atoll::federation {
namespace {

// Arrays of more values than this are not found in a cache again.
constexpr std::size_t cached_values = 1 << 18;

// Writes a block of an array of `size` values.
void put(std::span<const float> block, std::span<float> to, std::size_t size) {
  if (size > cached_values) return outer::stream_copy(block, to);
  std::memcpy(to.data(), block.data(), block.size_bytes());
}

// Makes the next anchor block by block.
class Pass {
 public:
  Pass(const outer::OuterOptimizer& optimizer, AnchorView from, SpareValues& spare)
      : optimizer_(optimizer),
        from_(from),
        anchor_(spare.take(from.anchor.size())),
        state_(spare.take(from.state.size())),
        digest_(1 + optimizer.slots()) {
    ATOLL_EXPECT(from.state.size() == optimizer.slots() * from.anchor.size(), "a state of the optimizer's slots");
  }

  void take(std::span<const float> gradient) {
    const auto count = gradient.size();
    ATOLL_EXPECT(done_ + count <= size(), "a gradient of the anchor's size");
    const auto anchor = std::span(anchor_block_).first(count);
    const auto state = std::span(state_block_).first(optimizer_.slots() * count);
    const bool finite = optimizer_.step({from_.anchor.subspan(done_, count), from_.state.subspan(done_), size()},
                                        anchor, state, gradient, from_.version);
    finite_ = finite_ && finite;
    digest_.add(0, anchor);
    put(anchor, std::span(*anchor_).subspan(done_, count), size());
    for (std::size_t slot = 0; slot < optimizer_.slots(); ++slot) {
      const auto part = state.subspan(slot * count, count);
      digest_.add(1 + slot, part);
      put(part, std::span(*state_).subspan(slot * size() + done_, count), size());
    }
    done_ += count;
  }

  NextAnchor finish() {
    ATOLL_EXPECT(done_ == size(), "a gradient of the anchor's size");
    return {.merged = nullptr,
            .anchor = std::move(anchor_),
            .state = std::move(state_),
            .digest = digest_.finish(),
            .finite = finite_,
            .norms = {}};
  }

 private:
  std::size_t size() const { return from_.anchor.size(); }

  const outer::OuterOptimizer& optimizer_;
  AnchorView from_;
  std::shared_ptr<std::vector<float>> anchor_, state_;
  store::ValuesDigest digest_;
  std::vector<float> anchor_block_ = std::vector<float>(std::min(size(), outer::Merger::largest_block));
  std::vector<float> state_block_ = std::vector<float>(optimizer_.slots() * anchor_block_.size());
  std::size_t done_ = 0;
  bool finite_ = true;
};

}  // namespace

Digest digest_of_anchor(std::span<const float> anchor, std::span<const float> state) {
  std::vector<std::span<const float>> arrays{anchor};
  for (; !state.empty(); state = state.subspan(std::min(state.size(), anchor.size())))
    arrays.push_back(state.first(std::min(state.size(), anchor.size())));
  return store::digest_of_values(arrays);
}

OuterRound::OuterRound(outer::Merger merger, outer::OuterOptimizer optimizer)
    : merger_(merger), optimizer_(optimizer), spare_(std::make_shared<SpareValues>()) {}

NextAnchor OuterRound::merge(std::span<const std::span<const float>> gradients, std::span<const float> shares,
                             std::span<const outer::Segment> segments, AnchorView from) const {
  const auto merged = spare_->take(from.anchor.size());
  Pass pass(optimizer_, from, *spare_);
  std::size_t done = 0;
  auto norms = merger_.merge_blocks(gradients, shares, segments, [&](std::span<const float> block) {
    pass.take(block);
    put(block, std::span(*merged).subspan(done, block.size()), merged->size());
    done += block.size();
  });
  auto next = pass.finish();
  next.merged = merged;
  next.merged_norm = norms.merged;
  next.norms = std::move(norms.gradients);
  return next;
}

NextAnchor OuterRound::step(std::span<const float> merged, AnchorView from) const {
  Pass pass(optimizer_, from, *spare_);
  for (std::size_t begin = 0; begin < merged.size(); begin += outer::Merger::largest_block)
    pass.take(merged.subspan(begin, std::min(outer::Merger::largest_block, merged.size() - begin)));
  auto next = pass.finish();
  next.merged_norm = outer::norm(merged);
  return next;
}

}  // namespace Atoll::federation
