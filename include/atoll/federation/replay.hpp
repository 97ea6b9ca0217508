#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "atoll/core/event_reader.hpp"
#include "atoll/federation/fragment_state.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/federation/record_keeper.hpp"
#include "atoll/store/letter_folder.hpp"

namespace Atoll::federation {

/// The form of a site's event log; the event "opened" carries it.
inline constexpr std::uint64_t log_format_version = 1;

/// The first event of each start of an island: where its fragments stand.
[[nodiscard]] std::vector<LogField> opened_fields(const std::string& site, std::uint64_t step, Digest configuration,
                                                  KeepLetters letters, const std::vector<FragmentState>& fragments);
/// "versions" and "anchors": where the fragments stand, as every event that tells all of them names it.
[[nodiscard]] std::vector<LogField> standing_fields(const std::vector<FragmentState>& fragments);

/// The first event at which the run and its repetition differ.
struct Difference {
  std::uint64_t line = 0;  ///< of the log
  std::string event;       ///< "commit of fragment 0 to version 7"
  std::string what;        ///< "weight of the offer of alpha"
  std::string expected;    ///< what the repetition gives
  std::string found;       ///< what the log, a letter or a checkpoint says
};

/// What a replay did until its end or the first difference.
struct Repeated {
  std::uint64_t lines = 0;      ///< of the log
  std::string site;             ///< whose log it is
  std::uint64_t starts = 0;     ///< of the island
  std::uint64_t merges = 0;     ///< repeated from the offers, then applied
  std::uint64_t commits = 0;    ///< applied without the offers: another site's, or the offers were not kept
  std::uint64_t snapshots = 0;  ///< taken over
  std::uint64_t checked = 0;    ///< "checkpoint" and "end": they name all fragments' digests
  bool last_line_is_cut = false;
  std::vector<FragmentState> fragments;
  std::optional<Difference> difference;
};

/// The log and the letters of one site's run, and where its repetition begins.
struct ReplayInput {
  std::filesystem::path log;
  std::filesystem::path letters;
  ProtocolConfig config;                 ///< of the run; `self` may be any site
  std::vector<FragmentState> beginning;  ///< version 0, or the fragments of a checkpoint
  enum class From { version_0, checkpoint } from = From::version_0;
  std::function<void(const Repeated&, double share)> progress;  ///< called after every event; may be empty
};

/// Repeats all merges of one site from its log and letters (DESIGN section 3, the last rule).
///
/// Every commit: weights from tokens and steps by the rule, merged gradient from the offers where they were kept, outer
/// step, digest; every snapshot and every start from an older checkpoint is followed. Local; one thread.
class Replay {
 public:
  /// Reads the log. @throws ConfigError  it is of another version or configuration, no letters were kept, or the
  /// checkpoint is of another run   @throws Error  a line that all depends on was changed   @throws SystemError
  explicit Replay(ReplayInput input);

  /// Until the end of the log or the first difference.
  [[nodiscard]] Repeated run();

  /// Compares a checkpoint of the same run with what was repeated; call after run().
  /// @param name  of the checkpoint, for the difference
  [[nodiscard]] std::optional<Difference> compare(const std::string& name,
                                                  const std::vector<FragmentState>& fragments) const;

 private:
  using Place = std::tuple<std::uint32_t, Version, std::string>;  ///< fragment, version, digest
  struct Wanted {
    std::uint64_t starts = 0;  ///< that are still to begin there
    std::optional<FragmentState> reached;
  };

  // replay_log.cpp
  void read_log();
  void check_openings() const;
  void find_beginning();
  void check_letters_were_kept() const;
  void note_wanted();
  [[nodiscard]] bool skipped(const LoggedEvent& event) const;

  // replay.cpp
  void follow(const LoggedEvent& event);
  [[nodiscard]] bool ends_a_start(const LoggedEvent& cut) const;
  void follow_opened(const LoggedEvent& event);
  void follow_commit(const LoggedEvent& event);
  void follow_snapshot(const LoggedEvent& event);
  void check_standing(const LoggedEvent& event);
  [[nodiscard]] std::vector<store::Letter> offers_of(const LoggedEvent& event, const store::Letter& commit);
  [[nodiscard]] std::optional<store::Letter> letter(const LoggedEvent& event, const std::string& key) const;
  [[nodiscard]] bool must_have_kept(const LoggedEvent& event, const std::string& site, std::uint64_t serial) const;
  [[nodiscard]] std::string why_missing(const std::string& key) const;
  [[nodiscard]] FragmentId fragment_of(const LoggedEvent& event) const;
  [[nodiscard]] const FragmentState& state_of(const LoggedEvent& event) const;
  void put(FragmentId f, FragmentState next);

  ReplayInput input_;
  store::LetterFolder letters_;
  std::vector<LoggedEvent> events_;
  std::vector<std::uint64_t> begins_after_;  ///< by fragment: what the log says up to this line is in the beginning
  std::map<Place, Wanted> wanted_;           ///< where later starts begin
  std::vector<std::set<std::pair<Version, std::string>>> passed_;  ///< by fragment: reached since the latest start
  std::map<std::string, LoggedEvent> kept_;  ///< the latest line about a letter, by what the letter is
  bool keeps_all_ = false;                   ///< the start that the log is at
  Repeated done_;
};

}  // namespace Atoll::federation
