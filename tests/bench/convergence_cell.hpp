#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/app/federation_file.hpp"

namespace Atoll::bench {

/// Do the inner steps wait for a commit that is due?
enum class Pace { waits, goes_on };

/// One row of the convergence table: how the sites exchange. Times are virtual; the fastest site makes an inner step in
/// one second.
struct Cell {
  std::string_view name;
  std::uint32_t sites = 1;
  std::vector<double> step_seconds = {1};  ///< by site; the last one is that of all further sites
  double jitter = 0;                       ///< every step takes 1 +- jitter times as long
  double offer_seconds = 0.1;              ///< under way to the steward
  double other_seconds = 0.1;              ///< every other letter
  double dropped = 0;                      ///< share of the due offers that are never made

  Pace pace = Pace::waits;
  std::uint64_t fragments = 1;
  std::uint64_t overlap = 0;  ///< tau
  outer::Mixing mixing = outer::Mixing::rebase;
  float alpha = 0;
  std::uint32_t quorum = 0;  ///< 0 = all sites
  double grace = 0;          ///< [virtual seconds], the longest
  double grace_slack = 0;    ///< gamma; 0: the grace window is fixed
  Version staleness = 0;     ///< S
  federation::AfterOffer after_offer = federation::AfterOffer::own;
  app::StepRule steps = app::StepRule::fixed;
  std::uint32_t delay = 0;  ///< N of delayed Nesterov; 0: Nesterov
  float momentum = 0.9F;    ///< of the outer optimizer
};

/// The cell of that name. @throws ConfigError  there is none
[[nodiscard]] const Cell& cell(std::string_view name);
[[nodiscard]] const std::vector<Cell>& cells();

/// What is equal in all cells.
struct Sizes {
  model::GptConfig model{.vocabulary = 256, .context = 64, .layers = 3, .heads = 2, .width = 96};
  std::int64_t batch = 16;         ///< sequences of one inner step, over all sites
  std::uint64_t inner_steps = 30;  ///< H
  std::uint64_t rounds = 30;
  double inner_rate = 5e-3;
  double outer_rate = 0.7;
  std::uint64_t seed = 1;
};

/// Tokens that all sites of a run train on together.
[[nodiscard]] std::uint64_t total_tokens(const Sizes& sizes);
[[nodiscard]] app::FederationFile federation_of(const Cell& cell, const Sizes& sizes);

}  // namespace Atoll::bench
