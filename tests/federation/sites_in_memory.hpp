#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atoll/federation/protocol.hpp"
#include "atoll/outer/mixing.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::federation::test {

inline store::Values values(std::vector<float> v) {
  return std::make_shared<const std::vector<float>>(std::move(v));
}

/// Sites of a federation in one process: real protocols, letters carried in memory, time set by hand.
class SitesInMemory {
 public:
  static constexpr std::uint64_t tokens_per_step = 10;
  using Filter = std::function<bool(SiteId from, const Send&)>;
  using Recorder = std::function<void(std::size_t site, const std::vector<Record>&, std::vector<Note>)>;

  struct Site {
    std::optional<Protocol> protocol;  ///< none: the site is down
    std::vector<std::vector<float>> parameters;
    std::vector<std::string> events;
    Incarnation incarnation = 0;
  };

  explicit SitesInMemory(std::size_t count, std::size_t fragments = 2, std::uint32_t quorum = 1)
      : fragments_(fragments) {
    for (std::size_t i = 0; i < count; ++i) config_.sites.push_back("site" + std::to_string(i));
    config_.federation = "test";
    config_.configuration = store::digest_of("configuration");
    config_.quorum = quorum;
    config_.total_tokens = 1'000'000;
    sites_.resize(count);
    joined_.assign(count, std::vector<bool>(count, true));
  }

  /// What is done with the records and notes of a site.
  void record_with(Recorder recorder) { recorder_ = std::move(recorder); }
  ProtocolConfig& config() { return config_; }
  Protocol& protocol(std::size_t i) { return *sites_[i].protocol; }
  Site& site(std::size_t i) { return sites_[i]; }
  Seconds now() const { return now_; }

  /// Version 0 of all fragments: the same on all sites.
  std::vector<FragmentState> beginning() const {
    std::vector<FragmentState> states;
    for (std::size_t f = 0; f < fragments_; ++f) states.push_back(FragmentState::initial({1.0F, 2.0F, float(f)}));
    return states;
  }

  void start(std::size_t i) { start(i, beginning()); }
  void start(std::size_t i, std::vector<FragmentState> states) {
    auto config = config_;
    config.self = {std::uint32_t(i)};
    config.incarnation = sites_[i].incarnation = ++incarnations_ * 1000;
    sites_[i].parameters.clear();
    for (const auto& s : states) sites_[i].parameters.push_back(*s.anchor);
    sites_[i].protocol.emplace(config, std::move(states));
    observe_all();
    if (begins_at_once_) sites_[i].protocol->begin(now_);
  }
  void begin_by_hand() { begins_at_once_ = false; }
  void kill(std::size_t i) {
    sites_[i].protocol.reset();
    std::erase_if(letters_, [&](const auto& entry) { return entry.second.to.value == i; });
    observe_all();
  }
  void connect(std::size_t a, std::size_t b, bool up) {
    joined_[a][b] = joined_[b][a] = up;
    observe_all();
  }
  void observe_all() {
    for (std::size_t a = 0; a < sites_.size(); ++a)
      for (std::size_t b = 0; b < sites_.size(); ++b)
        if (a != b && sites_[a].protocol)
          sites_[a].protocol->observe({std::uint32_t(b)}, joined_[a][b] && sites_[b].protocol, sites_[b].incarnation,
                                      now_);
  }

  /// One inner step: every value moves by `by`.
  void step(std::size_t i, float by) {
    take_up(i);
    sites_[i].protocol->stepped(tokens_per_step, now_);
    for (auto& fragment : sites_[i].parameters)
      for (auto& value : fragment) value += by;
  }
  void offer(std::size_t i, std::uint32_t f = 0) {
    take_up(i);
    sites_[i].protocol->offer({f}, values(sites_[i].parameters[f]), now_);
    take_up(i);
  }
  void offer_all(std::size_t i) {
    for (std::uint32_t f = 0; f < fragments_; ++f) offer(i, f);
  }

  /// Carries letters until none is left. Those that `lose` picks are lost.
  void deliver(const Filter& lose = {}) {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t i = 0; i < sites_.size(); ++i) {
        if (!sites_[i].protocol) continue;
        take_up(i);
        for (auto& send : sites_[i].protocol->take_sends())
          if (!lose || !lose({i}, send)) letters_.emplace_back(SiteId{i}, std::move(send));
      }
      while (!letters_.empty()) {
        moved = true;
        auto [from, send] = std::move(letters_.front());
        letters_.pop_front();
        auto& to = sites_[send.to.value];
        if (to.protocol && joined_[from.value][send.to.value]) to.protocol->receive(send.letter, now_);
      }
    }
  }
  void pass(double seconds) {
    now_ += Seconds{seconds};
    for (auto& site : sites_)
      if (site.protocol) site.protocol->tick(now_);
  }

  bool saw(std::size_t i, const std::string& event) {
    take_up(i);
    return std::find(sites_[i].events.begin(), sites_[i].events.end(), event) != sites_[i].events.end();
  }
  const FragmentState& state(std::size_t i, std::uint32_t f = 0) { return protocol(i).fragments()[f]; }
  const std::vector<float>& parameters(std::size_t i, std::uint32_t f = 0) {
    take_up(i);
    return sites_[i].parameters[f];
  }

 private:
  void take_up(std::size_t i) {
    auto& site = sites_[i];
    for (const auto& a : site.protocol->take_adoptions()) {
      if (a.base)
        outer::rebase(site.parameters[a.fragment.value], *a.anchor, *a.base);
      else
        site.parameters[a.fragment.value] = *a.anchor;
    }
    const auto records = site.protocol->take_records();
    auto notes = site.protocol->take_notes();
    for (const auto& note : notes) site.events.push_back(note.event);
    if (recorder_) recorder_(i, records, std::move(notes));
  }

  std::size_t fragments_;
  ProtocolConfig config_;
  std::vector<Site> sites_;
  Recorder recorder_;
  std::vector<std::vector<bool>> joined_;
  std::deque<std::pair<SiteId, Send>> letters_;
  Seconds now_{0};
  bool begins_at_once_ = true;
  Incarnation incarnations_ = 0;
};

}  // namespace Atoll::federation::test
