#include <unistd.h>

#include <sstream>

#include "atoll/federation/mailbox.hpp"
#include "atoll/federation/supervisor.hpp"

namespace Atoll::federation {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

bool one_machine(const Site& own, const Site& peer) { return own.host.empty() && peer.host.empty(); }

std::string host(const Site& site) { return site.host.empty() ? "localhost" : site.host; }

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// What the rank at `site` runs, as a line for sh: atoll-connector, which starts faster, when it lies beside atoll.
std::string connector(const SupervisorOptions& options, const Site& site, const Site& peer,
                      const std::string& mailboxes) {
  const std::string program = site.program.empty() ? options.program : site.program;
  Words words{"connector",
              "--federation-name", options.federation,
              "--site", site.name,
              "--peer", peer.name,
              "--peer-deadline", std::to_string(options.peer_deadline.count()),
              "--start-deadline", std::to_string(options.start_deadline.count()),
              "--chunk", std::to_string(options.chunk_bytes)};
  if (!mailboxes.empty()) append(words, {"--mailboxes", mailboxes});
  std::string line = "p=" + quoted(program) + "; [ -x \"$p-connector\" ] && p=$p-connector; exec \"$p\"";
  for (const auto& word : words) line += ' ' + quoted(word);
  return line;
}

/// The launcher: fault tolerant, over TCP only, no scheduler asked, daemons that notice a dead wire within seconds.
Words launcher(const Site& own, const Site& peer) {
  Words words{"mpirun", "--with-ft", "ulfm", "--oversubscribe", "--bind-to", "none",
              "--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "coll", "^han",
              "--mca", "mpi_yield_when_idle", "1", "--wdir", "/",
              "--prtemca", "ras", "^slurm", "--prtemca", "plm", "ssh",
              "--prtemca", "oob_tcp_keepalive_time", "5", "--prtemca", "oob_tcp_keepalive_intvl", "2",
              "--prtemca", "oob_tcp_keepalive_probes", "3"};
  if (one_machine(own, peer)) append(words, {"--mca", "btl_tcp_if_include", "lo"});
  if (!peer.launch_agent.empty()) append(words, {"--prtemca", "plm_ssh_agent", peer.launch_agent});
  std::istringstream more(own.mpirun_options);
  for (std::string word; more >> word;) words.push_back(word);
  return words;
}

}  // namespace

Words dial_command(const SupervisorOptions& options, std::size_t peer) {
  const Site& own = options.sites.at(options.self);
  const Site& other = options.sites.at(peer);
  Words words = launcher(own, other);
  append(words, {"-n", "2"});
  if (!one_machine(own, other)) append(words, {"--host", host(own) + ":1," + host(other) + ":1", "--map-by", "node"});
  // Not "command : command": with two contexts mpirun of Open MPI 5.0.7 as Debian 13 packages it dies of SIGSEGV
  // (open-mpi/ompi issue 13303). So both ranks run one shell line, and each takes its part of it.
  append(words, {"sh", "-c",
                 "case $OMPI_COMM_WORLD_RANK in 0) " + connector(options, own, other, options.mailboxes.string()) +
                     ";; *) " + connector(options, other, own, other.mailboxes) + ";; esac"});
  return words;
}

}  // namespace Atoll::federation
