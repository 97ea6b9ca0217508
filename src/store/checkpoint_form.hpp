#pragma once

#include <cstdint>

#include "atoll/store/checkpoint.hpp"
#include "atoll/store/file.hpp"

// Internal to store: a checkpoint's form in a file (layout: CHECKPOINT.md).
namespace Atoll::store {

inline constexpr const char* checkpoint_format = "atoll checkpoint";
inline constexpr std::uint64_t checkpoint_format_version = 2;

void write(const Checkpoint& checkpoint, File& file);
/// @throws Error  another format, or parts do not fit together
[[nodiscard]] Checkpoint read_checkpoint(const File& file, const std::filesystem::path& name);

}  // namespace Atoll::store
