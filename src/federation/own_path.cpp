#include "atoll/federation/own_path.hpp"

#include <algorithm>

#include "atoll/core/error.hpp"

namespace Atoll::federation {
namespace {

// The two oldest, where a partition may have begun, the line's own and the offer on its way. Each costs a fragment of
// memory, and only while some site may be on a line that does not hold it.
constexpr std::size_t most_marks = 4;

void add(std::vector<float>& sum, float sign, const store::Values& gradient) {
  for (std::size_t i = 0; gradient && i < sum.size(); ++i) sum[i] += sign * (*gradient)[i];
}

}  // namespace

const OwnPath::Mark* OwnPath::find(std::uint64_t serial) const {
  const auto found = std::ranges::find(marks_, serial, &Mark::serial);
  return found == marks_.end() ? nullptr : &*found;
}

// The mark and those before it, back to the one that the path begins at.
std::vector<const OwnPath::Mark*> OwnPath::chain(std::uint64_t serial) const {
  std::vector<const Mark*> chain;
  for (auto at = find(serial); at; at = at->follows == at->serial ? nullptr : find(at->follows)) chain.push_back(at);
  return chain;
}

void OwnPath::mark(std::uint64_t serial, std::uint64_t follows, store::Values gradient) {
  ATOLL_EXPECT(find(follows) && serial > marks_.back().serial, "serial " + std::to_string(serial));
  marks_.push_back({serial, follows, steps_, tokens_, std::move(gradient)});
  for (auto at = marks_.begin() + 2; marks_.size() > most_marks && at != marks_.end() - 1;)
    if (at->serial == follows)
      ++at;
    else {
      const auto place = at - marks_.begin();
      drop(at);
      at = marks_.begin() + place;
    }
}

// What followed it then follows what it followed.
void OwnPath::drop(std::vector<Mark>::iterator gone) {
  const auto old = *gone;
  marks_.erase(gone);
  for (auto& mark : marks_) {
    if (mark.follows != old.serial) continue;
    mark.follows = old.follows;
    if (!old.gradient) continue;
    auto sum = *old.gradient;
    add(sum, 1, mark.gradient);
    mark.gradient = std::make_shared<const std::vector<float>>(std::move(sum));
  }
}

OwnPath::Rest OwnPath::behind(const store::Values& anchor, std::uint64_t from, std::uint64_t to) const {
  const auto held = std::ranges::lower_bound(marks_, to, {}, &Mark::serial);
  // An offer of a later start than the checkpoint that we came back from: it holds all that we knew then.
  if (held == marks_.end()) return {nullptr, tokens_ - dropped_at_, to};
  Rest rest{anchor, 0, held->serial};
  if (held->serial != to) rest.tokens_lost = held->tokens - tokens_held(to);
  if (held->serial == from) return rest;
  // What was merged before the parameters last became an anchor cannot be given back.
  if (const auto* had = find(from); had && held->tokens < had->tokens && held->tokens < dropped_at_)
    rest.tokens_lost += std::min(had->tokens, dropped_at_) - held->tokens;

  const auto back = chain(from), forth = chain(held->serial);
  const auto in = [](const auto& chain, const Mark* mark) { return std::ranges::find(chain, mark) != chain.end(); };
  auto base = *anchor;
  for (const auto* mark : back)
    if (!in(forth, mark)) add(base, 1, mark->gradient);
  for (const auto* mark : forth)
    if (!in(back, mark)) add(base, -1, mark->gradient);
  rest.base = std::make_shared<const std::vector<float>>(std::move(base));
  return rest;
}

std::uint64_t OwnPath::tokens_behind(std::uint64_t serial) const {
  const auto* at = find(serial);
  return tokens_ - std::max(dropped_at_, at ? at->tokens : 0);
}

std::uint64_t OwnPath::steps_behind(std::uint64_t serial) const {
  const auto* at = find(serial);
  return steps_ - std::max(steps_dropped_at_, at ? at->steps : 0);
}

void OwnPath::follow(std::uint64_t to, std::uint64_t begins) {
  if (find(to)) return;
  const auto* at = find(begins);
  ATOLL_EXPECT(at, "mark " + std::to_string(begins));
  const auto place = std::ranges::lower_bound(marks_, to, {}, &Mark::serial);
  marks_.insert(place, {to, begins, at->steps, at->tokens, nullptr});
}

// Every mark is now where the parameters are: nothing that lay between them can come back.
void OwnPath::restart(std::uint64_t serial) {
  for (auto& mark : marks_) mark.gradient = nullptr;
  if (!find(serial)) {
    const auto place = std::ranges::lower_bound(marks_, serial, {}, &Mark::serial);
    const auto follows = place == marks_.begin() ? serial : std::prev(place)->serial;
    marks_.insert(place, {serial, follows, steps_, tokens_, nullptr});
  }
  dropped_at_ = tokens_;
  steps_dropped_at_ = steps_;
}

// So many tokens a line that holds `to` has at least: those up to the last mark that is no newer.
std::uint64_t OwnPath::tokens_held(std::uint64_t to) const {
  const auto newer = std::ranges::upper_bound(marks_, to, {}, &Mark::serial);
  return newer == marks_.begin() ? 0 : std::prev(newer)->tokens;
}

std::uint64_t OwnPath::tokens_between(std::uint64_t to, std::uint64_t from) const {
  const auto* had = find(from);
  const auto held = tokens_held(to);
  return had && held < had->tokens ? had->tokens - held : 0;
}

void OwnPath::forget_before(std::uint64_t serial) {
  const auto* here = find(serial);
  if (!here) return;
  // What does not build on it was offered to a branch that is gone.
  std::vector<Mark> kept;
  for (const auto& mark : marks_) {
    const auto before = chain(mark.serial);
    if (std::ranges::find(before, here) != before.end()) kept.push_back(mark);
  }
  marks_ = std::move(kept);
  auto& first = *std::ranges::find(marks_, serial, &Mark::serial);
  first.follows = serial;
  first.gradient = nullptr;
}

}  // namespace Atoll::federation
