#include "convergence_cell.hpp"

#include <algorithm>

#include "atoll/core/error.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::bench {
namespace {

constexpr std::uint64_t inner_steps = 30;  // H

using federation::AfterOffer;
using outer::Mixing;

/// A cell in few words: another one with another name and some changes.
template <class Change>
Cell variant(Cell cell, std::string_view name, Change change) {
  cell.name = name;
  change(cell);
  return cell;
}

void overlap(Cell& cell, std::uint64_t tau) {
  cell.overlap = tau;
  cell.offer_seconds = static_cast<double>(tau) - 0.6;  // a commit comes half a step before it is due
}

std::vector<Cell> all_cells() {
  const Cell streaming{.name = {}, .sites = 2, .fragments = 3, .mixing = Mixing::blend, .alpha = 0.5F};
  auto late = variant({}, {}, [](Cell& c) { c.sites = 2, c.pace = Pace::goes_on, overlap(c, inner_steps); });
  const Cell dropped{
      .name = {}, .sites = 4, .jitter = 0.02, .dropped = 0.5, .pace = Pace::goes_on, .quorum = 1, .grace = 2};
  const Cell slow{
      .name = {}, .sites = 4, .step_seconds = {1, 1, 1, 4}, .jitter = 0.1, .pace = Pace::goes_on, .quorum = 1};
  auto asynchronous = variant(slow, {}, [](Cell& c) { c.step_seconds = {1, 1.3, 2.6, 5.7}, c.staleness = 16; });
  return {
      {.name = "data_parallel"},
      {.name = "diloco_2", .sites = 2},
      {.name = "diloco_4", .sites = 4},
      {.name = "diloco_8", .sites = 8},
      variant(streaming, "streaming_tau1_blend", [](Cell& c) { overlap(c, 1); }),
      variant(streaming, "streaming_tau5_blend", [](Cell& c) { overlap(c, 5); }),
      variant(streaming, "streaming_tau5_rebase",
              [](Cell& c) { overlap(c, 5), c.mixing = Mixing::rebase, c.alpha = 0; }),
      variant(late, "late_naive", [](Cell& c) { c.after_offer = AfterOffer::anchor; }),
      variant(late, "late_eager", [](Cell& c) { c.after_offer = AfterOffer::eager; }),
      variant(late, "late_rebase", [](Cell&) {}),
      variant(dropped, "dropped_half", [](Cell&) {}),
      variant(dropped, "dropped_half_blend", [](Cell& c) { c.mixing = Mixing::blend, c.alpha = 0.5F; }),
      variant(slow, "slow_no_grace", [](Cell&) {}),
      variant(slow, "slow_no_grace_late", [](Cell& c) { c.staleness = 4; }),
      variant(slow, "slow_grace", [](Cell& c) { c.grace = 2; }),
      variant(slow, "slow_grace_tau5", [](Cell& c) { c.overlap = 5, c.grace = 2; }),
      variant(slow, "slow_grace_adaptive", [](Cell& c) { c.overlap = 5, c.grace = 10, c.grace_slack = 1; }),
      variant(slow, "slow_all", [](Cell& c) { c.quorum = 0; }),
      variant(asynchronous, "async_nesterov", [](Cell&) {}),
      variant(asynchronous, "async_nesterov_dynamic", [](Cell& c) { c.steps = app::StepRule::dynamic; }),
      variant(asynchronous, "async_delayed", [](Cell& c) { c.delay = 8; }),
      variant(asynchronous, "async_delayed_dynamic", [](Cell& c) { c.delay = 8, c.steps = app::StepRule::dynamic; }),
      {.name = "diloco_2_momentum_0.5", .sites = 2, .momentum = 0.5F},
  };
}

}  // namespace

const std::vector<Cell>& cells() {
  static const auto all = all_cells();
  return all;
}

const Cell& cell(std::string_view name) {
  const auto found = std::ranges::find(cells(), name, &Cell::name);
  if (found != cells().end()) return *found;
  throw ConfigError("no cell '" + std::string(name) + "'", "it is not in the table", "see --list");
}

std::uint64_t total_tokens(const Sizes& sizes) {
  return sizes.rounds * sizes.inner_steps * static_cast<std::uint64_t>(sizes.batch * sizes.model.context);
}

app::FederationFile federation_of(const Cell& cell, const Sizes& sizes) {
  if (sizes.batch % cell.sites != 0)
    throw ConfigError("the batch does not suit the cell", "the sites share it equally", "use a multiple of 8");
  app::FederationFile federation;
  federation.name = cell.name;
  for (std::uint32_t i = 0; i < cell.sites; ++i) {
    federation.sites.emplace_back().name = "site" + std::to_string(i);
    federation.protocol.sites.push_back(federation.sites.back().name);
  }
  federation.seed = sizes.seed;
  federation.model = sizes.model;
  federation.batch = federation.micro_batch = sizes.batch / cell.sites;
  const auto tokens = static_cast<double>(total_tokens(sizes));
  federation.learning_rate = {.peak = sizes.inner_rate, .warmup_tokens = 0.05 * tokens, .total_tokens = tokens};
  federation.fragments = cell.fragments;
  federation.schedule = {.inner_steps = sizes.inner_steps, .fragments = cell.fragments, .overlap = cell.overlap};
  federation.steps = cell.steps;
  federation.mixing = cell.mixing;
  federation.alpha = cell.alpha;

  auto& protocol = federation.protocol;
  protocol.federation = federation.name;
  protocol.configuration = store::digest_of(federation.name);
  protocol.quorum = cell.quorum == 0 ? cell.sites : cell.quorum;
  protocol.grace = {.longest = Seconds{cell.grace}, .slack_share = cell.grace_slack, .overlap = cell.overlap};
  protocol.staleness = cell.staleness;
  protocol.staleness_decay = 1;
  protocol.after_offer = cell.after_offer;
  protocol.catch_up_after = protocol.resend_after = protocol.ask_again_after = Seconds{1000};  // no letter is lost here
  protocol.outer.method = cell.delay > 0 ? outer::OuterMethod::delayed_nesterov : outer::OuterMethod::nesterov;
  protocol.outer.learning_rate = static_cast<float>(sizes.outer_rate);
  protocol.outer.momentum = cell.momentum;
  protocol.outer.delay = std::max(cell.delay, 1U);
  protocol.keeps_progress = cell.mixing == outer::Mixing::rebase || cell.alpha > 0;
  protocol.total_tokens = total_tokens(sizes);
  return federation;
}

}  // namespace Atoll::bench
