#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/core/quantities.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/federation/site.hpp"
#include "atoll/model/trainer.hpp"
#include "atoll/outer/fragment_plan.hpp"
#include "atoll/outer/mixing.hpp"
#include "atoll/outer/schedule.hpp"

namespace Atoll::app {

/// How many inner steps a site makes between two offers of a fragment.
enum class StepRule {
  fixed,    ///< the schedule's
  dynamic,  ///< so many that all sites offer together (Liu 2024, dynamic local updates)
};

/// The file that every site holds: who takes part, what is trained and how. Format: INI, described in inputs/README.md.
struct FederationFile {
  std::string name;
  std::vector<federation::Site> sites;
  std::uint64_t seed = 1;

  model::GptConfig model;
  model::AdamWConfig adamw;
  std::int64_t batch = 16;        ///< sequences that a site uses in one inner step, over all its ranks
  std::int64_t micro_batch = 16;  ///< sequences that a rank holds at once at most
  outer::CosineSchedule learning_rate;

  std::uint64_t fragments = 4;
  outer::Fragmentation fragmentation = outer::Fragmentation::strided;
  outer::Schedule schedule;
  StepRule steps = StepRule::fixed;
  outer::Mixing mixing = outer::Mixing::rebase;
  float alpha = 0;
  double slowest_link = 8;  ///< [Mbit/s] that every link carries at least
  Seconds wait{0};  ///< how long a round's end may hold up the inner steps for its commit

  federation::ProtocolConfig protocol;  ///< without self and incarnation

  std::string resolved;  ///< every setting that sites must agree on, one "key = value" a line
  Digest configuration;  ///< of `resolved`; compared in the first handshake

  /// Makes `key` = `value`, which the file does not hold, a part of what all sites must agree on.
  void agree_on(const std::string& key, const std::string& value);

  /// @throws ConfigError  the file does not name such a site
  [[nodiscard]] SiteId site(std::string_view site_name) const;
};

/// @throws ConfigError  missing file, unknown key, malformed or contradicting values
[[nodiscard]] FederationFile read_federation(const std::filesystem::path& file);

/// Reads back what a run directory keeps as federation.ini.resolved: `resolved` and `configuration` are the run's own.
/// @throws ConfigError  as above
[[nodiscard]] FederationFile read_resolved_federation(const std::filesystem::path& file);

}  // namespace Atoll::app
