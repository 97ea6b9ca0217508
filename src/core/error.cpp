#include "atoll/core/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace Atoll {

ConfigError::ConfigError(const std::string& problem, const std::string& why, const std::string& advice)
    : Error(problem + " (" + why + ") " + advice) {}

SystemError::SystemError(const std::string& problem, int errno_value, const std::string& advice)
    : Error(problem + " (" + std::strerror(errno_value) + ") " + advice) {}

void contract_broken(const char* condition, const char* file, int line, const std::string& detail) {
  std::fprintf(stderr, "atoll: contract broken: %s at %s:%d: %s\n", condition, file, line, detail.c_str());
  std::abort();
}

}  // namespace Atoll
