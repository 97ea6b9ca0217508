#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace Atoll::federation {

/// Names a process of this host for good: process id and start time, so that a reused id is never taken for it.
/// 0: there is no such process.
[[nodiscard]] std::uint64_t process_token(pid_t process);
/// The process that the token names runs (a zombie does not).
[[nodiscard]] bool alive(std::uint64_t token);
/// SIGKILL to exactly the process that the token names; nothing when it is gone.
void kill_process(std::uint64_t token);

/// A program that runs as leader of its own process group and dies with us. Ends the group on destruction.
class Child {
 public:
  /// Standard input is empty; both outputs are appended to `log`. `environment` lines (NAME=VALUE) are added to ours.
  /// @throws SystemError
  Child(std::span<const std::string> command, std::span<const std::string> environment,
        const std::filesystem::path& log);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  /// -1 once it has ended.
  [[nodiscard]] pid_t process() const noexcept { return process_; }
  /// Its wait status, once it has ended; what it left of its group is then killed.
  [[nodiscard]] std::optional<int> ended();
  /// SIGKILL to the whole group; waits for the leader.
  void kill_group() noexcept;

 private:
  pid_t process_ = -1;
  std::optional<int> status_;
};

}  // namespace Atoll::federation
