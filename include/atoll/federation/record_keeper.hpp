#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/core/event_log.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/store/letter_folder.hpp"

namespace Atoll::federation {

/// Which letters a site keeps for a replay; each site decides for itself.
enum class KeepLetters {
  none,
  commits,  ///< every commit that it applied, and every snapshot that it took over
  all,      ///< and every offer that it merged as steward
};

[[nodiscard]] std::string name_of(KeepLetters letters);
/// Nothing for another word.
[[nodiscard]] std::optional<KeepLetters> keep_letters_named(std::string_view name);

/// What a site writes to its disk in a round of all fragments, at most: as steward of all of them. [bytes]
[[nodiscard]] std::uint64_t kept_bytes_per_round(KeepLetters letters, std::uint64_t parameters, std::size_t sites);

/// Puts the letters of the protocol's records on disk and says so in the log ("kept"); what cannot be kept is noted as
/// a gap ("not_kept") and said once on standard error. Local; one thread at a time; `log` outlives it.
class RecordKeeper {
 public:
  RecordKeeper(KeepLetters which, store::LetterFolder folder, std::vector<std::string> sites, EventLog& log)
      : which_(which), folder_(std::move(folder)), sites_(std::move(sites)), log_(log) {}

  [[nodiscard]] KeepLetters which() const noexcept { return which_; }
  /// Never fails: training goes on without it.
  void keep(const Record& record) noexcept;

 private:
  void keep(const store::Letter& letter);

  KeepLetters which_;
  store::LetterFolder folder_;
  std::vector<std::string> sites_;
  EventLog& log_;
  bool said_ = false;
};

}  // namespace Atoll::federation
