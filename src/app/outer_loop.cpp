#include "atoll/app/outer_loop.hpp"

#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

namespace Atoll::app {

using federation::Protocol;

OuterLoop::OuterLoop(const FederationFile& federation, InnerLoop& inner, federation::Gateway& gateway)
    : federation_(federation),
      inner_(inner),
      gateway_(gateway),
      adoptions_(inner.plan().count(), federation.schedule.overlap),
      last_due_(inner.plan().count()) {
  progress_tokens_ = gateway_.visit([](Protocol& protocol, Seconds) { return protocol.progress_tokens(); });
}

void OuterLoop::stepped() {
  ++untold_steps_;
}

std::set<FragmentId> OuterLoop::between_steps() {
  for (std::uint32_t f = 0; f < inner_.plan().count(); ++f)
    if (is_due({f})) due_.insert({f});
  std::set<FragmentId> changed;
  const auto visitor = [&](Protocol& protocol, Seconds now) { exchange(protocol, now, changed); };
  if (federation_.wait <= Seconds{0}) {
    // A busy gateway must not hold up the inner steps: what is due then goes with the next step.
    gateway_.try_visit(visitor);
    return changed;
  }
  gateway_.visit(visitor);
  wait_for_commits();
  gateway_.visit(visitor);
  return changed;
}

// With dynamic steps a slow site makes fewer of them, so that all sites offer together.
bool OuterLoop::is_due(FragmentId f) {
  const auto step = inner_.steps();
  auto& last = last_due_[f.value];
  const bool due = federation_.steps == StepRule::fixed || !last ? federation_.schedule.offers(f, step)
                                                                 : step >= *last + local_steps_;
  if (due) last = step;
  return due;
}

void OuterLoop::exchange(Protocol& protocol, Seconds now, std::set<FragmentId>& changed) {
  collect(protocol, now);
  take_up(adoptions_.due(inner_.steps()), changed);
  for (const auto f : std::exchange(due_, {})) {
    take_up(adoptions_.all(f), changed);  // an offer is relative to the newest anchor
    if (!protocol.may_offer(f)) continue;
    const auto serial = protocol.offer(f, inner_.fragment(f), now);
    if (serial > 0) adoptions_.offered(f, inner_.steps(), serial);
  }
  collect(protocol, now);  // a steward that needs nobody else commits at once
  take_up(adoptions_.due(inner_.steps()), changed);
  progress_tokens_ = protocol.progress_tokens();
  local_steps_ = protocol.local_steps(federation_.schedule.inner_steps);
}

void OuterLoop::collect(Protocol& protocol, Seconds now) {
  if (untold_steps_ > 0) protocol.stepped(inner_.tokens_per_step(), now, std::exchange(untold_steps_, 0));
  for (auto& adoption : protocol.take_adoptions()) adoptions_.add(std::move(adoption));
}

void OuterLoop::take_up(const std::vector<federation::Adoption>& adoptions, std::set<FragmentId>& changed) {
  for (const auto& adoption : adoptions) {
    inner_.adopt(adoption);
    changed.insert(adoption.fragment);
  }
}

std::vector<federation::FragmentState> OuterLoop::settle(std::set<FragmentId>& changed) {
  return gateway_.visit([&](Protocol& protocol, Seconds now) {
    collect(protocol, now);
    for (std::uint32_t f = 0; f < inner_.plan().count(); ++f) take_up(adoptions_.all({f}), changed);
    return protocol.fragments();
  });
}

void OuterLoop::wait_for_commits() {
  const auto deadline = federation::Gateway::now() + federation_.wait;
  const auto open = [&](Protocol& protocol, Seconds) {
    if (protocol.sites_alive() < protocol.config().quorum) return false;  // no commit can come
    for (std::uint32_t f = 0; f < inner_.plan().count(); ++f) {
      const auto& s = protocol.fragments()[f];
      const bool may_come = s.outstanding && s.tokens_merged < protocol.config().total_tokens;
      if (may_come && federation_.schedule.ends_round({f}, inner_.steps())) return true;
    }
    return false;
  };
  while (gateway_.visit(open) && federation::Gateway::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void OuterLoop::take_anchors() {
  gateway_.visit([&](Protocol& protocol, Seconds now) {
    collect(protocol, now);
    for (std::uint32_t f = 0; f < inner_.plan().count(); ++f) {
      std::ignore = adoptions_.all({f});  // what led to these anchors must not be added once more
      inner_.replace({f}, *protocol.fragments()[f].anchor);
    }
  });
}

std::vector<float> OuterLoop::anchors() {
  std::vector<float> flat(inner_.trainer().parameter_count());
  gateway_.visit([&](Protocol& protocol, Seconds) {
    for (std::uint32_t f = 0; f < inner_.plan().count(); ++f)
      inner_.plan().scatter(*protocol.fragments()[f].anchor, {f}, flat);
  });
  return flat;
}

}  // namespace Atoll::app
