#include "atoll/app/stop_request.hpp"

#include <cerrno>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include "atoll/core/error.hpp"

namespace Atoll::app {

StopRequest::StopRequest() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  descriptor_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw SystemError("cannot listen to signals", errno, "raise the limit of open files");
}

StopRequest::~StopRequest() { ::close(descriptor_); }

bool StopRequest::arrived() {
  signalfd_siginfo info;
  arrived_ |= ::read(descriptor_, &info, sizeof info) == sizeof info;
  return arrived_;
}

}  // namespace Atoll::app
