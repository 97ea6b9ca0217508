#pragma once

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "atoll/federation/record_keeper.hpp"
#include "atoll/federation/replay.hpp"
#include "scratch_folder.hpp"
#include "sites_in_memory.hpp"

namespace Atoll::federation::test {

/// "equal", or what differs first.
inline std::string text_of(const Repeated& done) {
  if (!done.difference) return "equal";
  const auto& d = *done.difference;
  return std::to_string(d.line) + ": " + d.event + ": " + d.what + ": expected " + d.expected + ", found " + d.found;
}

/// Sites in memory, each with a log and letters on disk as an island writes them.
class RecordedRun {
 public:
  explicit RecordedRun(KeepLetters letters = KeepLetters::all, std::uint64_t reserve = 0, std::size_t count = 2)
      : letters_(letters), sites_(count) {
    sites_.config().keeps_letters = letters != KeepLetters::none;
    for (std::size_t i = 0; i < count; ++i) {
      std::filesystem::create_directories(folder(i));
      logs_.push_back(std::make_unique<EventLog>(log(i)));
      keepers_.emplace_back(letters, store::LetterFolder(folder(i) / "letters", reserve), sites_.config().sites,
                            *logs_[i]);
    }
    sites_.record_with([this](std::size_t i, const std::vector<Record>& records, std::vector<Note> notes) {
      for (const auto& record : records) keepers_[i].keep(record);
      for (auto& [event, fields] : notes) logs_[i]->write(event, std::move(fields));
    });
  }

  SitesInMemory& sites() { return sites_; }
  std::filesystem::path folder(std::size_t i) const { return scratch_.path() / ("site" + std::to_string(i)); }
  std::filesystem::path log(std::size_t i) const { return folder(i) / "log.jsonl"; }

  void start(std::size_t i) { start(i, sites_.beginning()); }
  void start(std::size_t i, const std::vector<FragmentState>& states) {
    logs_[i]->write("opened",
                    opened_fields(sites_.config().sites[i], 0, sites_.config().configuration, letters_, states));
    sites_.start(i, states);
  }
  void rounds(int count) {
    for (int round = 0; round < count; ++round) {
      for (std::size_t i = 0; i < 2; ++i) sites_.step(i, 0.1F * static_cast<float>(i + 1) + static_cast<float>(round));
      for (std::size_t i = 0; i < 2; ++i) sites_.offer_all(i);
      sites_.deliver();
    }
  }
  std::vector<FragmentState> checkpoint(std::size_t i) {
    flush(i);
    logs_[i]->write("checkpoint", standing_fields(sites_.protocol(i).fragments()));
    return sites_.protocol(i).fragments();
  }
  void kill(std::size_t i) {
    flush(i);
    sites_.kill(i);
  }
  void end() {
    for (std::size_t i = 0; i < 2; ++i) {
      flush(i);
      auto fields = standing_fields(sites_.protocol(i).fragments());
      fields.back().name = "digests";
      logs_[i]->write("end", std::move(fields));
    }
  }

  ReplayInput input(std::size_t i) {
    return {.log = log(i),
            .letters = folder(i) / "letters",
            .config = sites_.config(),
            .beginning = sites_.beginning(),
            .from = ReplayInput::From::version_0,
            .progress = {}};
  }
  Repeated replayed(std::size_t i) { return Replay(input(i)).run(); }

  std::vector<std::string> lines(std::size_t i) const {
    std::vector<std::string> found;
    std::ifstream stream(log(i));
    for (std::string line; std::getline(stream, line);) found.push_back(line);
    return found;
  }
  void rewrite(std::size_t i, const std::vector<std::string>& lines) const {
    std::ofstream stream(log(i));
    for (const auto& line : lines) stream << line << '\n';
  }
  /// Number of the line, from 1, that is the commit of fragment 0 to `version`.
  std::uint64_t line_of_commit(std::size_t i, Version version) const {
    const auto mark = R"("event":"commit","fragment":0,"version":)" + std::to_string(version) + ",";
    const auto all = lines(i);
    const auto found =
        std::ranges::find_if(all, [&](const auto& line) { return line.find(mark) != std::string::npos; });
    return static_cast<std::uint64_t>(found - all.begin()) + 1;
  }
  /// The kept letter of fragment 0 with this version (an offer's is its base) and kind.
  std::filesystem::path letter(std::size_t i, Version version, const std::string& kind, std::uint32_t site = 0) const {
    store::Letter named;
    named.version = version;
    named.site = {site};
    const auto stem = store::LetterFolder::stem(named);
    for (const auto& entry : std::filesystem::directory_iterator(folder(i) / "letters")) {
      const auto name = entry.path().filename().string();
      if (name.starts_with(stem.substr(0, 22)) && name.find(kind) != std::string::npos) return entry.path();
    }
    return {};
  }

 private:
  void flush(std::size_t i) { (void)sites_.saw(i, ""); }

  store::test::ScratchFolder scratch_;
  KeepLetters letters_;
  SitesInMemory sites_;
  std::vector<std::unique_ptr<EventLog>> logs_;
  std::vector<RecordKeeper> keepers_;
};

}  // namespace Atoll::federation::test
