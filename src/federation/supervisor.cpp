#include "atoll/federation/supervisor.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <system_error>

#include "atoll/core/error.hpp"
#include "atoll/federation/mailbox_memory.hpp"
#include "atoll/federation/process.hpp"

namespace Atoll::federation {
namespace {

constexpr Seconds least_pause{0.2}, longest_pause{2.0};
/// A start that takes longer than this and than five times the last one is given up, from then on twice as late.
constexpr Seconds least_patience{4.0};
/// A pair world whose connector here has ended has this long to end by itself.
constexpr Seconds linger{0.7};
/// A refused peer must be started anew with other input: no hurry.
constexpr Seconds refused_pause{5.0};
/// After the island has ended its connectors deliver what is left; they need at most this long.
constexpr Seconds closing_time{8.0};
constexpr std::uintmax_t log_bound = 4 << 20;

std::optional<MailboxMemory> look_into(const MailboxAddress& address) {
  try {
    return MailboxMemory::open(address);
  } catch (const Error&) {
    return std::nullopt;  // of another version, or not readable: as good as none, and the island will say so
  }
}

bool open_for_letters(const std::optional<MailboxMemory>& memory) {
  return memory && memory->gateway_alive() && !memory->gateway().closed;
}

/// Of a long row of failures the first are written down, then every 50th: a peer may be away for weeks.
bool worth_telling(unsigned in_a_row) { return in_a_row <= 5 || in_a_row % 50 == 0; }

bool runs(ConnectorState state) {
  return state == ConnectorState::starting || state == ConnectorState::handshake || state == ConnectorState::up;
}

}  // namespace

/// The link to one peer as its site's supervisor sees it.
class Supervisor::Line {
 public:
  Line(const SupervisorOptions& options, std::size_t peer, EventLog& log);
  ~Line() { end_dial(); }
  void step(Seconds now);
  /// The island has ended in good order and nothing of this link runs any more.
  [[nodiscard]] bool done() const { return finished_; }
  void end_connector() const;

 private:
  [[nodiscard]] const Site& own() const { return options_.sites[options_.self]; }
  [[nodiscard]] const Site& peer() const { return options_.sites[peer_]; }
  [[nodiscard]] std::uint64_t connector() const { return memory_ ? memory_->connector().owner.load() : 0; }
  [[nodiscard]] ConnectorState state() const;
  [[nodiscard]] std::string reason() const;

  void look_at_mailbox(Seconds now);
  void note_change(Seconds now);
  void finish_when_closed(Seconds now);
  void kill_when_stalled(Seconds now);
  void watch_dial(Seconds now);
  void dial_when_due(Seconds now);
  void end_dial();
  void schedule(Seconds now);
  [[nodiscard]] bool peer_can_answer() const;
  [[nodiscard]] Seconds start_patience() const;

  const SupervisorOptions& options_;
  std::size_t peer_;
  EventLog& log_;
  MailboxAddress address_;
  std::filesystem::path output_, scratch_;
  std::minstd_rand random_{std::random_device{}()};

  std::optional<MailboxMemory> memory_;
  Seconds looked_{-1.0};
  std::optional<Seconds> closed_at_;

  std::uint64_t beat_ = 0, sessions_ = 0;
  Seconds beat_moved_{}, changed_{};
  bool up_ = false, seen_open_ = false, finished_ = false;

  std::optional<Child> dial_;
  std::uint64_t connector_before_dial_ = 0;
  bool stood_ = false;              ///< the present dial led to a session
  bool told_ = false;               ///< the present dial was written down
  Seconds dialed_{}, next_dial_{}, start_took_{};
  std::optional<Seconds> connector_gone_;
  unsigned failures_ = 0, dials_ = 0;
  unsigned kills_ = 0;              ///< of connectors since a session stood
  std::string refusal_;
};

Supervisor::Line::Line(const SupervisorOptions& options, std::size_t peer, EventLog& log)
    : options_(options),
      peer_(peer),
      log_(log),
      address_{options.mailboxes, options.federation, own().name, this->peer().name},
      output_(options.run / ("links-" + this->peer().name + ".log")),
      scratch_(std::filesystem::temp_directory_path() /
               ("atoll-links-" + std::to_string(getpid()) + "-" + std::to_string(peer))) {}

ConnectorState Supervisor::Line::state() const {
  return memory_ ? static_cast<ConnectorState>(memory_->connector().state.load()) : ConnectorState::none;
}

void Supervisor::Line::step(Seconds now) {
  look_at_mailbox(now);
  note_change(now);
  finish_when_closed(now);
  kill_when_stalled(now);
  watch_dial(now);
  dial_when_due(now);
}

void Supervisor::Line::look_at_mailbox(Seconds now) {
  if (memory_ && memory_->replaced()) memory_.reset();
  if (!memory_ && now - looked_ > Seconds(0.1)) {
    looked_ = now;
    memory_ = look_into(address_);
    failures_ = 0;
    sessions_ = memory_ ? memory_->connector().sessions.load() : 0;
  }
  // A mailbox that was closed before we came is of an earlier run: the island is still to start.
  seen_open_ = seen_open_ || open_for_letters(memory_);
  if (seen_open_) finished_ = false;
  const bool closed = seen_open_ && memory_ && memory_->gateway().closed;
  if (!closed) closed_at_.reset();
  else if (!closed_at_) closed_at_ = now;
}

void Supervisor::Line::note_change(Seconds now) {
  if (changed_.count() == 0) changed_ = now;
  const std::uint64_t beat = memory_ ? memory_->connector().beat.load() : 0;
  if (beat != beat_) beat_moved_ = now;
  beat_ = beat;
  const bool up = state() == ConnectorState::up && alive(connector());
  const std::uint64_t sessions = memory_ ? memory_->connector().sessions.load() : 0;
  if (up_ && (!up || sessions != sessions_)) {
    const auto why = reason();
    log_.write("link_down", {{"peer", peer().name}, {"reason", why}, {"stood_seconds", (now - changed_).count()}});
    std::printf("link to %s is down (%s)\n", peer().name.c_str(), why.c_str());
    up_ = false;
    changed_ = now;
  }
  if (up && !up_) {
    log_.write("link_up", {{"peer", peer().name}, {"session", sessions}, {"down_seconds", (now - changed_).count()}});
    std::printf("link to %s is up\n", peer().name.c_str());
    if (dial_ && !stood_) start_took_ = now - dialed_;
    up_ = stood_ = true;
    failures_ = kills_ = 0;
    changed_ = now;
  }
  sessions_ = sessions;
  const auto refusal = memory_ ? memory_->connector().refusal.read() : "";
  if (refusal == refusal_) return;
  refusal_ = refusal;
  if (refusal.empty()) return;
  log_.write("link_refused", {{"peer", peer().name}, {"reason", refusal}});
  std::printf("link to %s is refused: %s\n", peer().name.c_str(), refusal.c_str());
}

/// The mailbox is of no more use once its island has ended in good order and the connector is gone.
void Supervisor::Line::finish_when_closed(Seconds now) {
  if (!closed_at_) return;
  if (now - *closed_at_ > closing_time) end_connector();
  else if (up_ || alive(connector())) return;
  memory_->remove_closed();
  memory_.reset();
  closed_at_.reset();
  seen_open_ = false;
  finished_ = true;
}

std::string Supervisor::Line::reason() const {
  if (!memory_) return "the island is gone";
  return state() == ConnectorState::ended ? memory_->connector().note.read() : "the connector died";
}

/// A daemon that is lost during the start leaves mpirun waiting for good. The side that does not dial only bounds the
/// time: when the other dials again, the new connector ends the old one.
Seconds Supervisor::Line::start_patience() const {
  if (!dial_ || start_took_.count() == 0) return options_.start_deadline;
  return std::min(options_.start_deadline, std::max(least_patience, 5 * start_took_) * (1U << std::min(failures_, 8U)));
}

/// A stopped or hung connector is killed: its peer then learns of it at once, and its place is free.
void Supervisor::Line::kill_when_stalled(Seconds now) {
  if (!memory_ || !runs(state())) return;
  const bool up = state() == ConnectorState::up;
  const Seconds patience = up ? options_.peer_deadline : start_patience();
  if (now - beat_moved_ < patience || !alive(connector())) return;
  if (worth_telling(++kills_))
    log_.write("connector_killed", {{"peer", peer().name},
                                    {"silent_seconds", (now - beat_moved_).count()},
                                    {"in_a_row", std::uint64_t{kills_}}});
  kill_process(connector());
}

/// mpirun may outlive its connectors by hours, or never bring them up.
void Supervisor::Line::watch_dial(Seconds now) {
  if (!dial_) return;
  const bool came = connector() != connector_before_dial_;
  const bool gone = came ? !alive(connector()) : now - dialed_ > start_patience();
  if (!gone) connector_gone_.reset();
  else if (!connector_gone_) connector_gone_ = now;
  const auto status = dial_->ended();
  if (std::error_code none; std::filesystem::file_size(output_, none) > log_bound && !none)
    std::filesystem::resize_file(output_, 0, none);
  const bool lingers = connector_gone_ && now - *connector_gone_ > linger;
  if (!status && !lingers) return;
  if (told_ || stood_)
    log_.write("dial_ended", {{"peer", peer().name},
                              {"attempt", std::uint64_t{dials_}},
                              {"how", std::string(status ? "by itself" : "killed: it outlived its connector")},
                              {"wait_status", std::int64_t{status.value_or(0)}},
                              {"seconds", (now - dialed_).count()}});
  end_dial();
  schedule(now);
}

void Supervisor::Line::end_dial() {
  if (!dial_) return;
  const bool came = connector() != connector_before_dial_;
  dial_.reset();
  if (came) end_connector();
  std::error_code ignored;
  std::filesystem::remove_all(scratch_, ignored);
}

void Supervisor::Line::end_connector() const { kill_process(connector()); }

void Supervisor::Line::schedule(Seconds now) {
  Seconds pause = std::min(longest_pause, least_pause * (1U << std::min(failures_, 8U)));
  if (!refusal_.empty()) pause = refused_pause;
  pause *= std::uniform_real_distribution(0.75, 1.0)(random_);
  if (!stood_) ++failures_;
  next_dial_ = now + pause;
}

/// On one machine we can see whether there is anybody to talk to.
bool Supervisor::Line::peer_can_answer() const {
  if (!own().host.empty() || !peer().host.empty()) return true;
  const auto root = peer().mailboxes.empty() ? default_mailbox_root() : std::filesystem::path(peer().mailboxes);
  return open_for_letters(look_into({root, options_.federation, peer().name, own().name}));
}

void Supervisor::Line::dial_when_due(Seconds now) {
  if (dial_ || options_.self > peer_ || now < next_dial_ || !open_for_letters(memory_)) return;
  if (!peer_can_answer()) {
    next_dial_ = now + least_pause;
    return;
  }
  std::error_code none;
  if (std::filesystem::file_size(output_, none) > log_bound / 4 && !none)
    std::filesystem::rename(output_, output_.string() + ".1", none);
  std::filesystem::create_directories(scratch_, none);
  std::vector<std::string> environment{"TMPDIR=" + scratch_.string(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"};
  if (geteuid() == 0) {
    environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  const unsigned in_a_row = failures_ + 1;
  told_ = worth_telling(in_a_row);
  connector_before_dial_ = connector();
  connector_gone_.reset();
  stood_ = false;
  dialed_ = now;
  beat_moved_ = now;
  try {
    dial_.emplace(dial_command(options_, peer_), environment, output_);
  } catch (const SystemError& error) {
    if (told_) log_.write("dial_failed", {{"peer", peer().name}, {"reason", std::string(error.what())}});
    return schedule(now);
  }
  ++dials_;
  if (told_)
    log_.write("dial", {{"peer", peer().name},
                        {"attempt", std::uint64_t{dials_}},
                        {"in_a_row", std::uint64_t{in_a_row}}});
}

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {
  std::filesystem::create_directories(options_.run);
  log_ = EventLog(options_.run / "links.jsonl");
  for (std::size_t peer = 0; peer < options_.sites.size(); ++peer)
    if (peer != options_.self) lines_.push_back(std::make_unique<Line>(options_, peer, log_));
}

Supervisor::~Supervisor() {
  for (const auto& line : lines_) line->end_connector();
}

bool Supervisor::step(Seconds now) {
  for (const auto& line : lines_) line->step(now);
  std::fflush(stdout);
  return !std::ranges::all_of(lines_, [](const auto& line) { return line->done(); });
}

}  // namespace Atoll::federation
