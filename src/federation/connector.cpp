#include "atoll/federation/connector.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "atoll/core/error.hpp"
#include "atoll/federation/mailbox_memory.hpp"
#include "atoll/federation/process.hpp"
#include "atoll/mpi/communicator.hpp"
#include "atoll/mpi/environment.hpp"
#include "atoll/mpi/error.hpp"
#include "atoll/mpi/window.hpp"
#include "courier.hpp"
#include "handshake.hpp"

namespace Atoll::federation {
namespace {

/// A hung MPI call is ended by SIGALRM after this [seconds]; the loop sets it anew all the time.
constexpr unsigned watchdog = 10;
/// MPI has been seen to leak without bound when it retries a put to a dead peer [bytes].
constexpr rlim_t memory_limit = rlim_t{2} << 30;
constexpr Seconds environment_interval{0.1}, failed_interval{0.005};
/// How long letters may still be delivered after the island has ended.
constexpr Seconds leave_time{3.0};
/// Nothing moved for this long: sleep longer from here on.
constexpr Seconds drowsy_after{0.01};
/// More than so many bytes in such a time: do not sleep at all.
constexpr std::uint64_t brisk_bytes = 256 << 10;
constexpr Seconds brisk_time{0.02};

struct Ended {
  ConnectorEnd how;
  std::string why;
};

Seconds clock_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

void set_limits() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit limit{memory_limit, memory_limit};
  setrlimit(RLIMIT_DATA, &limit);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGALRM, SIG_DFL);
}

MailboxMemory open_mailbox(const MailboxAddress& address) {
  auto memory = MailboxMemory::open(address);
  if (!memory)
    throw Ended{ConnectorEnd::no_gateway,
                "no mailbox " + address.file().string() + " (the island of " + address.site +
                    " has not made it) start the island"};
  if (!memory->gateway_alive() || memory->gateway().closed)
    throw Ended{ConnectorEnd::no_gateway, "the island that made " + address.file().string() +
                                              " is gone (its process ended) start it again"};
  return std::move(*memory);
}

/// Only one connector may write into a mailbox; an earlier one may be stopped and wake up later.
std::uint64_t take_over(const MailboxMemory& memory) {
  const std::uint64_t own = process_token(getpid());
  const std::uint64_t before = memory.connector().owner.exchange(own);
  while (before != own && alive(before)) {
    kill_process(before);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return own;
}

void enter(const MailboxMemory& memory, ConnectorState state) {
  memory.connector().state = static_cast<std::uint64_t>(state);
  ++memory.connector().beat;
}

/// One session from the first status to the end. Leaves only by an exception.
class Session {
 public:
  Session(const ConnectorOptions& options, const MailboxMemory& memory, const mpi::Communicator& pair, Courier& courier,
          std::uint64_t own, pid_t parent)
      : options_(options), memory_(memory), pair_(pair), courier_(courier), own_(own), parent_(parent),
        repair_(memory.gateway().repair), started_(clock_now()) {}

  [[noreturn]] void run(const std::function<void(const std::string&)>& report);

 private:
  void look_around(Seconds now);
  void look_at_peer(Seconds now);
  void leave_when_closed(Seconds now);
  void rest(Seconds now, Seconds last_move);

  const ConnectorOptions& options_;
  const MailboxMemory& memory_;
  const mpi::Communicator& pair_;
  Courier& courier_;
  std::uint64_t own_;
  pid_t parent_;
  std::uint64_t repair_;
  Seconds started_, looked_{}, failed_looked_{}, closed_at_{}, counted_{};
  std::uint64_t traffic_ = 0;
  bool brisk_ = false;
};

void Session::run(const std::function<void(const std::string&)>& report) {
  // A receive that never completes: testing it lets MPI make progress when nothing else is under way.
  std::byte nothing{};
  auto never = pair_.receive(std::span(&nothing, 1), 1 - pair_.rank(), 2);
  Seconds last_move = started_;
  bool up = false;
  while (true) {
    const Seconds now = clock_now();
    static_cast<void>(never.test());
    if (courier_.step(now)) last_move = now;
    ++memory_.connector().beat;
    if (!up && courier_.peer()) {
      up = true;
      ++memory_.connector().sessions;
      memory_.connector().refusal.write("");
      enter(memory_, ConnectorState::up);
      report("link to " + options_.mailbox.peer + " is up");
    }
    look_at_peer(now);
    look_around(now);
    leave_when_closed(now);
    rest(now, last_move);
  }
}

void Session::look_at_peer(Seconds now) {
  const Seconds seen = courier_.peer() ? courier_.peer_seen() : started_;
  const Seconds limit = options_.peer_deadline + 4 * courier_.round_trip();
  if (now - seen > limit)
    throw Ended{ConnectorEnd::peer_lost,
                "no sign of the peer's connector for " + std::to_string((now - seen).count()) + " s"};
  if (courier_.peer() && courier_.peer()->closed) throw Ended{ConnectorEnd::closed, "the peer's island has ended"};
  if (now - failed_looked_ < failed_interval) return;
  failed_looked_ = now;
  if (pair_.failed() > 0) throw Ended{ConnectorEnd::peer_lost, "the peer's connector died"};
}

void Session::look_around(Seconds now) {
  if (now - looked_ < environment_interval) return;
  looked_ = now;
  alarm(watchdog);
  if (memory_.connector().owner != own_) throw Ended{ConnectorEnd::superseded, "another connector took over"};
  if (memory_.replaced()) throw Ended{ConnectorEnd::superseded, "the island has started anew"};
  if (!memory_.gateway_alive() && !memory_.gateway().closed)
    throw Ended{ConnectorEnd::no_gateway, "the island is gone"};
  if (getppid() != parent_) throw Ended{ConnectorEnd::orphaned, "the process that started us is gone"};
  if (memory_.gateway().repair != repair_) throw Ended{ConnectorEnd::repair, "a letter stayed torn"};
}

void Session::leave_when_closed(Seconds now) {
  if (!memory_.gateway().closed) return;
  if (closed_at_.count() == 0) closed_at_ = now;
  const Seconds waited = now - closed_at_;
  if (waited > 2 * leave_time) throw Ended{ConnectorEnd::closed, "the island has ended; the peer did not hear of it"};
  if ((courier_.delivered() || waited > leave_time) && courier_.farewell()) {
    // MPI may still hold the last bytes; a moment of progress lets them go.
    for (int i = 0; i < 50; ++i) {
      static_cast<void>(courier_.step(clock_now()));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    throw Ended{ConnectorEnd::closed, "the island has ended"};
  }
}

/// MPI moves some 64 KiB at each look, so sleeping in between slows a fast wire down; but spinning while a slow wire
/// drips would take a core from the island, and spinning without yielding starves the kernel's own network thread.
void Session::rest(Seconds now, Seconds last_move) {
  if (now - counted_ > brisk_time) {
    brisk_ = courier_.traffic() - traffic_ > brisk_bytes;
    traffic_ = courier_.traffic();
    counted_ = now;
  }
  if (brisk_)
    sched_yield();
  else if (now - last_move < drowsy_after)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  else
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
}

[[noreturn]] void live(const ConnectorOptions& options, const MailboxMemory& memory, std::uint64_t own,
                       const std::function<void(const std::string&)>& report) {
  const pid_t parent = getppid();
  alarm(static_cast<unsigned>(options.start_deadline.count()) + 1);
  enter(memory, ConnectorState::starting);
  memory.connector().note.write("");
  mpi::Environment environment;
  environment.abandon();  // the end of a connector never waits for its peer
  const auto pair = mpi::Communicator::world();
  if (pair.size() != 2)
    throw ConfigError("a connector needs a world of two ranks", std::to_string(pair.size()) + " are there",
                      "let atoll links start it");
  enter(memory, ConnectorState::handshake);
  const auto agreement = shake_hands(pair, options, memory, options.start_deadline / 2);
  if (!agreement.refusal.empty()) throw Ended{ConnectorEnd::refused, agreement.refusal};
  mpi::Window window(pair, memory.window());
  alarm(watchdog);
  Courier courier(memory, window, 1 - pair.rank(), agreement.session, options.chunk_bytes, options.chunks_in_flight);
  Session(options, memory, pair, courier, own, parent).run(report);
}

/// The launcher's daemon on the far side of a dead wire would wait for hours; it exists for this connector only.
void end_stranded_daemon() {
  std::ifstream name("/proc/" + std::to_string(getppid()) + "/comm");
  std::string text;
  if (std::getline(name, text) && text == "prted") kill(getppid(), SIGKILL);
}

void leave(const MailboxMemory& memory, std::uint64_t own, const Ended& ended) {
  auto& words = memory.connector();
  if (words.owner != own) return;
  words.note.write(ended.why);
  if (ended.how == ConnectorEnd::refused) words.refusal.write(ended.why);
  enter(memory, ended.how == ConnectorEnd::refused ? ConnectorState::refused : ConnectorState::ended);
}

Ended life(const ConnectorOptions& options, std::optional<MailboxMemory>& memory, std::uint64_t& own,
           const std::function<void(const std::string&)>& report) {
  try {
    memory = open_mailbox(options.mailbox);
    own = take_over(*memory);
    live(options, *memory, own, report);
  } catch (const Ended& ended) {
    return ended;
  } catch (const mpi::PeerLost& error) {
    return {ConnectorEnd::peer_lost, error.what()};
  } catch (const mpi::Error& error) {
    return {ConnectorEnd::mpi_failed, error.what()};
  }
}

}  // namespace

ConnectorEnd carry_letters(const ConnectorOptions& options, const std::function<void(const std::string&)>& report) {
  set_limits();
  // Never unmapped: MPI may still look at the window until the process has ended.
  auto& memory = *new std::optional<MailboxMemory>;
  std::uint64_t own = 0;
  Ended ended = life(options, memory, own, report);
  const bool leaving = memory && memory->gateway().closed && ended.how == ConnectorEnd::peer_lost;
  if (leaving) ended = {ConnectorEnd::closed, "the island has ended"};
  if (memory) leave(*memory, own, ended);
  report("link to " + options.mailbox.peer + " ended: " + ended.why);
  if (ended.how == ConnectorEnd::peer_lost || ended.how == ConnectorEnd::orphaned) end_stranded_daemon();
  return ended.how;
}

}  // namespace Atoll::federation
