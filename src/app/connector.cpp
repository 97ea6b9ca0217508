#include "atoll/federation/connector.hpp"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "atoll/app/command.hpp"

namespace Atoll::app {
namespace {

constexpr Manual manual{
    "atoll connector --federation-name NAME --site SITE --peer SITE [OPTION...]",
    "    One end of a pair world: carries the letters of SITE's mailbox for the other site. Runs as one of two ranks\n"
    "    under mpirun and is started, watched and started again by atoll links; there is no need to run it by hand.\n"
    "    Ends at once, without waiting for anybody, when the other end, the island or the launcher is gone.\n\n"
    "    Exit status: 0 an island ended in good order, 10 no living island, 11 the sites do not fit together,\n"
    "    12 the peer is gone, 13 MPI failed, 14 another connector took over, 15 the launcher is gone,\n"
    "    16 a letter must be sent again.\n",
    ""};

struct Choices {
  federation::ConnectorOptions connector;
  std::string root = federation::default_mailbox_root().string();
  double peer_deadline = 3, start_deadline = 20;
};

po::options_description options_for(Choices& choices) {
  auto& connector = choices.connector;
  po::options_description options("Connector");
  options.add_options()
      ("federation-name", po::value(&connector.mailbox.federation)->required(), "name of the federation")
      ("site", po::value(&connector.mailbox.site)->required(), "our site")
      ("peer", po::value(&connector.mailbox.peer)->required(), "the site at the other end")
      ("mailboxes", po::value(&choices.root)->default_value(choices.root), "folder of the mailboxes, in shared memory")
      ("peer-deadline", po::value(&choices.peer_deadline)->default_value(3),
       "silence of the other end after which it counts as lost [s]")
      ("start-deadline", po::value(&choices.start_deadline)->default_value(20),
       "time for the start of the pair world [s]")
      ("chunk", po::value(&connector.chunk_bytes)->default_value(connector.chunk_bytes), "largest put [bytes]")
      ("chunks-in-flight", po::value(&connector.chunks_in_flight)->default_value(connector.chunks_in_flight),
       "puts under way at once");
  return options;
}

}  // namespace

ExitStatus run_connector(std::span<const std::string> arguments) {
  Choices choices;
  po::variables_map values;
  if (!parse(arguments, manual, options_for(choices), {}, values)) return ExitStatus::success;
  auto& connector = choices.connector;
  if (!(choices.peer_deadline > 0 && choices.start_deadline > 0) || connector.chunk_bytes == 0 ||
      connector.chunk_bytes > 1 << 30 || connector.chunks_in_flight == 0)
    throw ConfigError("a deadline or a size of the connector is out of range",
                      "deadlines and counts are positive, a chunk is at most 1 GiB", "see atoll connector --help");
  connector.mailbox.root = choices.root;
  connector.program_version = ATOLL_VERSION;
  connector.peer_deadline = Seconds(choices.peer_deadline);
  connector.start_deadline = Seconds(choices.start_deadline);
  const auto report = [&](const std::string& line) {
    std::cerr << "atoll connector " << connector.mailbox.site << ": " << line << std::endl;
  };
  const auto end = federation::carry_letters(connector, report);
  // No destructor and no exit routine of MPI may run: they wait for peers that may be dead.
  _exit(static_cast<int>(end));
}

}  // namespace Atoll::app
