// The log of a run as a replay sees it: what it must hold, and where the repetition begins.
#include <algorithm>
#include <format>
#include <utility>

#include "atoll/core/error.hpp"
#include "atoll/federation/replay.hpp"

namespace Atoll::federation {
namespace {

// Of an event that names all fragments, or one: the place of fragment f.
bool is_at(const LoggedEvent& event, std::uint32_t f, const FragmentState& state) {
  if (event.name() == "opened") {
    const auto versions = event.numbers("versions");
    const auto anchors = event.texts("anchors");
    return f < std::min(versions.size(), anchors.size()) && versions[f] == state.version &&
           anchors[f] == state.digest.hex();
  }
  return (event.name() == "commit" || event.name() == "anchor_taken") && event.number("fragment") == f &&
         event.number("version") == state.version && event.text("anchor") == state.digest.hex();
}

}  // namespace

std::vector<LogField> standing_fields(const std::vector<FragmentState>& fragments) {
  std::vector<std::uint64_t> versions;
  std::vector<std::string> anchors;
  for (const auto& s : fragments) {
    versions.push_back(s.version);
    anchors.push_back(s.digest.hex());
  }
  return {{"versions", std::move(versions)}, {"anchors", std::move(anchors)}};
}

std::vector<LogField> opened_fields(const std::string& site, std::uint64_t step, Digest configuration,
                                    KeepLetters letters, const std::vector<FragmentState>& fragments) {
  std::vector<LogField> fields{{"format_version", log_format_version},
                               {"site", site},
                               {"step", step},
                               {"configuration", configuration.hex()},
                               {"keep_letters", name_of(letters)}};
  std::ranges::move(standing_fields(fragments), std::back_inserter(fields));
  return fields;
}

Replay::Replay(ReplayInput input)
    : input_(std::move(input)), letters_(input_.letters), begins_after_(input_.beginning.size(), 0) {
  read_log();
  check_openings();
  find_beginning();
  check_letters_were_kept();
  note_wanted();
  passed_.resize(input_.beginning.size());
  done_.fragments = input_.beginning;
  for (std::uint32_t f = 0; f < done_.fragments.size(); ++f) put({f}, input_.beginning[f]);
}

void Replay::note_wanted() {
  for (const auto& event : events_) {
    if (event.name() != "opened") continue;
    const auto versions = event.numbers("versions");
    const auto anchors = event.texts("anchors");
    for (std::uint32_t f = 0; f < std::min({versions.size(), anchors.size(), begins_after_.size()}); ++f)
      if (event.line() > begins_after_[f]) ++wanted_[{f, versions[f], anchors[f]}].starts;
  }
}

void Replay::read_log() {
  static const std::set<std::string_view> used = {"opened", "commit",     "anchor_taken", "kept",
                                                  "end",    "checkpoint", "not_kept",     "checkpoint_skipped"};
  const auto reading = read_events(
      input_.log, [](std::string_view name) { return used.contains(name); },
      [&](LoggedEvent event) { events_.push_back(std::move(event)); });
  for (const auto& event : events_)
    if (event.name() == "opened") done_.site = event.text("site");
  done_.lines = reading.lines;
  done_.last_line_is_cut = reading.last_line_is_cut;
}

void Replay::check_openings() const {
  const auto log = input_.log.string();
  const auto first = std::ranges::find(events_, "opened", &LoggedEvent::name);
  if (first == events_.end())
    throw ConfigError(
        "cannot replay " + log,
        "it holds no event 'opened', which every start writes since log version " + std::to_string(log_format_version),
        "replay runs of this version of Atoll");
  for (const auto& event : events_) {
    if (event.name() != "opened") continue;
    const auto where = log + " line " + std::to_string(event.line());
    if (const auto version = event.number("format_version"); version != log_format_version)
      throw ConfigError("cannot replay " + where,
                        "the log is of version " + std::to_string(version) + ", this program knows " +
                            std::to_string(log_format_version),
                        "use the version of Atoll that wrote it");
    if (event.text("configuration") != input_.config.configuration.hex())
      throw ConfigError("cannot replay " + where,
                        "that start had the configuration " + event.text("configuration") +
                            ", federation.ini.resolved has " + input_.config.configuration.hex(),
                        "restore federation.ini.resolved as the run wrote it");
  }
  const auto from_0 = std::ranges::all_of(first->numbers("versions"), [](auto version) { return version == 0; });
  if (input_.from == ReplayInput::From::version_0 && !from_0)
    throw ConfigError("cannot replay " + log + " from version 0", "the log begins later", "use --from CHECKPOINT");
}

// A site may have been at the same place several times, each time it came back: the last one goes on to the end.
void Replay::find_beginning() {
  if (input_.from == ReplayInput::From::version_0) return;
  for (std::uint32_t f = 0; f < input_.beginning.size(); ++f) {
    const auto& state = input_.beginning[f];
    const auto last = std::find_if(events_.rbegin(), events_.rend(),
                                   [&](const LoggedEvent& event) { return is_at(event, f, state); });
    if (last == events_.rend())
      throw ConfigError("cannot begin at this checkpoint",
                        std::format("the log {} never had fragment {} at version {} with digest {}",
                                    input_.log.string(), f, state.version, state.digest.hex()),
                        "use a checkpoint of this run");
    begins_after_[f] = last->line();
  }
}

void Replay::check_letters_were_kept() const {
  const LoggedEvent* opened = nullptr;
  for (const auto& event : events_) {
    if (event.name() == "opened") opened = &event;
    if (event.name() != "commit" && event.name() != "anchor_taken") continue;
    if (opened == nullptr || skipped(event) || opened->text("keep_letters") != name_of(KeepLetters::none)) continue;
    throw ConfigError("cannot replay " + input_.log.string() + " from line " + std::to_string(event.line()),
                      "the island that was started at line " + std::to_string(opened->line()) + " kept no letters",
                      "start islands with --keep-letters commits or all");
  }
}

bool Replay::skipped(const LoggedEvent& event) const {
  const auto f = event.number("fragment");
  return f < begins_after_.size() && event.line() <= begins_after_[f];
}

}  // namespace Atoll::federation
