#include "inspect_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <format>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "atoll/core/event_reader.hpp"
#include "atoll/store/checkpoint.hpp"

namespace Atoll::app {
namespace {

namespace fs = std::filesystem;

struct SiteSeen {
  std::uint64_t up = 0, down = 0, left = 0, offers = 0;
};

struct FragmentSeen {
  std::uint64_t version = 0, tokens = 0;
  std::string anchor;
};

/// What a log tells, gathered line by line.
struct Seen {
  std::optional<LoggedEvent> opened, start, step, evaluation, ending;
  double last_time = 0;
  std::uint64_t starts = 0, events_cut = 0, offers = 0, commits = 0, steward = 0;
  std::uint64_t snapshots_taken = 0, snapshots_given = 0, joins = 0, checkpoints = 0, kept = 0, kept_bytes = 0,
                not_kept = 0;
  std::map<std::string, SiteSeen> sites;
  std::vector<FragmentSeen> fragments;
  std::map<std::string, std::uint64_t> refused;  ///< letters, by reason
  std::map<std::string, std::uint64_t> lost;     ///< tokens, by what became of them
};

FragmentSeen& fragment(Seen& seen, std::uint64_t f) {
  constexpr std::uint64_t most = 1'000'000;
  if (f >= most) throw Error("cannot use the log (a fragment has the number " + std::to_string(f) + ") it was changed");
  if (seen.fragments.size() <= f) seen.fragments.resize(f + 1);
  return seen.fragments[f];
}

void see_opened(Seen& seen, const LoggedEvent& event) {
  ++seen.starts;
  seen.ending.reset();
  const auto versions = event.numbers("versions");
  const auto anchors = event.texts("anchors");
  for (std::size_t f = 0; f < std::min(versions.size(), anchors.size()); ++f) {
    auto& held = fragment(seen, f);
    if (held.anchor != anchors[f]) held = {versions[f], 0, anchors[f]};
  }
  seen.opened = event;
}

void see_anchor(Seen& seen, const LoggedEvent& event) {
  fragment(seen, event.number("fragment")) = {event.number("version"), event.number("tokens"), event.text("anchor")};
}

void see_commit(Seen& seen, const LoggedEvent& event) {
  see_anchor(seen, event);
  ++seen.commits;
  if (seen.opened && event.text("steward") == seen.opened->text("site")) ++seen.steward;
  for (const auto& site : event.texts("offers")) ++seen.sites[site].offers;
}

// Of what is counted only.
void count(Seen& seen, const LoggedEvent& event) {
  const auto& name = event.name();
  if (name == "site_up") ++seen.sites[event.text("site")].up;
  if (name == "site_down") ++seen.sites[event.text("site")].down;
  if (name == "site_left") ++seen.sites[event.text("site")].left;
  if (name == "offer") ++seen.offers;
  if (name == "snapshot_given") ++seen.snapshots_given;
  if (name == "joined") ++seen.joins;
  if (name == "checkpoint") ++seen.checkpoints;
  if (name == "not_kept") ++seen.not_kept;
  if (name == "letter_refused") ++seen.refused[event.text("reason")];
  if (name == "tokens_lost") seen.lost[event.text("reason")] += event.number("tokens");
  if (name == "tokens_unweighted") seen.lost["kept but unweighted"] += event.number("tokens");
}

void see(Seen& seen, const LoggedEvent& event) {
  const auto& name = event.name();
  if (name.empty()) {
    ++seen.events_cut;
    return;
  }
  seen.last_time = event.real("time");
  if (name == "opened") return see_opened(seen, event);
  if (name == "commit") return see_commit(seen, event);
  if (name == "anchor_taken") return ++seen.snapshots_taken, see_anchor(seen, event);
  if (name == "start") seen.start = event;
  if (name == "step") seen.step = event;
  if (name == "evaluation") seen.evaluation = event;
  if (name == "end" || name == "stopped") seen.ending = event;
  if (name == "kept") {
    ++seen.kept;
    seen.kept_bytes += event.number("bytes");
  }
  count(seen, event);
}

std::string listed(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [what, number] : counts) text += std::format("{}{} {}", text.empty() ? "" : ", ", what, number);
  return text.empty() ? "none" : text;
}

std::string ending_of(const Seen& seen) {
  if (seen.ending) return seen.ending->name() == "end" ? "finished" : "stopped on request; start it again";
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::format("under way or killed, its last event was {:.0f} s ago", std::max(0.0, now - seen.last_time));
}

void show_training(const Seen& seen, std::ostream& out) {
  if (const auto& step = seen.step)
    out << std::format(
               "  steps             {}, round {}, {:.0f} tokens/s, {} sites alive, {} bytes sent, {} received\n",
               step->number("step"), step->number("round"), step->real("tokens_per_second"), step->number("sites"),
               step->number("bytes_sent"), step->number("bytes_received"))
        << std::format("  loss              {:.4f} at step {}, learning rate {:.3g}\n", step->real("loss"),
                       step->number("step"), step->real("learning_rate"));
  if (const auto& evaluation = seen.evaluation)
    out << std::format("  validation loss   {}anchor {:.4f} at step {}; unigram model {:.4f}\n",
                       evaluation->has("loss") ? std::format("own {:.4f}, ", evaluation->real("loss")) : "",
                       evaluation->real("anchor_loss"), evaluation->number("step"), evaluation->real("unigram_loss"));
}

void show_federation(const Seen& seen, std::ostream& out) {
  out << std::format("  commits           {}, {} of them as steward; {} offers sent\n", seen.commits, seen.steward,
                     seen.offers);
  for (const auto& [name, site] : seen.sites)
    out << std::format("  site {:<12} {} offers merged; seen {} times, lost {}, took leave {}\n", name, site.offers,
                       site.up, site.down, site.left);
  for (std::size_t f = 0; f < seen.fragments.size(); ++f)
    out << std::format("  fragment {:<8} version {}, digest {}, {} tokens merged\n", f, seen.fragments[f].version,
                       seen.fragments[f].anchor, seen.fragments[f].tokens);
  out << std::format("  snapshots         {} taken, {} given; {} times the whole model\n", seen.snapshots_taken,
                     seen.snapshots_given, seen.joins)
      << "  tokens lost       " << listed(seen.lost) << '\n'
      << "  letters refused   " << listed(seen.refused) << '\n';
}

void show_files(const Seen& seen, const fs::path& folder, std::ostream& out) {
  out << std::format("  letters kept      {} of {} bytes, {} could not be kept\n", seen.kept, seen.kept_bytes,
                     seen.not_kept);
  const auto checkpoints = store::checkpoints_in(folder / "checkpoints");
  out << std::format("  checkpoints       {} saved{}\n", seen.checkpoints,
                     checkpoints.empty() ? "" : ", newest " + checkpoints.back().filename().string());
}

}  // namespace

bool is_run_directory(const fs::path& folder) {
  return fs::is_regular_file(folder / "log.jsonl");
}

void show_run(const fs::path& folder, std::ostream& out) {
  Seen seen;
  const auto reading = read_events(
      folder / "log.jsonl", [](std::string_view) { return true; }, [&](const LoggedEvent& event) { see(seen, event); });
  out << folder.string() << ": run directory\n";
  if (const auto& opened = seen.opened)
    out << std::format("  site              {}, configuration {}\n", opened->text("site"),
                       opened->text("configuration"));
  if (const auto& start = seen.start)
    out << std::format("  federation        {}, {} parameters, atoll {}\n", start->text("federation"),
                       start->number("parameters"), start->text("program"));
  out << std::format("  log               {} lines, {} cut; {} start{}, {}\n", reading.lines,
                     seen.events_cut + (reading.last_line_is_cut ? 1 : 0), seen.starts, seen.starts == 1 ? "" : "s",
                     ending_of(seen));
  show_training(seen, out);
  show_federation(seen, out);
  show_files(seen, folder, out);
}

}  // namespace Atoll::app
