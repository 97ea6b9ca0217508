#pragma once

#include <stdexcept>
#include <string>

namespace Atoll {

/// Anything that stops the program in an orderly way. what() reads "problem (why) what to do".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Wrong input, found before any work was done: the message reads "problem (why) what to do".
class ConfigError : public Error {
 public:
  ConfigError(const std::string& problem, const std::string& why, const std::string& advice);
};

/// A disk, file system or network did what it should not; the work so far is safe.
class SystemError : public Error {
 public:
  /// `errno_value` becomes the "why" by strerror.
  SystemError(const std::string& problem, int errno_value, const std::string& advice);
};

/// Exit statuses of every subcommand; they follow sysexits.h, and jobs/ relies on them.
enum class ExitStatus : int {
  success = 0,
  usage = 64,         ///< wrong options, configuration or input file
  bad_data = 65,      ///< damaged data, checkpoint or letter
  internal = 70,      ///< a defect of Atoll
  io = 74,            ///< disk full, file system gone
  requeue = 85,       ///< checkpointed on request before the end: start me again
};

/// Stops the program: a contract of our own was broken. Prints condition, place and `detail`.
[[noreturn]] void contract_broken(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace Atoll

/// A condition that only a defect of Atoll can break.
#define ATOLL_EXPECT(condition, detail) \
  ((condition) ? void(0) : ::Atoll::contract_broken(#condition, __FILE__, __LINE__, (detail)))
