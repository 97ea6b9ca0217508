#include "atoll/core/event_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "atoll/core/error.hpp"

namespace Atoll {

struct EventLog::State {
  int descriptor = -1;
  std::mutex mutex;
  std::uint64_t lost_lines = 0;
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

namespace {

// What a kill or a full disk cut off must not run into the first line that we write.
void end_cut_line(const std::filesystem::path& file, int descriptor) {
  const int reader = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (reader < 0) return;
  char last = '\n';
  const bool cut = ::lseek(reader, -1, SEEK_END) >= 0 && ::read(reader, &last, 1) == 1 && last != '\n';
  ::close(reader);
  // A disk that is still full is said with the first event.
  if (cut && ::write(descriptor, "\n", 1) < 0) return;
}

}  // namespace

EventLog::EventLog() : state_(std::make_unique<State>()) {}

EventLog::EventLog(const std::filesystem::path& file) : EventLog() {
  state_->descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (state_->descriptor < 0)
    throw SystemError("cannot write the log " + file.string(), errno, "choose a run directory that you may write");
  end_cut_line(file, state_->descriptor);
}

EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;
EventLog::~EventLog() = default;

namespace {

nlohmann::ordered_json json_of(const LogValue& value) {
  return std::visit(
      [](const auto& v) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>)
          if (!std::isfinite(v)) return nullptr;
        return v;
      },
      value);
}

}  // namespace

void EventLog::write(std::string_view event, std::vector<LogField> fields) noexcept try {
  if (state_->descriptor < 0) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json line;
  line["time"] = std::chrono::duration<double>(now).count();
  line["event"] = event;
  for (const auto& field : fields) line[std::string(field.name)] = json_of(field.value);
  const auto text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';

  const std::lock_guard lock(state_->mutex);
  if (::write(state_->descriptor, text.data(), text.size()) != static_cast<ssize_t>(text.size()) &&
      state_->lost_lines++ == 0)
    std::fprintf(stderr, "atoll: a log line is lost (%s) free space on the run directory's disk\n",
                 std::strerror(errno));
} catch (...) {
  std::fprintf(stderr, "atoll: a log line is lost (out of memory)\n");
}

}  // namespace Atoll
