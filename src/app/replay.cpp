#include "atoll/federation/replay.hpp"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <format>
#include <iostream>

#include "atoll/app/command.hpp"
#include "atoll/app/federation_file.hpp"
#include "atoll/app/inner_loop.hpp"
#include "atoll/app/resume.hpp"
#include "atoll/device/session.hpp"
#include "atoll/store/checkpoint.hpp"

namespace Atoll::app {
namespace {

namespace fs = std::filesystem;
using federation::FragmentState;
using federation::Repeated;
using federation::ReplayInput;

constexpr Manual manual{
    .synopsis = "atoll replay RUN [--from CHECKPOINT]",
    .description =
        "    Repeats all merges of one site's run from its log and its letters (atoll island --keep-letters), and\n"
        "    compares everything with what the run did, to the bit: the weights by the rule from tokens and steps,\n"
        "    the merged gradient from the offers where this site was the steward and kept them, the outer step, the\n"
        "    digest of every anchor, every snapshot that was taken over, every start from an older checkpoint, and at\n"
        "    the end the newest checkpoint of RUN. Begins at version 0, the initialisation that the federation's seed\n"
        "    gives, or at a checkpoint. The run may still be going on.\n\n"
        "    Names the first event at which anything differs: line of the log, fragment, version, what was expected\n"
        "    and what was found. A last line that a kill cut is no difference.\n\n"
        "    Ends with status 0 when all is equal, 65 at a difference, 64 when RUN cannot be replayed: no run\n"
        "    directory, no letters kept, or a log of another version (src/app/LOG.md).",
    .examples =
        "    atoll replay runs/alpha\n"
        "        all merges from the beginning on\n"
        "    atoll replay runs/alpha --from runs/alpha/checkpoints/checkpoint-000000000600.h5\n"
        "        what came after this checkpoint\n"};

FederationFile federation_of(const fs::path& run) {
  for (const auto* name : {"log.jsonl", "federation.ini.resolved"})
    if (!fs::is_regular_file(run / name))
      throw ConfigError(run.string() + " is no run directory", std::string("it holds no ") + name,
                        "name the folder that atoll island was given as --run");
  return read_resolved_federation(run / "federation.ini.resolved");
}

std::vector<FragmentState> beginning(const FederationFile& federation, const std::string& from) {
  if (from.empty()) return initial_fragments(federation);
  if (!fs::is_regular_file(from))
    throw ConfigError("cannot read the checkpoint " + from, "no such file", "check --from");
  const auto checkpoint = store::load(from);
  if (checkpoint.configuration_digest != federation.configuration.hex())
    throw ConfigError("cannot begin at " + from, "it is of another configuration", "use a checkpoint of this run");
  return fragments_of(checkpoint);
}

// The share that is done: one line that is written over on a terminal, nothing elsewhere.
std::function<void(const Repeated&, double)> progress_line() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [percent = -1L](const Repeated& done, double share) mutable {
    if (std::exchange(percent, std::lround(100 * share)) == percent) return;
    std::cerr << std::format("\r{:3} %  {} merges, {} commits", percent, done.merges, done.commits)
              << (percent == 100 ? "\n" : "") << std::flush;
  };
}

void print_summary(const fs::path& run, const FederationFile& federation, const Repeated& done) {
  std::cout << std::format("{}: site {} of {}, {} lines{}\n", run.string(), done.site, federation.name, done.lines,
                           done.last_line_is_cut ? ", the last one cut" : "")
            << std::format("  starts followed     {}\n", done.starts)
            << std::format("  merges repeated     {}, from the offers\n", done.merges)
            << std::format("  commits repeated    {}, without the offers\n", done.commits)
            << std::format("  snapshots followed  {}\n", done.snapshots)
            << std::format("  standings compared  {}\n", done.checked);
  for (std::size_t f = 0; f < done.fragments.size(); ++f)
    std::cout << std::format("  fragment {:<4}       version {}, digest {}\n", f, done.fragments[f].version,
                             done.fragments[f].digest.hex());
}

// Read before the log: the run may be going on, and the log says all that a checkpoint holds before there is one.
std::optional<store::FoundCheckpoint> newest_checkpoint(const fs::path& run) try {
  return store::load_newest(run / "checkpoints");
} catch (const Error& error) {
  std::cout << run.string() << ": the newest checkpoint is not compared: " << error.what() << '\n';
  return std::nullopt;
}

// The newest checkpoint of the run must hold what was repeated.
std::optional<federation::Difference> compare_newest(const std::optional<store::FoundCheckpoint>& newest,
                                                     const federation::Replay& replay) {
  if (!newest) return std::nullopt;
  const auto name = newest->file.filename().string();
  const auto fragments = fragments_of(newest->checkpoint);
  auto recomputed = fragments;
  for (auto& s : recomputed) s.remember();
  if (auto difference = replay.compare(name, recomputed)) return difference;
  std::cout << "  newest checkpoint   " << name << " holds the same\n";
  return std::nullopt;
}

}  // namespace

ExitStatus run_replay(std::span<const std::string> arguments) {
  std::string run, from;
  po::options_description options("Options");
  options.add_options()("run", po::value(&run)->required(), "run directory; may be given without --run")(
      "from", po::value(&from), "checkpoint to begin at; default: version 0");
  po::positional_options_description positional;
  positional.add("run", 1);
  po::variables_map values;
  if (!parse(arguments, manual, options, positional, values)) return ExitStatus::success;

  const device::Session device;
  const auto federation = federation_of(run);
  const auto newest = newest_checkpoint(run);
  federation::Replay replay({.log = fs::path(run) / "log.jsonl",
                             .letters = fs::path(run) / "letters",
                             .config = protocol_config(federation),
                             .beginning = beginning(federation, from),
                             .from = from.empty() ? ReplayInput::From::version_0 : ReplayInput::From::checkpoint,
                             .progress = progress_line()});
  const auto done = replay.run();
  if (!from.empty()) std::cout << "from " << from << '\n';
  print_summary(run, federation, done);
  const auto difference = done.difference ? done.difference : compare_newest(newest, replay);
  if (!difference) return std::cout << "all merges are repeated to the bit\n", ExitStatus::success;
  std::cout << std::flush;
  throw store::Error(std::format("the run differs from its repetition at {}/log.jsonl line {}, {}: {}", run,
                                 difference->line, difference->event, difference->what),
                     "expected " + difference->expected + ", found " + difference->found,
                     "everything before it was repeated to the bit");
}

}  // namespace Atoll::app
