#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace Atoll {

/// One value of a log line. Numbers that are not finite are written as null.
using LogValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>,
                              std::vector<std::uint64_t>, std::vector<double>>;

/// One named value of a log line; any integer, floating point number or text converts to it.
struct LogField {
  std::string_view name;
  LogValue value;
};

/// Lines of JSON, one per event, each with the time: {"time": <seconds since 1970>, "event": "...", ...}.
///
/// Appends to the file, so that a resumed run continues its log. Each line is one write(2), so a kill never leaves
/// half a line in front of another; one that ends the file all the same gets its end of line first. Thread use: any;
/// write() locks.
class EventLog {
 public:
  /// A log that writes nowhere.
  EventLog();
  /// @throws SystemError  the file cannot be opened
  explicit EventLog(const std::filesystem::path& file);
  EventLog(EventLog&&) noexcept;
  EventLog& operator=(EventLog&&) noexcept;
  ~EventLog();

  /// Never throws: a line that cannot be written is reported once on standard error and counted.
  void write(std::string_view event, std::vector<LogField> fields) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace Atoll
