#pragma once

#include <filesystem>
#include <string>

namespace Atoll::app {

/// A lock file (flock) that keeps a second process of the same kind out of a run directory. Ends with the process.
/// On a file system without locks it only warns.
class FolderLock {
 public:
  /// @param holder  who may hold it, for the message: "another island"
  /// @throws ConfigError  another process holds it   @throws SystemError  the file cannot be made
  FolderLock(const std::filesystem::path& folder, const std::string& file, const std::string& holder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

}  // namespace Atoll::app
