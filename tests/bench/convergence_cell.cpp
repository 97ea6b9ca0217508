#include "convergence_cell.hpp"

#include <algorithm>

#include "atoll/core/error.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::bench {
namespace {

constexpr double inner_steps = 30;  // H of all cells; only the latency of the late ones needs it here

std::vector<Cell> all_cells() {
  using outer::Mixing;
  const Cell streaming{.name = {}, .sites = 2, .fragments = 3, .mixing = Mixing::blend, .alpha = 0.5F};
  const auto overlapped = [](Cell cell, std::string_view name, std::uint64_t tau) {
    cell.name = name;
    cell.overlap = tau;
    cell.offer_seconds = static_cast<double>(tau) - 0.6;  // a commit comes half a step before it is due
    return cell;
  };
  auto rebased = streaming;
  rebased.mixing = Mixing::rebase;
  rebased.alpha = 0;
  const Cell late{.name = {}, .sites = 2, .offer_seconds = inner_steps - 0.6, .pace = Pace::goes_on, .overlap = 30};
  const Cell slow{
      .name = {}, .sites = 4, .step_seconds = {1, 1, 1, 4}, .jitter = 0.02, .pace = Pace::goes_on, .quorum = 1};
  const auto named = [](Cell cell, std::string_view name, auto change) {
    cell.name = name;
    change(cell);
    return cell;
  };
  return {
      {.name = "data_parallel"},
      {.name = "diloco_2", .sites = 2},
      {.name = "diloco_4", .sites = 4},
      {.name = "diloco_8", .sites = 8},
      overlapped(streaming, "streaming_tau1_blend", 1),
      overlapped(streaming, "streaming_tau5_blend", 5),
      overlapped(rebased, "streaming_tau5_rebase", 5),
      named(late, "late_rebase", [](Cell&) {}),
      {.name = "dropped_half",
       .sites = 4,
       .jitter = 0.02,
       .dropped = 0.5,
       .pace = Pace::goes_on,
       .quorum = 1,
       .grace = 2},
      named(slow, "slow_no_grace", [](Cell&) {}),
      named(slow, "slow_grace", [](Cell& c) { c.grace = 2; }),
      named(slow, "slow_all", [](Cell& c) { c.quorum = 0; }),
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
  federation.mixing = cell.mixing;
  federation.alpha = cell.alpha;

  auto& protocol = federation.protocol;
  protocol.federation = federation.name;
  protocol.configuration = store::digest_of(federation.name);
  protocol.quorum = cell.quorum == 0 ? cell.sites : cell.quorum;
  protocol.grace = Seconds{cell.grace};
  protocol.catch_up_after = protocol.resend_after = protocol.ask_again_after = Seconds{1000};  // no letter is lost here
  protocol.status_interval = Seconds{5};
  protocol.outer_learning_rate = static_cast<float>(sizes.outer_rate);
  protocol.outer_momentum = 0.9F;
  protocol.keeps_progress = cell.mixing == outer::Mixing::rebase || cell.alpha > 0;
  protocol.total_tokens = total_tokens(sizes);
  return federation;
}

}  // namespace Atoll::bench
