#pragma once

#include <string>

#include "atoll/core/error.hpp"

namespace Atoll::store {

/// HDF5 failed, or a file does not hold what it should. what() reads "problem (why) what to do"; the why is HDF5's own
/// innermost message where it has one. A full disk is a SystemError instead.
class Error : public Atoll::Error {
 public:
  Error(const std::string& problem, const std::string& why, const std::string& advice)
      : Atoll::Error(problem + " (" + why + ") " + advice), why_(why) {}
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  std::string why_;
};

}  // namespace Atoll::store
