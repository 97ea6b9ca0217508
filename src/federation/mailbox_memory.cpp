#include "atoll/federation/mailbox_memory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "atoll/core/error.hpp"
#include "atoll/federation/process.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::federation {
namespace {

constexpr std::array<char, 8> magic{'A', 'T', 'O', 'L', 'L', 'M', 'B', 'X'};
constexpr std::uint64_t layout_version = 1;
constexpr std::size_t page = 4096;
constexpr std::size_t gateway_offset = page;
constexpr std::size_t connector_offset = 2 * page;
constexpr std::size_t window_start = 3 * page;

constexpr std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

/// Distance between slots: whole pages, so that the file system can back them one by one.
std::size_t stride(const Geometry& geometry, Lane lane) {
  return (sizeof(SlotHeader) + geometry.slot_bytes[index(lane)] + page - 1) / page * page;
}

std::size_t lane_bytes(const Geometry& geometry, Lane lane) {
  return geometry.slots[index(lane)] * stride(geometry, lane);
}

std::size_t slots_bytes(const Geometry& geometry) {
  return lane_bytes(geometry, Lane::control) + lane_bytes(geometry, Lane::bulk);
}

/// Where the slot lies behind the start of a direction's slots.
std::size_t slot_offset(const Geometry& geometry, Lane lane, std::uint64_t sequence) {
  const std::size_t before = lane == Lane::control ? 0 : lane_bytes(geometry, Lane::control);
  return before + sequence % geometry.slots[index(lane)] * stride(geometry, lane);
}

std::size_t window_bytes(const Geometry& geometry) { return page + slots_bytes(geometry); }
std::size_t outbox_start(const Geometry& geometry) { return window_start + window_bytes(geometry); }
std::size_t file_bytes(const Geometry& geometry) { return outbox_start(geometry) + slots_bytes(geometry); }

/// Copies words that another process may be writing; what is torn is found by numbers and checksums.
template <class Words>
Words read_words(const void* from) {
  static_assert(sizeof(Words) % sizeof(std::uint64_t) == 0);
  std::array<std::uint64_t, sizeof(Words) / sizeof(std::uint64_t)> copy;
  auto* source = static_cast<std::uint64_t*>(const_cast<void*>(from));
  for (std::size_t i = 0; i < copy.size(); ++i)
    copy[i] = std::atomic_ref<std::uint64_t>(source[i]).load(std::memory_order_acquire);
  return std::bit_cast<Words>(copy);
}

std::uint64_t first_word(const Digest& digest) {
  std::uint64_t word = 0;
  std::memcpy(&word, digest.bytes.data(), sizeof word);
  return word;
}

std::uint64_t checksum_of(PeerStatus status) {
  status.checksum = 0;
  return first_word(store::digest_of({std::as_bytes(std::span(&status, 1))}));
}

[[noreturn]] void fail(const std::string& problem, const std::string& file, int error) {
  throw SystemError(problem + " " + file, error, "check space and permissions there");
}

/// While it lives, no other process puts a mailbox below this root or removes one. Better without than not at all:
/// where there are no locks it does nothing.
class RootLock {
 public:
  explicit RootLock(const std::filesystem::path& root)
      : descriptor_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (descriptor_ >= 0 && flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  RootLock(const RootLock&) = delete;
  RootLock& operator=(const RootLock&) = delete;
  ~RootLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 private:
  int descriptor_;
};

/// The name of a file that goes away again unless it was put in its place.
struct Aside {
  std::string name;
  bool placed = false;
  ~Aside() {
    if (!placed) unlink(name.c_str());
  }
};

/// Two islands of one site would both write the gateway's words.
void require_no_living_gateway(const MailboxAddress& address) {
  std::optional<MailboxMemory> old;
  try {
    old = MailboxMemory::open(address);
  } catch (const ConfigError&) {
    return;  // left by another version of the program: replaced
  }
  if (old && old->gateway_alive() && old->head().gateway != process_token(getpid()))
    throw ConfigError("site " + address.site + " has an island on this host already",
                      "its process " + std::to_string(old->head().gateway & 0x3fffff) + " holds " +
                          address.file().string(),
                      "end that one first, or give this one another site's name");
}

/// What the site's other mailboxes may still take: their files are sparse, so the file system counts it as free.
std::size_t promised_to_others(const std::filesystem::path& file) {
  std::size_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path(), error)) {
    struct stat facts {};
    if (entry.path() == file || entry.path().extension() != ".mailbox" || stat(entry.path().c_str(), &facts) != 0)
      continue;
    const auto size = static_cast<std::size_t>(facts.st_size), backed = static_cast<std::size_t>(facts.st_blocks) * 512;
    bytes += size - std::min(size, backed);
  }
  return bytes;
}

/// All slots of the mailbox must fit, with what its predecessor gives back.
void require_space(const std::filesystem::path& file, std::size_t bytes) {
  const auto folder = file.parent_path();
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) return;
  struct stat predecessor {};
  if (stat(file.c_str(), &predecessor) != 0) predecessor.st_blocks = 0;
  const std::size_t free =
      std::size_t{room.f_bavail} * room.f_frsize + static_cast<std::size_t>(predecessor.st_blocks) * 512;
  const std::size_t available = free - std::min(free, promised_to_others(file));
  if (available < bytes)
    throw ConfigError("not enough room for mailboxes in " + folder.string(),
                      std::to_string(bytes >> 20) + " MiB needed, " + std::to_string(available >> 20) + " MiB free",
                      "free some, or choose another folder with --mailboxes");
}

/// Takes memory from the file system now. Returns an error number or 0.
int back(int descriptor, std::size_t offset, std::size_t bytes) {
  int error = EINTR;
  while (error == EINTR)
    error = posix_fallocate(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return error;
}

/// Sizes the file and backs what is read before it was ever written, the words and all slot headers: even to read a
/// hole takes a page of shared memory, and where there is none left the reader dies of SIGBUS.
int size_and_back(int descriptor, const Geometry& geometry) {
  if (ftruncate(descriptor, static_cast<off_t>(file_bytes(geometry))) != 0) return errno;
  int error = back(descriptor, 0, window_start + page);
  for (const std::size_t start : {window_start + page, outbox_start(geometry)})
    for (const Lane lane : {Lane::control, Lane::bulk})
      for (std::uint64_t slot = 0; slot < geometry.slots[index(lane)] && error == 0; ++slot)
        error = back(descriptor, start + slot_offset(geometry, lane, slot), sizeof(SlotHeader));
  return error;
}

}  // namespace

std::filesystem::path MailboxAddress::file() const { return root / federation / site / (peer + ".mailbox"); }

std::filesystem::path default_mailbox_root() { return "/dev/shm/atoll-" + std::to_string(getuid()); }

void Text::write(std::string_view text) {
  std::array<std::uint64_t, std::tuple_size_v<decltype(words_)>> copy{};
  std::memcpy(copy.data(), text.data(), std::min(text.size(), sizeof copy - 1));
  for (std::size_t i = 0; i < copy.size(); ++i) words_[i].store(copy[i], std::memory_order_release);
}

std::string Text::read() const {
  std::array<char, sizeof words_ + 1> copy{};
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t word = words_[i].load(std::memory_order_acquire);
    std::memcpy(copy.data() + i * sizeof word, &word, sizeof word);
  }
  return copy.data();
}

MailboxMemory MailboxMemory::create(const MailboxAddress& address, const Geometry& geometry, Incarnation incarnation,
                                    const Digest& configuration) {
  const auto file = address.file();
  std::filesystem::create_directories(address.root);
  std::filesystem::permissions(address.root, std::filesystem::perms::owner_all);
  const RootLock lock(address.root);
  require_no_living_gateway(address);
  std::filesystem::create_directories(file.parent_path());
  require_space(file, file_bytes(geometry));
  Aside aside{file.string() + ".new"};
  const int descriptor = ::open(aside.name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) fail("cannot create the mailbox", aside.name, errno);
  if (const int error = size_and_back(descriptor, geometry); error != 0) {
    ::close(descriptor);
    fail("cannot size the mailbox", aside.name, error);
  }
  MailboxMemory memory(address, descriptor, file_bytes(geometry));
  new (memory.base_) MailboxHead{.magic = magic,
                                 .layout = layout_version,
                                 .file_bytes = file_bytes(geometry),
                                 .incarnation = incarnation,
                                 .gateway = process_token(getpid()),
                                 .slots = geometry.slots,
                                 .slot_bytes = geometry.slot_bytes,
                                 .configuration = configuration};
  auto& words = *new (memory.base_ + gateway_offset) GatewayWords{};
  new (memory.base_ + connector_offset) ConnectorWords{};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    words.posted[lane] = sequence_base(incarnation);
    words.acknowledged[lane] = sequence_base(incarnation);
  }
  if (rename(aside.name.c_str(), file.c_str()) != 0) fail("cannot put the mailbox in its place", file.string(), errno);
  aside.placed = true;
  return memory;
}

std::optional<MailboxMemory> MailboxMemory::open(const MailboxAddress& address) {
  const auto file = address.file().string();
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (descriptor < 0) fail("cannot open the mailbox", file, errno);
  struct stat facts {};
  const bool sized = fstat(descriptor, &facts) == 0 && facts.st_size >= static_cast<off_t>(window_start);
  if (!sized) ::close(descriptor);
  const auto refuse = [&] [[noreturn]] (const char* why) {
    throw ConfigError(file + " is no mailbox", why, "delete it and start the island again");
  };
  if (!sized) refuse("it is too short");
  MailboxMemory memory(address, descriptor, static_cast<std::size_t>(facts.st_size));
  const auto& head = memory.head();
  if (head.magic != magic) refuse("it starts with other bytes");
  if (head.layout != layout_version) refuse("it was made by another version of atoll");
  if (head.file_bytes != memory.bytes_ || head.slots[0] == 0 || head.slots[1] == 0 ||
      file_bytes(memory.geometry()) != memory.bytes_)
    refuse("its sizes contradict each other");
  return memory;
}

MailboxMemory::MailboxMemory(const MailboxAddress& address, int descriptor, std::size_t bytes)
    : root_(address.root), file_(address.file().string()), descriptor_(descriptor), bytes_(bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    ::close(descriptor);
    fail("cannot map the mailbox", file_, error);
  }
  base_ = static_cast<std::byte*>(base);
}

MailboxMemory::MailboxMemory(MailboxMemory&& other) noexcept
    : root_(std::move(other.root_)),
      file_(std::move(other.file_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MailboxMemory& MailboxMemory::operator=(MailboxMemory&& other) noexcept {
  std::swap(root_, other.root_);
  std::swap(file_, other.file_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MailboxMemory::~MailboxMemory() {
  if (base_) munmap(base_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

const MailboxHead& MailboxMemory::head() const { return *reinterpret_cast<const MailboxHead*>(base_); }
GatewayWords& MailboxMemory::gateway() const { return *reinterpret_cast<GatewayWords*>(base_ + gateway_offset); }
ConnectorWords& MailboxMemory::connector() const {
  return *reinterpret_cast<ConnectorWords*>(base_ + connector_offset);
}
Geometry MailboxMemory::geometry() const { return {head().slots, head().slot_bytes}; }

std::span<std::byte> MailboxMemory::window() const { return {base_ + window_start, window_bytes(geometry())}; }

std::optional<PeerStatus> MailboxMemory::status() const {
  const auto status = read_words<PeerStatus>(base_ + window_start);
  if (status.number == 0 || status.number != status.number_again || status.checksum != checksum_of(status))
    return std::nullopt;
  return status;
}

std::span<std::byte> MailboxMemory::outbox_slot(Lane lane, std::uint64_t sequence) const {
  const auto shape = geometry();
  return {base_ + outbox_start(shape) + slot_offset(shape, lane, sequence), stride(shape, lane)};
}

std::span<std::byte> MailboxMemory::inbox_slot(Lane lane, std::uint64_t sequence) const {
  const auto shape = geometry();
  return {base_ + window_start + window_offset(shape, lane, sequence), stride(shape, lane)};
}

std::uint64_t MailboxMemory::window_offset(const Geometry& geometry, Lane lane, std::uint64_t sequence) {
  return page + slot_offset(geometry, lane, sequence);
}

void MailboxMemory::back_outbox_slot(Lane lane, std::uint64_t sequence) const {
  const auto slot = outbox_slot(lane, sequence);
  const int error = back(descriptor_, static_cast<std::size_t>(slot.data() - base_), slot.size());
  if (error != 0) throw SystemError("no room for a letter in " + file_, error, "free shared memory");
}

bool MailboxMemory::replaced() const {
  struct stat ours {}, there {};
  if (fstat(descriptor_, &ours) != 0 || stat(file_.c_str(), &there) != 0) return true;
  return ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

void MailboxMemory::remove_closed() const {
  const RootLock lock(root_);
  if (!gateway().closed || replaced()) return;
  std::error_code ignored;
  const std::filesystem::path file(file_), site = file.parent_path();
  std::filesystem::remove(file, ignored);
  if (std::filesystem::remove(site, ignored)) std::filesystem::remove(site.parent_path(), ignored);
}

bool MailboxMemory::gateway_alive() const { return alive(head().gateway); }

PeerStatus sealed(PeerStatus status) {
  status.number_again = status.number;
  status.checksum = checksum_of(status);
  return status;
}

SlotHeader read_header(std::span<const std::byte> slot) { return read_words<SlotHeader>(slot.data()); }

void write_header(std::span<std::byte> slot, const SlotHeader& header) {
  std::memcpy(slot.data(), &header, sizeof header);
}

std::uint64_t checksum_of(const SlotHeader& header, std::span<const std::byte> image) {
  const std::array words{header.sequence, header.previous, header.bytes};
  return first_word(store::digest_of({std::as_bytes(std::span(words)), image}));
}

}  // namespace Atoll::federation
