#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "atoll/device/session.hpp"

namespace Atoll::device::test {

/// Keeps Kokkos alive for all tests of a program.
class SessionEnvironment : public ::testing::Environment {
 public:
  void SetUp() override { session_.emplace(); }
  void TearDown() override { session_.reset(); }

 private:
  std::optional<Session> session_;
};

inline ::testing::Environment* const session_environment = ::testing::AddGlobalTestEnvironment(new SessionEnvironment);

}  // namespace Atoll::device::test
