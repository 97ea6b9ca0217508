#include "atoll/core/event_reader.hpp"

#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace Atoll {
namespace {

using nlohmann::json;

LogValue list_of(const json& list) {
  const auto all = [&](auto is) { return std::ranges::all_of(list, is); };
  if (all([](const json& item) { return item.is_string(); })) return list.get<std::vector<std::string>>();
  if (all([](const json& item) { return item.is_number_unsigned(); })) return list.get<std::vector<std::uint64_t>>();
  std::vector<double> reals;
  for (const auto& item : list)
    reals.push_back(item.is_number() ? item.get<double>() : std::numeric_limits<double>::quiet_NaN());
  return reals;
}

std::optional<LogValue> value_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return std::numeric_limits<double>::quiet_NaN();
    case json::value_t::boolean:
      return value.get<bool>();
    case json::value_t::number_integer:
      return value.get<std::int64_t>();
    case json::value_t::number_unsigned:
      return value.get<std::uint64_t>();
    case json::value_t::number_float:
      return value.get<double>();
    case json::value_t::string:
      return value.get<std::string>();
    case json::value_t::array:
      return list_of(value);
    default:
      return std::nullopt;
  }
}

// An inner step's line is as long as any other and there are a hundred times as many: its name is enough.
std::optional<std::string> name_of(std::string_view line) {
  constexpr std::string_view mark = R"("event":")";
  const auto begin = line.find(mark);
  if (begin == std::string_view::npos || !line.ends_with('}')) return std::nullopt;
  const auto end = line.find('"', begin + mark.size());
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(begin + mark.size(), end - begin - mark.size()));
}

std::optional<LoggedEvent> event_of(std::uint64_t number, const std::string& line) {
  const auto parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("event") || !parsed["event"].is_string()) return std::nullopt;
  std::map<std::string, LogValue, std::less<>> fields;
  for (const auto& [name, item] : parsed.items())
    if (auto value = value_of(item)) fields.emplace(name, std::move(*value));
  return LoggedEvent(number, parsed["event"].get<std::string>(), std::move(fields));
}

template <class T>
std::vector<T> list(const LogValue& value, bool& fits) {
  const auto* found = std::get_if<std::vector<T>>(&value);
  const auto* none = std::get_if<std::vector<std::string>>(&value);  // how an empty list is read
  fits = found != nullptr || (none != nullptr && none->empty());
  return found != nullptr ? *found : std::vector<T>{};
}

}  // namespace

void LoggedEvent::refuse(std::string_view field, const std::string& why) const {
  throw Error("cannot use line " + std::to_string(line_) + " of the log (its field '" + std::string(field) + "' " +
              why + ") the line was changed, or another version of Atoll wrote it");
}

const LogValue& LoggedEvent::value(std::string_view field) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) refuse(field, "is missing");
  return found->second;
}

std::uint64_t LoggedEvent::number(std::string_view field) const {
  const auto* found = std::get_if<std::uint64_t>(&value(field));
  if (found == nullptr) refuse(field, "is no whole number from 0");
  return *found;
}

double LoggedEvent::real(std::string_view field) const {
  const auto& held = value(field);
  if (const auto* real = std::get_if<double>(&held)) return *real;
  if (const auto* number = std::get_if<std::uint64_t>(&held)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::int64_t>(&held)) return static_cast<double>(*number);
  refuse(field, "is no number");
}

const std::string& LoggedEvent::text(std::string_view field) const {
  const auto* found = std::get_if<std::string>(&value(field));
  if (found == nullptr) refuse(field, "is no text");
  return *found;
}

std::vector<std::uint64_t> LoggedEvent::numbers(std::string_view field) const {
  bool fits = false;
  auto found = list<std::uint64_t>(value(field), fits);
  if (!fits) refuse(field, "is no list of whole numbers from 0");
  return found;
}

std::vector<double> LoggedEvent::reals(std::string_view field) const {
  bool fits = false;
  auto found = list<double>(value(field), fits);
  if (fits) return found;
  const auto whole = list<std::uint64_t>(value(field), fits);
  if (!fits) refuse(field, "is no list of numbers");
  return {whole.begin(), whole.end()};
}

std::vector<std::string> LoggedEvent::texts(std::string_view field) const {
  const auto* found = std::get_if<std::vector<std::string>>(&value(field));
  if (found == nullptr) refuse(field, "is no list of texts");
  return *found;
}

LogReading read_events(const std::filesystem::path& file, const EventFilter& wanted,
                       const std::function<void(LoggedEvent)>& take) {
  errno = 0;
  std::ifstream stream(file);
  if (!stream) throw SystemError("cannot read the log " + file.string(), errno, "check its name and permissions");
  LogReading reading;
  for (std::string line; std::getline(stream, line);) {
    if (stream.eof()) {
      reading.last_line_is_cut = true;
      break;
    }
    ++reading.lines;
    const auto name = name_of(line);
    if (name && !wanted(*name)) continue;
    auto event = event_of(reading.lines, line);
    take(event ? std::move(*event) : LoggedEvent(reading.lines, "", {}));
  }
  if (stream.bad()) throw SystemError("cannot read the log " + file.string() + " to its end", errno, "check the disk");
  return reading;
}

}  // namespace Atoll
