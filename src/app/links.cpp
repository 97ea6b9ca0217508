#include <chrono>
#include <filesystem>
#include <thread>

#include "atoll/app/command.hpp"
#include "atoll/app/federation_file.hpp"
#include "atoll/app/folder_lock.hpp"
#include "atoll/app/stop_request.hpp"
#include "atoll/federation/mailbox.hpp"
#include "atoll/federation/supervisor.hpp"

namespace Atoll::app {
namespace {

constexpr Manual manual{
    "atoll links --federation FILE --site SITE --run DIR [OPTION...]",
    "    Carries letters between the island of SITE and the other sites of the federation. Runs beside the island,\n"
    "    on the host of its gateway (rank 0); which of the two starts first does not matter.\n\n"
    "    For every other site it keeps a pair world standing: two connectors, one at each site, under a mpirun of\n"
    "    their own. Of two sites the one that the federation file names first dials. A pair world that dies is\n"
    "    started again within seconds, and letters that were under way are sent again; the island goes on.\n\n"
    "    Writes links.jsonl (every event) and links-PEER.log (what the launcher says) to DIR. Ends by itself after\n"
    "    the island has ended in good order; waits for it when it was killed. SIGTERM ends it at once.\n",
    "    atoll links --federation federation.ini --site alpha --run runs/alpha &\n"
    "        then start the island of alpha with the same three options\n"};

struct Choices {
  std::string federation, site, run, mailboxes;
  double peer_deadline = 3, start_deadline = 20;
};

po::options_description options_for(Choices& choices) {
  po::options_description options("Links");
  options.add_options()("federation", po::value(&choices.federation)->required(), "the federation file")(
      "site", po::value(&choices.site)->required(), "our site, as the federation file names it")(
      "run", po::value(&choices.run)->required(), "run directory of our site")(
      "mailboxes", po::value(&choices.mailboxes),
      "folder of our mailboxes, in shared memory (default: the federation file's, else /dev/shm/atoll-<user id>)")(
      "peer-deadline", po::value(&choices.peer_deadline)->default_value(3),
      "silence after which a connector counts as lost [s]")("start-deadline",
                                                            po::value(&choices.start_deadline)->default_value(20),
                                                            "time for the start of a pair world [s]");
  return options;
}

std::filesystem::path mailbox_root(const Choices& choices, const federation::Site& site) {
  if (!choices.mailboxes.empty()) return choices.mailboxes;
  return site.mailboxes.empty() ? federation::default_mailbox_root() : std::filesystem::path(site.mailboxes);
}

federation::SupervisorOptions supervisor_options(const Choices& choices) {
  if (!(choices.peer_deadline > 0 && choices.start_deadline > 0))
    throw ConfigError("a deadline is out of range", "it is not positive", "see atoll links --help");
  const auto file = read_federation(choices.federation);
  const auto self = file.site(choices.site).value;
  federation::SupervisorOptions options;
  options.federation = file.name;
  options.sites = file.sites;
  // Sites for which the file names no folder are taken to use the one that was given for ours.
  for (auto& site : options.sites)
    if (site.mailboxes.empty()) site.mailboxes = choices.mailboxes;
  options.self = self;
  options.mailboxes = std::filesystem::absolute(mailbox_root(choices, file.sites[self]));
  options.run = std::filesystem::absolute(choices.run);
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.peer_deadline = Seconds(choices.peer_deadline);
  options.start_deadline = Seconds(choices.start_deadline);
  return options;
}

}  // namespace

ExitStatus run_links(std::span<const std::string> arguments) {
  Choices choices;
  po::variables_map values;
  if (!parse(arguments, manual, options_for(choices), {}, values)) return ExitStatus::success;
  StopRequest stop;
  auto supervision = supervisor_options(choices);
  std::filesystem::create_directories(supervision.run);
  const FolderLock lock(supervision.run, "links.lock", "another atoll links");
  federation::Supervisor supervisor(std::move(supervision));
  while (!stop.arrived() && supervisor.step(std::chrono::steady_clock::now().time_since_epoch()))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return ExitStatus::success;
}

}  // namespace Atoll::app
