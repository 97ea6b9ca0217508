#include "atoll/app/run_directory.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "atoll/core/error.hpp"

namespace Atoll::app {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(fs::path folder, Opening opening) : folder_(std::move(folder)) {
  if (opening == Opening::fresh && fs::exists(log()))
    throw ConfigError("the run directory " + folder_.string() + " holds a run", "nothing is overwritten",
                      "add --resume to go on with it, or choose another --run");
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  if (error)
    throw SystemError("cannot make the run directory " + folder_.string(), error.value(), "choose another --run");
  lock_ = ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw SystemError("cannot write in " + folder_.string(), errno, "choose another --run");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    if (why == EWOULDBLOCK) {
      ::close(lock_);
      throw ConfigError("another island uses the run directory " + folder_.string(), "its lock is held",
                        "wait for it to end, or choose another --run");
    }
    std::cerr << "atoll: cannot lock the run directory " << folder_.string() << " (" << std::strerror(why)
              << ") make sure that no other island uses it\n";
  }
  if (fs::remove(folder_ / "DONE", error); error)
    throw SystemError("cannot write in " + folder_.string(), error.value(), "choose another --run");
}

RunDirectory::~RunDirectory() { ::close(lock_); }

void RunDirectory::leave(const std::string& name, const std::string& text) const {
  const auto part = folder_ / (name + ".part");
  errno = 0;
  std::ofstream stream(part);
  stream << text;
  stream.close();
  std::error_code error;
  if (stream) fs::rename(part, folder_ / name, error);
  if (!stream || error)
    throw SystemError("cannot write " + (folder_ / name).string(), error ? error.value() : errno, "free space there");
}

}  // namespace Atoll::app
