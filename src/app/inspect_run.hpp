#pragma once

#include <filesystem>
#include <iosfwd>

namespace Atoll::app {

/// True for a folder that an island was given as --run.
[[nodiscard]] bool is_run_directory(const std::filesystem::path& folder);

/// One screen about a run, from its log: how far it is, whom it met, what was lost. The run may be going on.
/// @throws SystemError  the log cannot be read   @throws Error  one of its lines was changed
void show_run(const std::filesystem::path& folder, std::ostream& out);

}  // namespace Atoll::app
