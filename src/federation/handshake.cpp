#include "handshake.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "atoll/mpi/error.hpp"

namespace Atoll::federation {
namespace {

constexpr std::uint64_t greeting_magic = 0x4f4c4c4554544154;
constexpr std::uint64_t wire_version = 1;
constexpr int greeting_tag = 1, parting_tag = 2;

/// The first message each way; its first three fields keep their places in all versions.
struct Greeting {
  std::uint64_t magic = greeting_magic;
  std::uint64_t wire = wire_version;
  std::array<char, 32> program{};
  std::array<char, 64> federation{};
  std::array<char, 64> configuration{};
  std::array<char, 64> site{};
  std::array<char, 64> peer{};
  std::uint64_t incarnation = 0;
  std::uint64_t started = 0;  ///< [microseconds since 1970]
  std::array<std::uint64_t, lanes> slots{};
  std::array<std::uint64_t, lanes> slot_bytes{};
};

template <std::size_t size>
void copy(std::array<char, size>& to, const std::string& from) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), size - 1));
}

template <std::size_t size>
std::string text(const std::array<char, size>& from) {
  return {from.data(), strnlen(from.data(), size)};
}

Greeting own_greeting(const ConnectorOptions& options, const MailboxMemory& memory) {
  Greeting greeting;
  copy(greeting.program, options.program_version);
  copy(greeting.federation, options.mailbox.federation);
  copy(greeting.configuration, memory.head().configuration.hex());
  copy(greeting.site, options.mailbox.site);
  copy(greeting.peer, options.mailbox.peer);
  greeting.incarnation = memory.head().incarnation;
  greeting.started = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  greeting.slots = memory.head().slots;
  greeting.slot_bytes = memory.head().slot_bytes;
  return greeting;
}

std::string difference(const char* what, const std::string& ours, const std::string& theirs) {
  return std::string("the sites differ in ") + what + " (ours is " + ours + ", theirs is " + theirs +
         ") give both the same and start again";
}

std::string shape(const Greeting& greeting) {
  return std::to_string(greeting.slots[0]) + "x" + std::to_string(greeting.slot_bytes[0]) + " + " +
         std::to_string(greeting.slots[1]) + "x" + std::to_string(greeting.slot_bytes[1]) + " bytes";
}

std::string refusal(const Greeting& ours, const Greeting& theirs) {
  if (theirs.magic != ours.magic)
    return "the peer is no connector of Atoll (its greeting is foreign) check the program";
  if (theirs.wire != ours.wire)
    return difference("wire version", std::to_string(ours.wire), std::to_string(theirs.wire));
  if (text(theirs.program) != text(ours.program))
    return difference("program version", text(ours.program), text(theirs.program));
  if (text(theirs.federation) != text(ours.federation))
    return difference("federation", text(ours.federation), text(theirs.federation));
  if (text(theirs.site) != text(ours.peer) || text(theirs.peer) != text(ours.site))
    return "the connector met another site (expected " + text(ours.peer) + ", met " + text(theirs.site) +
           " that looks for " + text(theirs.peer) + ") check the federation file's hosts";
  if (text(theirs.configuration) != text(ours.configuration))
    return difference("configuration", text(ours.configuration), text(theirs.configuration));
  if (shape(theirs) != shape(ours)) return difference("mailbox sizes", shape(ours), shape(theirs));
  return {};
}

// Who refuses ends with a status that makes mpirun kill the other side at once. So each waits until the other has noted
// the reason too.
void part_in_agreement(const mpi::Communicator& pair, int peer) try {
  std::byte heard{}, told{};
  auto incoming = pair.receive(std::span(&heard, 1), peer, parting_tag);
  auto outgoing = pair.send(std::span(&told, 1), peer, parting_tag);
  for (int look = 0; look < 1500 && !(incoming.test() & outgoing.test()); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
} catch (const Error&) {
  // It has read our greeting and is gone already.
}

}  // namespace

Agreement shake_hands(const mpi::Communicator& pair, const ConnectorOptions& options, const MailboxMemory& memory,
                      Seconds patience) {
  // After a throw the process makes no MPI call any more, so the requests never touch these again.
  const Greeting ours = own_greeting(options, memory);
  Greeting theirs;
  const int peer = 1 - pair.rank();
  auto incoming = pair.receive(std::as_writable_bytes(std::span(&theirs, 1)), peer, greeting_tag);
  auto outgoing = pair.send(std::as_bytes(std::span(&ours, 1)), peer, greeting_tag);
  const auto end = std::chrono::steady_clock::now() + patience;
  // A peer that refuses us ends at once; its last words may be read a moment later than its death is known.
  int looks_after_death = 0;
  while (!(incoming.test() & outgoing.test())) {
    if (incoming.test() && pair.failed() > 0) break;
    if (pair.failed() > 0 && ++looks_after_death > 50) throw mpi::PeerLost("handshake", 0, "the peer's connector died");
    if (std::chrono::steady_clock::now() > end) throw mpi::PeerLost("handshake", 0, "the peer did not answer in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto reason = refusal(ours, theirs);
  if (!reason.empty()) {
    memory.connector().refusal.write(reason);  // before the other side may end, and this one with it
    part_in_agreement(pair, peer);
  }
  return {ours.started + theirs.started, theirs.incarnation, reason};
}

}  // namespace Atoll::federation
