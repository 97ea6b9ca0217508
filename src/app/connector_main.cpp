#include <iostream>
#include <string>
#include <vector>

#include "atoll/app/command.hpp"

// `atoll-connector connector ...` is `atoll connector ...` in a program that does not load LibTorch: it starts in some
// 20 ms instead of a second, on which the time depends that a link takes to come back.
int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + (argc > 0), argv + argc);
  if (!arguments.empty() && arguments.front() == "connector") arguments.erase(arguments.begin());
  try {
    return static_cast<int>(Atoll::app::run_connector(arguments));
  } catch (const Atoll::ConfigError& error) {
    std::cerr << "atoll-connector: " << error.what() << '\n';
    return static_cast<int>(Atoll::ExitStatus::usage);
  } catch (const std::exception& error) {
    std::cerr << "atoll-connector: " << error.what() << '\n';
    return static_cast<int>(Atoll::ExitStatus::internal);
  }
}
