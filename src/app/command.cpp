#include "atoll/app/command.hpp"

#include <fstream>
#include <iostream>

namespace Atoll::app {
namespace {

void print_manual(const Manual& manual, const po::options_description& options) {
  std::cout << "SYNOPSIS\n    " << manual.synopsis << "\n\nDESCRIPTION\n"
            << manual.description << "\n\nOPTIONS\n"
            << options;
  if (!manual.examples.empty()) std::cout << "\nEXAMPLES\n" << manual.examples << '\n';
}

std::string advice(const Manual& manual) {
  const std::string synopsis(manual.synopsis);
  const auto begin = synopsis.find("atoll ");
  const auto end = synopsis.find(' ', begin + sizeof "atoll");
  return "run " + synopsis.substr(begin, end - begin) + " --help for the list";
}

}  // namespace

ExitStatus status_of(const std::exception& error) {
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return ExitStatus::usage;
  if (dynamic_cast<const SystemError*>(&error) != nullptr) return ExitStatus::io;
  return dynamic_cast<const Error*>(&error) != nullptr ? ExitStatus::bad_data : ExitStatus::internal;
}

bool parse(std::span<const std::string> arguments, const Manual& manual, const po::options_description& options,
           const po::positional_options_description& positional, po::variables_map& values) {
  po::options_description all("General");
  all.add_options()("help", "print this page")("version", "print version and build")(
      "options", po::value<std::string>(), "INI file with values for the options above; the command line goes first");
  po::options_description shown;
  shown.add(options).add(all);
  try {
    const std::vector<std::string> words(arguments.begin(), arguments.end());
    po::store(po::command_line_parser(words)
                  .options(shown)
                  .positional(positional)
                  .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
                  .run(),
              values);
    if (values.count("help")) return print_manual(manual, shown), false;
    if (values.count("version")) return std::cout << "atoll " ATOLL_VERSION "\n", false;
    if (values.count("options")) {
      const auto file = values["options"].as<std::string>();
      std::ifstream stream(file);
      if (!stream)
        throw ConfigError("cannot read the options file " + file, "no such readable file", "check --options");
      po::store(po::parse_config_file(stream, shown), values);
    }
    po::notify(values);
  } catch (const po::error& error) {
    throw ConfigError("wrong options", error.what(), advice(manual));
  }
  return true;
}

}  // namespace Atoll::app
