#include "atoll/store/checkpoint.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "atoll/store/file.hpp"
#include "checkpoint_form.hpp"

namespace Atoll::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "checkpoint-";
constexpr std::string_view suffix = ".h5";
constexpr std::size_t digits = 12;

std::string name_at(std::uint64_t step) {
  const std::string number = std::to_string(step);
  return std::string(prefix) + std::string(digits - std::min(digits, number.size()), '0') + number +
         std::string(suffix);
}

bool is_checkpoint(const std::string& name) {
  if (name.size() < prefix.size() + digits + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix))
    return false;
  const std::string_view number(name.data() + prefix.size(), name.size() - prefix.size() - suffix.size());
  return std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

// Parts are what a kill in the middle of an earlier save left; newer checkpoints belong to a future that was given up
// when an older one was resumed, so they step aside without being counted.
void prune(const fs::path& folder, const fs::path& saved, std::size_t keep) {
  std::error_code ignored;  // a checkpoint too many does no harm
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.ends_with(".part") && is_checkpoint(name.substr(0, name.size() - 5))) fs::remove(entry.path(), ignored);
  }
  auto files = checkpoints_in(folder);
  for (; !files.empty() && files.back().filename() != saved.filename(); files.pop_back())
    fs::rename(files.back(), files.back().string() + ".given-up", ignored);
  for (std::size_t i = 0; i + keep < files.size(); ++i) fs::remove(files[i], ignored);
}

}  // namespace

fs::path checkpoint_file(const fs::path& folder, std::uint64_t step) {
  return folder / name_at(step);
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (is_checkpoint(entry.path().filename().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

fs::path save(const Checkpoint& checkpoint, const fs::path& folder, std::size_t keep) {
  ATOLL_EXPECT(keep > 0, "a checkpoint that is not kept");
  const fs::path path = checkpoint_file(folder, checkpoint.step);
  File file = File::create(path);
  write(checkpoint, file);
  file.publish();
  File::open(path).verify();
  prune(folder, path, keep);
  return path;
}

Checkpoint load(const fs::path& file) try {
  return read_checkpoint(File::open(file), file);
} catch (const std::out_of_range&) {
  throw Error("cannot resume from " + file.string(), "its tables have different lengths", "use an older checkpoint");
}

std::optional<FoundCheckpoint> load_newest(const fs::path& folder, const SkippedCheckpoint& skipped) {
  const auto files = checkpoints_in(folder);
  std::string newest_why;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    const auto pass_over = [&](const std::string& why) {
      if (newest_why.empty()) newest_why = why;
      if (skipped) skipped(*file, why);
    };
    try {
      return FoundCheckpoint{*file, load(*file)};
    } catch (const Error& error) {
      pass_over(error.why());
    } catch (const Atoll::Error& error) {
      pass_over(error.what());
    }
  }
  if (files.empty()) return std::nullopt;
  throw Error("no checkpoint in " + folder.string() + " is whole", "of the newest: " + newest_why,
              "restore one from a copy, or start in a new run directory");
}

}  // namespace Atoll::store
