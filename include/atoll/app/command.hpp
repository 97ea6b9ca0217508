#pragma once

#include <boost/program_options.hpp>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/core/error.hpp"

namespace Atoll::app {

namespace po = boost::program_options;

/// One subcommand of the program: what `atoll --help` says of it, and what runs it.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line
  ExitStatus (*run)(std::span<const std::string> arguments);
};

/// All subcommands in the order in which help lists them.
[[nodiscard]] std::span<const Command> commands();

/// The manual page of a subcommand: what is printed by `atoll NAME --help`.
struct Manual {
  std::string_view synopsis;     ///< "atoll tokenize [OPTION...] TEXT..."
  std::string_view description;  ///< what it does, in paragraphs
  std::string_view examples;     ///< command lines with a word to each
};

/// Parses `arguments`; prints the manual (--help) or the version (--version) and returns false when asked to.
/// Values come from the command line first, then from the INI file that --options names.
/// @throws ConfigError  unknown, repeated, malformed or missing option
[[nodiscard]] bool parse(std::span<const std::string> arguments, const Manual& manual,
                         const po::options_description& options, const po::positional_options_description& positional,
                         po::variables_map& values);

/// The exit status that tells scripts what kind of error ended the program.
[[nodiscard]] ExitStatus status_of(const std::exception& error);

ExitStatus run_tokenize(std::span<const std::string> arguments);
ExitStatus run_island(std::span<const std::string> arguments);
ExitStatus run_links(std::span<const std::string> arguments);
ExitStatus run_connector(std::span<const std::string> arguments);
ExitStatus run_replay(std::span<const std::string> arguments);
ExitStatus run_inspect(std::span<const std::string> arguments);

}  // namespace Atoll::app
