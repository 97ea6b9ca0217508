#include "atoll/federation/process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "atoll/core/error.hpp"

namespace Atoll::federation {
namespace {

constexpr int id_bits = 22;  // the kernel's largest process id is 2^22

pid_t process_of(std::uint64_t token) { return static_cast<pid_t>(token & ((1u << id_bits) - 1)); }

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// Our environment, with `added` in place of variables of the same name.
std::vector<std::string> environment_with(std::span<const std::string> added) {
  std::vector<std::string> all(added.begin(), added.end());
  for (char** line = environ; *line; ++line) {
    const std::string text = *line;
    const auto name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const auto& other : added) replaced = replaced || other.starts_with(name);
    if (!replaced) all.push_back(text);
  }
  return all;
}

/// The child's part: only calls that are allowed between fork and exec.
[[noreturn]] void become(char* const* command, char* const* environment, int log, int empty, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(empty, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execvpe(command[0], command, environment);
  const char* why = strerrorname_np(errno);
  dprintf(STDERR_FILENO, "atoll: cannot start %s (%s) install it or correct PATH\n", command[0], why);
  _exit(127);
}

}  // namespace

std::uint64_t process_token(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  std::istringstream fields(line.substr(line.rfind(')') + 1));  // the name in brackets may hold blanks
  std::string state, skipped;
  std::uint64_t start = 0;
  fields >> state;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> start;
  if (!fields || state == "Z" || state == "X") return 0;
  return start << id_bits | static_cast<std::uint64_t>(process);
}

bool alive(std::uint64_t token) { return token != 0 && process_token(process_of(token)) == token; }

void kill_process(std::uint64_t token) {
  if (alive(token)) kill(process_of(token), SIGKILL);
}

Child::Child(std::span<const std::string> command, std::span<const std::string> environment,
             const std::filesystem::path& log) {
  std::vector<std::string> words(command.begin(), command.end());
  auto variables = environment_with(environment);
  const auto word_pointers = pointers(words), variable_pointers = pointers(variables);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) throw SystemError("cannot write " + log.string(), errno, "check --run");
  const int empty = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) become(word_pointers.data(), variable_pointers.data(), output, empty, parent);
  const int error = errno;
  ::close(output);
  ::close(empty);
  if (process_ < 0) throw SystemError("cannot start " + words.front(), error, "free processes or memory");
  setpgid(process_, process_);
}

Child::Child(Child&& other) noexcept : process_(std::exchange(other.process_, -1)), status_(other.status_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() { kill_group(); }

std::optional<int> Child::ended() {
  siginfo_t facts{};
  if (process_ > 0 && waitid(P_PID, static_cast<id_t>(process_), &facts, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      facts.si_pid == process_)
    kill_group();
  return status_;
}

void Child::kill_group() noexcept {
  if (process_ <= 0) return;
  // Before the leader is reaped: from then on its id, and so the group's, may be another's.
  kill(-process_, SIGKILL);
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = waitpid(process_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == process_) status_ = status;
  process_ = -1;
}

}  // namespace Atoll::federation
