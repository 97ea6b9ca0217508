#include "atoll/app/island_options.hpp"

#include "atoll/app/command.hpp"

namespace Atoll::app {
namespace {

constexpr Manual manual{
    .synopsis = "mpirun [-n RANKS] atoll island --federation FILE --site NAME --tokens FILE --run DIR [OPTION...]",
    .description =
        "    Trains at one site. All ranks of the mpirun are one island; rank 0 is its gateway and speaks with the\n"
        "    other sites through the mailboxes that `atoll links` serves (start it beside the island, same "
        "--federation,\n"
        "    --site and --run). No site waits for a dead one: an island trains on alone, and takes part again when "
        "its\n"
        "    links are back.\n\n"
        "    The run directory gets log.jsonl (every step and every event of the federation),\n"
        "    federation.ini.resolved (every setting that the sites agreed on), checkpoints/ (HDF5, the last two are "
        "kept)\n"
        "    and, as the last act, DONE.\n\n"
        "    --keep-letters keeps what `atoll replay` needs in letters/: every commit that the site applied and every\n"
        "    snapshot that it took over (commits), and every offer that it merged as steward (all). That is 4 bytes\n"
        "    per parameter and round for the commits, as much again for every offer at the steward, and 8 bytes per\n"
        "    parameter for a whole model taken over. Nothing is removed by itself, so the default is none: 100 "
        "million\n"
        "    parameters with a round every 10 minutes are 58 GB of commits a day. Letters leave room for two\n"
        "    checkpoints on the disk; one that cannot be kept is noted in the log, and training goes on.\n\n"
        "    SIGUSR1 to mpirun, which hands it on: the island writes a checkpoint, takes leave, and ends with status "
        "85\n"
        "    (start me again). SIGTERM to mpirun is less kind: mpirun kills the ranks half a second later.",
    .examples =
        "    mpirun -n 4 atoll island --federation f.ini --site alpha --tokens t.h5 --run runs/alpha --resume\n"
        "        goes on from the newest whole checkpoint of runs/alpha, or starts when there is none\n"
        "    atoll island --federation f.ini --site alpha --tokens t.h5 --run runs/alpha --dry-run\n"
        "        checks everything and prints what would be trained\n"};

void check(const IslandOptions& o) {
  constexpr std::uint64_t most_steps = 1'000'000'000'000'000, most_batches = 1'000'000;
  if (o.threads < 0)
    throw ConfigError("--threads is negative", "a rank has 1 thread at least", "use 0 to share the cores");
  // Negative numbers come out of the parser as huge ones.
  if (o.checkpoint_every > most_steps || o.evaluate_every > most_steps)
    throw ConfigError("--checkpoint-every or --evaluate-every is negative or too large", "they count inner steps",
                      "use 0 for only at the end");
  if (o.evaluation_batches == 0 || o.evaluation_batches > most_batches)
    throw ConfigError("--evaluation-batches is 0, negative or too large", "the loss is a mean over batches",
                      "use 1 to " + std::to_string(most_batches));
  for (const Seconds time : {o.gather, o.linger, o.progress_every})
    if (!(time.count() >= 0))
      throw ConfigError("--gather, --linger or --progress-every is negative", "they are seconds", "use 0 or more");
  if (o.prompt.empty())
    throw ConfigError("--prompt is empty", "a paragraph is sampled from its start on", "use a word of the text");
}

federation::KeepLetters letters_named(const std::string& name) {
  if (const auto letters = federation::keep_letters_named(name)) return *letters;
  throw ConfigError("--keep-letters is '" + name + "'", "no such choice", "use none, commits or all");
}

}  // namespace

std::optional<IslandOptions> parse_island_options(std::span<const std::string> arguments) {
  IslandOptions o;
  std::string federation, tokens, run, mailboxes, keep_letters;
  double gather = o.gather.count(), linger = o.linger.count(), progress = o.progress_every.count();
  po::options_description options("Options");
  options.add_options()("federation", po::value(&federation)->required(), "the federation file")(
      "site", po::value(&o.site)->required(), "which site of it this island is")(
      "tokens", po::value(&tokens)->required(), "token file made by atoll tokenize")(
      "run", po::value(&run)->required(), "run directory; made when missing")(
      "resume", po::bool_switch(&o.resume), "go on with the run in the run directory if there is one")(
      "threads", po::value(&o.threads)->default_value(o.threads), "threads per rank; 0: share the machine's cores")(
      "checkpoint-every", po::value(&o.checkpoint_every)->default_value(o.checkpoint_every),
      "inner steps; 0: only at the end")("evaluate-every",
                                         po::value(&o.evaluate_every)->default_value(o.evaluate_every),
                                         "inner steps; 0: only at the end")(
      "evaluation-batches", po::value(&o.evaluation_batches)->default_value(o.evaluation_batches),
      "validation batches each time")("keep-letters", po::value(&keep_letters)->default_value("none"),
                                      "letters that stay in the run directory for atoll replay: none, commits (4 bytes "
                                      "per parameter and round), or all "
                                      "(at the steward as much again for every site)")(
      "gather", po::value(&gather)->default_value(gather),
      "seconds that a site waits for the others before its first step")(
      "linger", po::value(&linger)->default_value(linger), "seconds that a finished site serves those that are not")(
      "progress-every", po::value(&progress)->default_value(progress), "seconds between progress lines")(
      "live", po::bool_switch(&o.live), "write the progress line over itself, for a terminal")(
      "prompt", po::value(&o.prompt)->default_value(o.prompt), "start of the paragraph that is sampled at the end")(
      "mailboxes", po::value(&mailboxes),
      "folder of the mailboxes, in shared memory (default: the federation file's, else /dev/shm/atoll-<user id>)")(
      "dry-run", po::bool_switch(&o.dry_run), "check everything, print what would be done")(
      "print-config", po::bool_switch(&o.print_config), "print the resolved federation file and end");
  po::variables_map values;
  if (!parse(arguments, manual, options, {}, values)) return std::nullopt;
  o.federation = federation;
  o.tokens = tokens;
  o.run = run;
  o.mailboxes = mailboxes;
  o.keep_letters = letters_named(keep_letters);
  o.gather = Seconds{gather};
  o.linger = Seconds{linger};
  o.progress_every = Seconds{progress};
  check(o);
  return o;
}

}  // namespace Atoll::app
