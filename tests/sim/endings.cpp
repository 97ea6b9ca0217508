// What must hold after the last fault: one branch, growth, one end.
#include <algorithm>
#include <format>

#include "world.hpp"

namespace Atoll::federation::sim {
namespace {

constexpr Version growth = 3;         // commits of every fragment that must follow an agreement
constexpr double longest_end = 2000;  // [s] after the last fault, whatever still changes
constexpr double quiet = 8;           // [s] without a change after which the end is the end

}  // namespace

bool World::agree() const {
  const Site* first = nullptr;
  for (const auto& site : sites_) {
    if (!site.protocol) continue;
    if (!first) first = &site;
    if (site.held != first->held) return false;
  }
  return true;
}

// Every fragment of every site lies on the line of the one that is furthest.
bool World::one_branch() const {
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    const std::pair<Version, Digest>* furthest = nullptr;
    for (const auto& site : sites_)
      if (site.protocol && (!furthest || site.held[f].first > furthest->first)) furthest = &site.held[f];
    for (const auto& site : sites_)
      if (site.protocol && !ledger_.descends({f}, furthest->second, site.held[f].second, site.held[f].first))
        return false;
  }
  return true;
}

Version World::lowest_version() const {
  Version lowest = -1;
  for (const auto& site : sites_)
    if (site.protocol)
      for (const auto& [version, digest] : site.held) lowest = std::min(lowest, version);
  return lowest;
}

// After the last fault: all become one, go on growing, and are one again when the training ends.
void World::check_agreement() {
  const bool changed = std::exchange(changed_, false);
  if (changed) changed_at_ = now_;
  if (now_ > phase_began_ + plan_.time_limit) {
    static constexpr std::array problems{"the sites do not come to one branch", "the versions do not grow",
                                         "the sites do not agree after the training"};
    throw Broken(problems.at(static_cast<std::size_t>(phase_)) + text_of_held());
  }
  if (phase_ == Phase::agreeing && changed && one_branch()) {
    say([] { return std::string("---- the sites are on one branch"); });
    counts_.seconds_to_agree = now_ - plan_.faults_end;
    counts_.rounds_to_agree = counts_.seconds_to_agree / plan_.round_time;
    lowest_at_start_ = lowest_version();
    phase_ = Phase::growing;
    phase_began_ = now_;
  } else if (phase_ == Phase::growing && changed && lowest_version() >= lowest_at_start_ + growth) {
    say([] { return std::string("---- the training ends"); });
    training_ = false;
    phase_ = Phase::stopping;
    phase_began_ = changed_at_ = now_;
  } else if (phase_ == Phase::stopping && now_ > changed_at_ + quiet && agree()) {
    phase_ = Phase::done;
  }
}

// As IslandGateway::finish.
void World::leave_for_good(std::uint32_t i) {
  auto& site = sites_[i];
  say([&] { return std::format("site{} has trained to the end", i); });
  one_end_ &= site.protocol->all_finished();
  const bool first = std::ranges::none_of(sites_, &Site::gone);
  for (std::uint32_t a = 0; a < plan_.site_count() && first; ++a)
    for (std::uint32_t b = 0; b < plan_.site_count(); ++b)
      one_end_ &= a == b || sites_[a].departed || sites_[b].departed ||
                  (sites_[a].protocol && !sites_[a].leaving && line(a, b).incarnation == sites_[b].incarnation);
  site.gone = site.leaving = true;
  site.leave_until = now_ + 10;
  site.protocol->rest();
  site.protocol->leave();
  examine(i);
  site.island.fragments = site.protocol->fragments();  // for the accounts
}

// Where the training ends: every site that is there comes to its end, and all of them to the same.
void World::check_end() {
  if (std::exchange(changed_, false)) phase_began_ = now_;
  if (now_ > plan_.faults_end + longest_end) throw Broken("the sites go on for ever" + text_of_held());
  const Site* one = nullptr;
  const auto there = std::ranges::count_if(sites_, [](const Site& site) { return !site.gone && !site.departed; });
  const bool stuck = there > 0 && there < plan_.protocol.quorum;  // the others left before: nothing more can be merged
  for (const auto& site : sites_) {
    if (site.held.empty() || site.departed) continue;
    if (!site.gone && !stuck) {
      if (now_ > phase_began_ + plan_.time_limit) throw Broken("a site does not come to its end" + text_of_held());
      return;
    }
    if (!site.gone) continue;
    if (one && one_end_ && one->held != site.held) throw Broken("the sites end unequal" + text_of_held());
    one = &site;
  }
  phase_ = Phase::done;
}

// Every step that anybody made is in an anchor that is held at the end, or still in somebody's parameters, or went with
// an island that died, or in a branch that was given up, or a protocol has said why it is lost.
const OutstandingOffer* World::outstanding(const Site& site, FragmentId f) {
  const auto& fragments = site.protocol ? site.protocol->fragments() : site.island.fragments;
  return f.value < fragments.size() && fragments[f.value].outstanding ? &*fragments[f.value].outstanding : nullptr;
}

void World::settle_accounts() {
  for (std::uint32_t i = 0; i < plan_.site_count(); ++i)
    if (sites_[i].protocol) adopt(i);
  for (std::uint32_t f = 0; f < plan_.fragments; ++f) {
    auto missing = made_;
    missing.remove(rolled_back_[f]);
    for (std::uint32_t i = 0; i < plan_.site_count(); ++i) {
      const auto& site = sites_[i];
      if (!site.held.empty()) missing.remove(ledger_.entry({f}, site.held[f].second).contents);
      if (!site.island.work.empty()) missing.remove(site.island.work[f].rest().steps);
      if (const auto* on_its_way = outstanding(site, {f})) missing.remove(ledger_.offer(i, on_its_way->serial));
    }
    auto unexplained = missing;
    unexplained.remove(ledger_.ever({f}));
    counts_.steps_of_lighter += missing.total() - unexplained.total();
    const auto steps = unexplained.total(), said = tokens_lost_[f] / tokens_per_step;
    if (steps <= said) continue;
    throw Broken(std::format("at the end: fragment {}: {} steps are neither merged nor kept, and {} said to be lost", f,
                             steps, said));
  }
}

std::string World::text_of_held() const {
  std::string text;
  for (std::uint32_t i = 0; i < plan_.site_count(); ++i) {
    text += std::format(", {}site{}", sites_[i].gone ? "gone " : "", i);
    for (const auto& [version, digest] : sites_[i].held)
      text += std::format(" {}:{}", version, digest.hex().substr(0, 6));
  }
  return text;
}

}  // namespace Atoll::federation::sim
