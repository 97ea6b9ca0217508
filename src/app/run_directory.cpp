#include "atoll/app/run_directory.hpp"

#include <cerrno>
#include <fstream>
#include <system_error>

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
  lock_.emplace(folder_, "lock", "another island");
  if (fs::remove(folder_ / "DONE", error); error)
    throw SystemError("cannot write in " + folder_.string(), error.value(), "choose another --run");
}

Incarnation RunDirectory::last_start() const {
  Incarnation last = 0;
  std::ifstream stream(folder_ / start_file);
  stream >> last;
  return last;
}

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
