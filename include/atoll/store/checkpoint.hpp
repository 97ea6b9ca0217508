#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atoll/core/quantities.hpp"
#include "atoll/store/error.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::store {

/// Where one named tensor lies in the flat parameter vector; mirrors model::ParameterInfo.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< in the flat vector [values]
  bool operator==(const NamedTensor&) const = default;
};

/// What a site has sent (or is about to send) and not yet seen in a commit.
struct OutstandingOffer {
  std::uint64_t serial = 0;
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  Version base = 0;  ///< the version it started from
  Values values;     ///< the fragment's parameters when it was offered
};

/// One fragment's side of the federation.
struct FragmentCheckpoint {
  Version version = 0;
  Digest anchor_digest;  ///< of anchor and optimizer's state, as in FragmentStatus
  std::uint64_t tokens_merged = 0;
  std::uint64_t steps_since_base = 0;
  std::uint64_t tokens_since_base = 0;
  Values anchor;
  Values momentum;                                 ///< the outer optimizer's state, slot after slot
  Values residual;                                 ///< null: none
  std::vector<OfferRecord> merged;                 ///< the newest merged offer of each site
  std::vector<std::pair<Version, Digest>> recent;  ///< digests of recent anchors, oldest first
  std::optional<OutstandingOffer> outstanding;
};

/// Everything that a resumed site needs. The layout on disk is described in src/store/CHECKPOINT.md.
struct Checkpoint {
  std::string configuration_digest;  ///< hexadecimal, of everything that all sites must agree on
  std::string configuration;         ///< the resolved configuration, verbatim
  std::string federation;
  std::string site;
  std::string program_version;
  std::uint64_t step = 0;             ///< inner steps done; names the file
  std::uint64_t data_cursor = 0;      ///< of data::BatchOrder
  std::uint64_t tokens = 0;           ///< trained on by this site
  std::uint64_t optimizer_steps = 0;  ///< AdamW's bias correction
  std::string random_state;           ///< free text
  std::vector<NamedTensor> tensors;   ///< they cover the flat vectors without gap or overlap
  std::vector<float> parameters;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
  std::vector<FragmentCheckpoint> fragments;
};

struct FoundCheckpoint {
  std::filesystem::path file;
  Checkpoint checkpoint;
};

/// Told of every damaged checkpoint that was passed over, and why.
using SkippedCheckpoint = std::function<void(const std::filesystem::path& file, const std::string& why)>;

/// "checkpoint-<step, 12 digits>.h5" in `folder`: written aside, synced, renamed and read back; only then are all but
/// the newest `keep` removed. Local; any one thread (letters may be written meanwhile).
/// @throws SystemError  disk full or file system gone; older checkpoints are untouched and nothing is left behind
std::filesystem::path save(const Checkpoint& checkpoint, const std::filesystem::path& folder, std::size_t keep = 2);

/// Reads and verifies one checkpoint completely. @throws Error  damaged, or of another format
[[nodiscard]] Checkpoint load(const std::filesystem::path& file);

/// The newest checkpoint of `folder` that is whole; nothing when the folder holds none or does not exist.
/// @throws Error  there are checkpoints, but none is whole
[[nodiscard]] std::optional<FoundCheckpoint> load_newest(const std::filesystem::path& folder,
                                                         const SkippedCheckpoint& skipped = {});

/// Where save() puts the checkpoint of `step`.
[[nodiscard]] std::filesystem::path checkpoint_file(const std::filesystem::path& folder, std::uint64_t step);

/// Checkpoints in `folder`, oldest first, by name only. Parts that a kill left are not counted.
[[nodiscard]] std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

}  // namespace Atoll::store
