#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "atoll/app/command.hpp"

namespace Atoll::app {
namespace {

constexpr Command all_commands[] = {
    {"tokenize", "turn UTF-8 text into an HDF5 token file", run_tokenize},
    {"island", "train at one site (under mpirun)", run_island},
    {"links", "carry letters between this site and the others", run_links},
    {"connector", "one end of a pair world (started by links)", run_connector},
    {"replay", "repeat all merges of a run and compare the digests", run_replay},
    {"inspect", "say what a checkpoint, a token file, a letter or a run holds", run_inspect},
};

void print_help() {
  std::cout << "NAME\n"
               "    atoll - trains one language model across a federation of supercomputers\n\n"
               "SYNOPSIS\n"
               "    atoll COMMAND [OPTION...]\n"
               "    atoll COMMAND --help\n\n"
               "COMMANDS\n";
  for (const auto& command : commands())
    std::cout << "    " << command.name << std::string(12 - command.name.size(), ' ') << command.summary << '\n';
  std::cout << "\nOPTIONS\n"
               "    --help      this page\n"
               "    --version   version and build\n\n"
               "EXIT STATUS\n"
               "    0   done\n"
               "    64  wrong options, configuration or input file\n"
               "    65  damaged data, checkpoint or letter\n"
               "    70  defect of Atoll\n"
               "    74  disk or network\n"
               "    85  checkpointed, start me again\n";
}

// UCX, which MPI libraries bring along, catches the first ones when it is loaded and would stop in a debugger instead
// of ending. A file that grows too large is to be an error of write(2), like a full disk.
void restore_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV}) std::signal(signal, SIG_DFL);
}

ExitStatus run(std::span<const std::string> arguments) {
  const std::string name = arguments.empty() ? "--help" : arguments.front();
  if (name == "--help" || name == "help") return print_help(), ExitStatus::success;
  if (name == "--version") return std::cout << "atoll " ATOLL_VERSION "\n", ExitStatus::success;
  for (const auto& command : commands())
    if (command.name == name) return command.run(arguments.subspan(1));
  throw ConfigError("unknown command '" + name + "'", "atoll has no such subcommand", "run atoll --help for the list");
}

}  // namespace

std::span<const Command> commands() {
  return all_commands;
}

}  // namespace Atoll::app

int main(int argc, char** argv) {
  Atoll::app::restore_signals();
  const std::vector<std::string> arguments(argv + (argc > 0), argv + argc);
  try {
    return static_cast<int>(Atoll::app::run(arguments));
  } catch (const std::exception& error) {
    // All ranks of an island find the same wrong input; one of them says so.
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (rank == nullptr || std::string_view(rank) == "0") std::cerr << "atoll: " << error.what() << std::endl;
    return static_cast<int>(Atoll::app::status_of(error));
  }
}
