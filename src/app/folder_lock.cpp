#include "atoll/app/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "atoll/core/error.hpp"

namespace Atoll::app {

FolderLock::FolderLock(const std::filesystem::path& folder, const std::string& file, const std::string& holder)
    : descriptor_(::open((folder / file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) throw SystemError("cannot write in " + folder.string(), errno, "choose another --run");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int why = errno;
  if (why == EWOULDBLOCK) {
    ::close(descriptor_);
    throw ConfigError(holder + " uses the run directory " + folder.string(), "its lock is held",
                      "wait for it to end, or choose another --run");
  }
  std::cerr << "atoll: cannot lock the run directory " << folder.string() << " (" << std::strerror(why)
            << ") make sure that nobody else uses it\n";
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace Atoll::app
