#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/record_keeper.hpp"

namespace Atoll::app {

/// What one site decides for itself; everything that all sites share is in the federation file.
struct IslandOptions {
  std::filesystem::path federation;
  std::string site;
  std::filesystem::path tokens;
  std::filesystem::path run;
  std::filesystem::path mailboxes;
  std::string prompt = "And ";
  bool resume = false;
  bool live = false;  ///< the progress line is written over itself
  bool dry_run = false;
  bool print_config = false;
  int threads = 0;                       ///< per rank; 0: the cores of this machine shared by its ranks
  std::uint64_t checkpoint_every = 200;  ///< [inner steps]
  std::uint64_t evaluate_every = 200;    ///< [inner steps]
  std::uint64_t evaluation_batches = 4;
  federation::KeepLetters keep_letters = federation::KeepLetters::none;
  Seconds gather{20};   ///< how long it waits for the others before its first step
  Seconds linger{600};  ///< how long a finished site goes on serving those that are not
  Seconds progress_every{5};
};

/// Nothing when help or version was asked for and printed. @throws ConfigError
[[nodiscard]] std::optional<IslandOptions> parse_island_options(std::span<const std::string> arguments);

}  // namespace Atoll::app
