#include "atoll/app/stop_request.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace Atoll::app {
namespace {

TEST(StopRequest, SignalsOfTheKindOnlyAskWhicheverThreadTheyReach) {
  // Libraries start threads before main(), which inherit nothing from us.
  std::atomic<bool> done = false;
  std::thread early([&] {
    while (!done) std::this_thread::yield();
  });
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const StopRequest stop;
    EXPECT_FALSE(stop.arrived());
    pthread_kill(early.native_handle(), signal);
    while (!stop.arrived()) std::this_thread::yield();
  }
  const StopRequest stop;
  kill(getpid(), SIGTERM);
  while (!stop.arrived()) std::this_thread::yield();
  done = true;
  early.join();
}

}  // namespace
}  // namespace Atoll::app
