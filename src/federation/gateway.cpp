#include "atoll/federation/gateway.hpp"

#include <algorithm>
#include <limits>

namespace Atoll::federation {
namespace {

using namespace std::chrono_literals;
using store::LetterKind;

constexpr auto short_pause = 1ms, long_pause = 5ms;
// Nothing moved for this long: look less often from here on.
constexpr Seconds drowsy_after{0.02};
// How long an island that ends waits for its last letters to be taken.
constexpr Seconds farewell{10.0};
// A peer whose island shows no life for so long is gone until it shows life again. Longer than a pair world takes to
// be formed anew: the death of a connector must not look like the death of a site.
constexpr Seconds silence_limit{4.0};
// A gateway thread that finishes no round for so long hangs.
constexpr Seconds stall_limit{120.0};
Lane lane_of(LetterKind kind) {
  // A farewell must not overtake the commits before it.
  const bool control =
      kind == LetterKind::status || kind == LetterKind::snapshot_request || kind == LetterKind::refusal;
  return control ? Lane::control : Lane::bulk;
}

std::size_t image_bytes(const store::Letter& letter) {
  const auto size = [](const store::Values& values) { return values ? values->size() : 0; };
  return store::image_bound(size(letter.values) + size(letter.momentum), letter.offers.size(), letter.fragments.size());
}

}  // namespace

Geometry geometry_for(std::size_t largest_fragment, std::size_t slots, std::size_t fragments, std::size_t sites) {
  const auto in_pages = [](std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; };
  Geometry geometry;
  geometry.slot_bytes[0] = in_pages(store::image_bound(0, sites, fragments));
  geometry.slot_bytes[1] = in_pages(store::image_bound((1 + slots) * largest_fragment, sites, sent_versions));
  return geometry;
}

Gateway::Gateway(Protocol protocol, std::map<SiteId, Mailbox> mailboxes, EventLog& log, RecordKeeper keeper)
    : protocol_(std::move(protocol)), log_(log), keeper_(std::move(keeper)) {
  for (auto& [site, mailbox] : mailboxes)
    peers_.emplace(site, Correspondent{protocol_.config().sites[site.value], std::move(mailbox), {}, false, {}, {}});
  thread_ = std::thread([this] { run(); });
  pulse_ = std::thread([this] { pulse_until_stopped(); });
}

Gateway::~Gateway() {
  {
    const std::lock_guard lock(mutex_);
    protocol_.rest();
    protocol_.leave();
  }
  stopping_ = true;
  thread_.join();
  pulse_.join();
  for (auto& [site, peer] : peers_) peer.mailbox.close();
}

Seconds Gateway::now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

// Nothing may leave the thread: what goes wrong here (shared memory full, memory exhausted) ends the training thread's
// next visit, and so the island, in an orderly way.
void Gateway::run() noexcept {
  try {
    carry_until_stopped();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

// A merge of large fragments, or a file system that stalls, must not look like the death of the site. But a gateway
// that hangs for good must.
void Gateway::pulse_until_stopped() {
  auto looks = looks_.load();
  auto moved = now();
  while (!stopping_) {
    if (looks_ != looks) {
      looks = looks_;
      moved = now();
    }
    if (now() - moved < stall_limit)
      for (auto& [site, peer] : peers_) peer.mailbox.pulse();
    std::this_thread::sleep_for(100ms);
  }
}

void Gateway::carry_until_stopped() {
  std::optional<Seconds> stop_at;
  auto last_move = now();
  const auto delivered = [](const auto& entry) {
    const auto& peer = entry.second;
    return !peer.link.up || (peer.waiting.empty() && peer.mailbox.outstanding(Lane::control) == 0 &&
                             peer.mailbox.outstanding(Lane::bulk) == 0);
  };
  while (true) {
    const bool stopping = stopping_;  // read first: what was decided before it was set is then posted below
    const bool moved = round_trip();
    if (stopping && !stop_at) stop_at = now() + farewell;
    if (stop_at && (std::ranges::all_of(peers_, delivered) || now() > *stop_at)) return;
    if (moved) last_move = now();
    if (!moved) std::this_thread::sleep_for(now() - last_move < drowsy_after ? short_pause : long_pause);
  }
}

// One look at everything; true when a letter moved, so that the next look comes at once.
bool Gateway::round_trip() {
  bool moved = false;
  ++looks_;
  for (auto& [site, peer] : peers_) {
    peer.mailbox.beat(now());
    observe(site, peer);
    moved |= collect(peer);
  }
  publish_standing();
  dispatch();
  for (auto& [site, peer] : peers_) moved |= post(peer);
  record();
  return moved;
}

void Gateway::publish_standing() {
  const auto seen = visit([](Protocol& protocol, Seconds time) {
    protocol.tick(time);
    Standing now{std::numeric_limits<Version>::max(), protocol.sites_alive(), protocol.progress_tokens(),
                 protocol.joining(), protocol.finished()};
    for (const auto& s : protocol.fragments()) now.round = std::min(now.round, s.version);
    return now;
  });
  const std::lock_guard lock(view_mutex_);
  standing_ = seen;
}

void Gateway::observe(SiteId site, Correspondent& peer) {
  const auto link = peer.mailbox.link();
  const bool alive = link.peer_incarnation != 0 && link.peer_silence < silence_limit;
  if (link.up != peer.link.up)
    log_.write(link.up ? "link_up" : "link_down", {{"site", peer.name},
                                                   {"session", link.sessions},
                                                   {"bytes_sent", link.wire_sent},
                                                   {"bytes_received", link.wire_received},
                                                   {"round_trip_seconds", link.round_trip.count()}});
  if (peer.alive && !alive) {
    const std::lock_guard lock(view_mutex_);
    dropped_ += peer.waiting.size();
    peer.waiting.clear();
  }
  peer.alive = alive;
  visit([&](Protocol& protocol, Seconds time) { protocol.observe(site, alive, link.peer_incarnation, time); });
  const std::lock_guard lock(view_mutex_);
  peer.link = link;
  peer.refusal = peer.mailbox.refusal();
}

bool Gateway::collect(Correspondent& peer) {
  bool moved = false;
  for (const auto lane : {Lane::control, Lane::bulk}) {
    while (const auto image = peer.mailbox.collect(lane)) {
      moved = true;
      try {
        const auto letter = store::decode(*image);
        visit([&](Protocol& protocol, Seconds time) { protocol.receive(letter, time); });
      } catch (const store::LetterRefused& refused) {
        log_.write("letter_refused", {{"reason", refused.reason()}, {"detail", std::string(refused.what())}});
      }
      peer.mailbox.release(lane);
    }
  }
  return moved;
}

// Letters that the protocol wants sent wait for room in their outbox.
void Gateway::dispatch() {
  auto sends = visit([](Protocol& protocol, Seconds) { return protocol.take_sends(); });
  for (auto& [to, letter] : sends) {
    auto& waiting = peers_.at(to).waiting;
    const auto before = waiting.size();
    waiting.add(std::move(letter));
    const std::lock_guard lock(view_mutex_);
    dropped_ += before + 1 - waiting.size();
  }
}

bool Gateway::post(Correspondent& peer) {
  bool moved = false;
  for (const auto lane : {Lane::control, Lane::bulk})
    while (peer.waiting.next([&](const auto& letter) { return lane_of(letter.kind) == lane; },
                             [&](const auto& letter) { return put(peer, lane, letter); }))
      moved = true;
  return moved;
}

// False: the outbox is full.
bool Gateway::put(Correspondent& peer, Lane lane, const store::Letter& letter) {
  const auto room = peer.mailbox.reserve(lane);
  if (!room) return false;
  if (image_bytes(letter) <= room->size())
    peer.mailbox.post(lane, store::encode(letter, *room));
  else
    log_.write("letter_dropped",
               {{"kind", std::string(store::name_of(letter.kind))}, {"reason", std::string("too large")}});
  return true;
}

// Letters go first: what the log says was merged can be read.
void Gateway::record() {
  const std::lock_guard lock(record_mutex_);
  auto [records, notes] =
      visit([](Protocol& protocol, Seconds) { return std::pair(protocol.take_records(), protocol.take_notes()); });
  for (const auto& record : records) keeper_.keep(record);
  for (auto& [event, fields] : notes) log_.write(event, std::move(fields));
}

Standing Gateway::standing() const {
  const std::lock_guard lock(view_mutex_);
  return standing_;
}

Traffic Gateway::traffic() const {
  const std::lock_guard lock(view_mutex_);
  Traffic traffic{.letters_dropped = dropped_};
  for (const auto& [site, peer] : peers_) {
    traffic.bytes_sent += peer.link.wire_sent;
    traffic.bytes_received += peer.link.wire_received;
  }
  return traffic;
}

std::map<SiteId, std::string> Gateway::refusals() const {
  const std::lock_guard lock(view_mutex_);
  std::map<SiteId, std::string> refusals;
  for (const auto& [site, peer] : peers_)
    if (!peer.refusal.empty()) refusals.emplace(site, peer.refusal);
  return refusals;
}

}  // namespace Atoll::federation
