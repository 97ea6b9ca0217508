#include "atoll/app/stop_request.hpp"

#include <csignal>
#include <initializer_list>


namespace Atoll::app {
namespace {

// The one variable of the program that is not owned by an object: a signal handler can reach nothing else. A signal
// mask with signalfd would need none, but libraries start threads before main() that do not have the mask.
volatile std::sig_atomic_t stop_arrived = 0;

extern "C" void note_stop(int) { stop_arrived = 1; }

void set_handler(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  stop_arrived = 0;
  set_handler(note_stop);
}

StopRequest::~StopRequest() { set_handler(SIG_DFL); }

bool StopRequest::arrived() const { return stop_arrived != 0; }

}  // namespace Atoll::app
