#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/core/error.hpp"
#include "atoll/core/event_log.hpp"

namespace Atoll {

/// One line of an event log as it was read back.
class LoggedEvent {
 public:
  LoggedEvent(std::uint64_t line, std::string name, std::map<std::string, LogValue, std::less<>> fields)
      : line_(line), name_(std::move(name)), fields_(std::move(fields)) {}

  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }  ///< from 1
  /// Empty: the line is no event; it was cut or changed.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool has(std::string_view field) const { return fields_.contains(field); }

  // @throws Error  the field is missing or of another type. A number that was not finite reads as NaN.
  [[nodiscard]] std::uint64_t number(std::string_view field) const;
  [[nodiscard]] double real(std::string_view field) const;
  [[nodiscard]] const std::string& text(std::string_view field) const;
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::string_view field) const;
  [[nodiscard]] std::vector<double> reals(std::string_view field) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view field) const;

 private:
  [[nodiscard]] const LogValue& value(std::string_view field) const;
  [[noreturn]] void refuse(std::string_view field, const std::string& why) const;

  std::uint64_t line_;
  std::string name_;
  std::map<std::string, LogValue, std::less<>> fields_;
};

/// What a log is made of besides its events.
struct LogReading {
  std::uint64_t lines = 0;        ///< whole ones
  bool last_line_is_cut = false;  ///< by a kill or a full disk; it is not among the events
};

/// Which events a reader wants; the fields of the others are not looked at.
using EventFilter = std::function<bool(std::string_view name)>;

/// Calls `take` for every wanted event and for every line that is none, in the order of the file. Local; the log may
/// grow meanwhile.   @throws SystemError  the file cannot be read
LogReading read_events(const std::filesystem::path& file, const EventFilter& wanted,
                       const std::function<void(LoggedEvent)>& take);

}  // namespace Atoll
