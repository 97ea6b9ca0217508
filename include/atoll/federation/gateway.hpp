#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "atoll/core/event_log.hpp"
#include "atoll/federation/mailbox.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/federation/record_keeper.hpp"
#include "atoll/federation/waiting_letters.hpp"

namespace Atoll::federation {

/// What the progress line says of all links together.
struct Traffic {
  std::uint64_t bytes_sent = 0;       ///< on the wire
  std::uint64_t bytes_received = 0;   ///< on the wire
  std::uint64_t letters_dropped = 0;  ///< for sites that were gone
};

/// Where the federation stands, as the gateway thread saw it last.
struct Standing {
  Version round = 0;            ///< the version that all fragments have reached
  std::size_t sites_alive = 1;  ///< including this one
  double progress_tokens = 0;   ///< as Protocol::progress_tokens()
  bool joining = false;
  bool finished = false;
};

/// Room that the mailboxes of a federation need. @param largest_fragment [values]  @param slots  of the OuterOptimizer
[[nodiscard]] Geometry geometry_for(std::size_t largest_fragment, std::size_t slots, std::size_t fragments,
                                    std::size_t sites);

/// The island's voice: a thread that carries letters between the mailboxes and the protocol.
///
/// Owns the protocol, the mailboxes and the thread. The training thread speaks to the protocol through visit() and
/// try_visit(); both hold the protocol's lock meanwhile, so visitors are short. Writes the protocol's notes to the log.
class Gateway {
 public:
  /// @param mailboxes  one per other site
  /// @param keeper  for the protocol's records
  Gateway(Protocol protocol, std::map<SiteId, Mailbox> mailboxes, EventLog& log, RecordKeeper keeper);
  /// Takes leave of the others if it was started, stops the thread, closes the mailboxes.
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  [[nodiscard]] static Seconds now();

  /// Calls visitor(protocol, now) under the lock, waiting for it.   @throws what ended the gateway thread
  template <class Visitor>
  auto visit(Visitor&& visitor) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return visitor(protocol_, now());
  }

  /// As visit(), but returns false at once when the gateway thread is at work on the protocol.
  template <class Visitor>
  bool try_visit(Visitor&& visitor) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && failure_) std::rethrow_exception(failure_);
    if (lock) visitor(protocol_, now());
    return lock.owns_lock();
  }

  /// Keeps and logs what the protocol has decided so far. The gateway thread does it all the time; a checkpoint that is
  /// saved afterwards holds nothing that the log does not say. Any thread; waits for the disk.
  void record();

  /// Neither waits for the gateway thread's work on the protocol.
  [[nodiscard]] Standing standing() const;
  [[nodiscard]] Traffic traffic() const;
  /// Why a link was refused, by site; empty when none was.
  [[nodiscard]] std::map<SiteId, std::string> refusals() const;

 private:
  struct Correspondent {
    std::string name;
    Mailbox mailbox;
    WaitingLetters waiting;
    bool alive = false;  ///< its island, as the protocol is told
    Link link;
    std::string refusal;
  };

  void run() noexcept;
  void carry_until_stopped();
  void pulse_until_stopped();
  void publish_standing();
  [[nodiscard]] bool round_trip();
  void observe(SiteId site, Correspondent& peer);
  [[nodiscard]] bool collect(Correspondent& peer);
  void dispatch();
  [[nodiscard]] bool post(Correspondent& peer);
  [[nodiscard]] bool put(Correspondent& peer, Lane lane, const store::Letter& letter);

  Protocol protocol_;
  std::map<SiteId, Correspondent> peers_;
  EventLog& log_;
  RecordKeeper keeper_;
  std::mutex record_mutex_;        ///< held while records and notes are taken and written, so that they stay in order
  mutable std::mutex mutex_;       ///< protocol_ and failure_
  mutable std::mutex view_mutex_;  ///< standing_, link, refusal and dropped_, as others see them
  std::exception_ptr failure_;     ///< what ended the gateway thread too early
  Standing standing_;
  std::uint64_t dropped_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> looks_ = 0;  ///< rounds of the gateway thread, so that the pulse knows that it lives
  std::thread thread_;
  std::thread pulse_;
};

}  // namespace Atoll::federation
