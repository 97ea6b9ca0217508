#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "atoll/app/folder_lock.hpp"
#include "atoll/core/quantities.hpp"

namespace Atoll::app {

/// One site's folder of one run: log.jsonl, federation.ini.resolved, checkpoints/, letters/, last_start, DONE. Held by
/// one island at a time.
class RunDirectory {
 public:
  enum class Opening { fresh, resume };

  /// Makes the folder. @throws ConfigError  it holds a run and `opening` is fresh, or another island has it now
  RunDirectory(std::filesystem::path folder, Opening opening);

  [[nodiscard]] std::filesystem::path log() const { return folder_ / "log.jsonl"; }
  [[nodiscard]] std::filesystem::path letters() const { return folder_ / "letters"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }

  static constexpr const char* start_file = "last_start";
  /// The incarnation of the latest start of this run, 0 for none.
  [[nodiscard]] Incarnation last_start() const;

  /// Leaves a text in the folder: written aside and renamed. @throws SystemError
  void leave(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
};

}  // namespace Atoll::app
