#pragma once

#include <string>

#include "atoll/core/error.hpp"

namespace Atoll::mpi {

/// An MPI call failed. Carries the error class (never the code) and the name of the call.
class Error : public Atoll::Error {
 public:
  Error(const std::string& call, int error_class, const std::string& text);
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  [[nodiscard]] int error_class() const noexcept { return error_class_; }

 private:
  std::string call_;
  int error_class_;
};

/// A rank that the call needs is gone.
class PeerLost : public Error {
 public:
  using Error::Error;
};

}  // namespace Atoll::mpi
