#pragma once

#include <filesystem>
#include <string>

#include "atoll/app/federation_file.hpp"

// Internal to app: what a federation file may not say.
namespace Atoll::app {

/// @throws ConfigError  "cannot use the federation file FILE (why) advice"
[[noreturn]] void wrong(const std::filesystem::path& file, const std::string& why, const std::string& advice);

/// @throws ConfigError  a value outside its range, or two that contradict each other
void check_settings(const std::filesystem::path& file, const FederationFile& federation);

}  // namespace Atoll::app
