// A gateway without an island: posts numbered letters to a peer that does the same, and checks all that arrive.
//   letter_pump ROOT FEDERATION SITE PEER SECONDS LEAST_BYTES MOST_BYTES PAUSE_SECONDS CONFIGURATION
// Letters of random sizes between the bounds go through both lanes, each as soon as there is room, or once in
// PAUSE_SECONDS; MOST_BYTES 0 posts nothing. Prints two lines of JSON a second and a last one with "last": true.
// SIGUSR1 or the end of SECONDS stops the posting; SIGTERM ends it in good order. Status 0: every letter that came was
// whole, in order and came once.

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "atoll/federation/mailbox.hpp"

namespace {

using namespace Atoll;
using federation::Lane;

volatile std::sig_atomic_t stop = 0, quiet = 0;

/// First words of every image; the rest is a pattern that depends on them.
struct Stamp {
  std::uint64_t incarnation, number, bytes;
};

void fill(std::span<std::byte> image, const Stamp& stamp) {
  std::memcpy(image.data(), &stamp, sizeof stamp);
  std::uint64_t word = stamp.number * 0x9e3779b97f4a7c15 + stamp.incarnation;
  for (std::size_t at = sizeof stamp; at + 8 <= image.size(); at += 8, word += 0x1003)
    std::memcpy(&image[at], &word, 8);
}

struct LaneRecord {
  std::uint64_t posted = 0, taken = 0, from = 0, next = 0;
  std::uint64_t damaged = 0, lost = 0, doubled = 0;

  void check(std::span<const std::byte> image) {
    Stamp stamp{};
    if (image.size() >= sizeof stamp) std::memcpy(&stamp, image.data(), sizeof stamp);
    bool whole = stamp.bytes == image.size();
    std::uint64_t word = stamp.number * 0x9e3779b97f4a7c15 + stamp.incarnation;
    for (std::size_t at = sizeof stamp; whole && at + 8 <= image.size(); at += 8, word += 0x1003)
      whole = std::memcmp(&image[at], &word, 8) == 0;
    damaged += !whole;
    ++taken;
    if (stamp.incarnation != from) next = stamp.number;  // a new sender, or we are new
    from = stamp.incarnation;
    if (stamp.number > next) lost += stamp.number - next;
    if (stamp.number < next) ++doubled;
    next = stamp.number + 1;
  }
};

class Pump {
 public:
  Pump(const federation::MailboxAddress& address, std::size_t least, std::size_t most, Seconds pause,
       unsigned configuration)
      : incarnation_(static_cast<Incarnation>(std::chrono::system_clock::now().time_since_epoch() /
                                              std::chrono::microseconds(1))),
        mailbox_(address, {{32, 4}, {64 << 10, std::max<std::size_t>(most, 64 << 10)}}, incarnation_,
                 {{static_cast<std::byte>(configuration)}}),
        least_(std::max(least, sizeof(Stamp))),
        most_(most),
        pause_(pause),
        random_(incarnation_) {}

  bool step(Seconds now) {
    mailbox_.beat(now);
    const auto link = mailbox_.link();
    if (link.up && !was_up_ && down_since_.count() != 0) longest_down_ = std::max(longest_down_, now - down_since_);
    if (!link.up && was_up_) down_since_ = now;
    was_up_ = link.up;
    bool moved = false;
    for (const auto lane : {Lane::control, Lane::bulk}) {
      moved |= take(lane);
      moved |= post(lane, now);
    }
    return moved;
  }

  void print(Seconds now, const char* last) const {
    const auto link = mailbox_.link();
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    std::printf(
        "{\"time\": %.2f, \"up\": %s, \"peer_alive\": %s, \"sessions\": %lu, "
        "\"posted\": [%lu, %lu], \"taken\": [%lu, %lu], "
        "\"damaged\": %lu, \"lost\": %lu, \"doubled\": %lu, \"torn\": %lu, \"delivered\": %lu, "
        "\"outstanding\": %lu, \"round_trip\": %.6f, \"payload_sent\": %lu, \"wire_sent\": %lu, "
        "\"payload_received\": %lu, \"longest_down\": %.2f, \"cpu\": %.3f, \"refusal\": \"%s\", \"last\": %s}\n",
        now.count(), link.up ? "true" : "false", link.peer_alive ? "true" : "false", link.sessions, lanes_[0].posted,
        lanes_[1].posted, lanes_[0].taken, lanes_[1].taken, lanes_[0].damaged + lanes_[1].damaged,
        lanes_[0].lost + lanes_[1].lost, lanes_[0].doubled + lanes_[1].doubled, link.torn, link.letters_delivered,
        mailbox_.outstanding(Lane::control) + mailbox_.outstanding(Lane::bulk), link.round_trip.count(),
        link.payload_sent, link.wire_sent, link.payload_received, longest_down_.count(),
        seconds(used.ru_utime) + seconds(used.ru_stime), mailbox_.refusal().c_str(), last);
    std::fflush(stdout);
  }

  [[nodiscard]] bool right() const {
    for (const auto& lane : lanes_)
      if (lane.damaged + lane.lost + lane.doubled != 0) return false;
    return true;
  }
  void stop_posting() { most_ = 0; }
  void close() { mailbox_.close(); }

 private:
  bool take(Lane lane) {
    const auto image = mailbox_.collect(lane);
    if (!image) return false;
    lanes_[static_cast<std::size_t>(lane)].check(*image);
    mailbox_.release(lane);
    return true;
  }

  bool post(Lane lane, Seconds now) {
    auto& last = last_post_[static_cast<std::size_t>(lane)];
    if (most_ == 0 || now - last < pause_) return false;
    const auto room = mailbox_.reserve(lane);
    if (!room) return false;
    const std::size_t most = std::min(most_, room->size());
    const auto bytes = std::uniform_int_distribution<std::size_t>(std::min(least_, most), most)(random_);
    auto& record = lanes_[static_cast<std::size_t>(lane)];
    fill(room->first(bytes), {incarnation_, record.posted, bytes});
    mailbox_.post(lane, bytes);
    ++record.posted;
    last = now;
    return true;
  }

  Incarnation incarnation_;
  federation::Mailbox mailbox_;
  std::size_t least_, most_;
  Seconds pause_;
  std::mt19937_64 random_;
  LaneRecord lanes_[2];
  Seconds last_post_[2]{};
  bool was_up_ = false;
  Seconds down_since_{}, longest_down_{};
};

Seconds clock_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) return std::fputs("see the head of letter_pump.cpp\n", stderr), 64;
  std::signal(SIGTERM, [](int) { stop = 1; });
  std::signal(SIGUSR1, [](int) { quiet = 1; });
  const auto number = [&](int index) { return std::strtod(argv[index], nullptr); };
  Pump pump({argv[1], argv[2], argv[3], argv[4]}, static_cast<std::size_t>(number(6)),
            static_cast<std::size_t>(number(7)), Seconds(number(8)), static_cast<unsigned>(number(9)));
  const Seconds start = clock_now();
  Seconds printed = start;
  while (stop == 0) {
    const Seconds now = clock_now();
    const bool moved = pump.step(now);
    if (now - printed > Seconds(0.5)) pump.print(now - start, "false"), printed = now;
    if (quiet != 0 || now - start > Seconds(number(5))) pump.stop_posting();
    if (!moved) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pump.print(clock_now() - start, "true");
  pump.close();
  return pump.right() ? 0 : 1;
}
