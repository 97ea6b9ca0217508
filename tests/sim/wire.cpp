#include "wire.hpp"

#include <algorithm>
#include <span>

#include "atoll/federation/mailbox_memory.hpp"

namespace Atoll::federation::sim {
namespace {

// Header, and room for any letter of the simulator.
constexpr std::size_t room = sizeof(SlotHeader) + (64 << 10);

std::vector<std::byte> image_of(const store::Letter& letter) {
  std::vector<std::byte> image(room - sizeof(SlotHeader));
  image.resize(store::encode(letter, image));
  return image;
}

}  // namespace

Slot::Slot(const store::Letter& letter, std::uint64_t sequence) : sequence_(sequence), bytes_(sizeof(SlotHeader)) {
  const auto image = image_of(letter);
  SlotHeader header;
  header.sequence = header.sequence_again = sequence;
  header.previous = sequence - 1;
  header.bytes = image.size();
  header.checksum = checksum_of(header, image);
  write_header(bytes_, header);
  bytes_.insert(bytes_.end(), image.begin(), image.end());
}

void Slot::flip(Dice& dice) {
  for (auto left = dice.whole(1, 4); left > 0; --left) {
    // Half of them in the header, which is short.
    const auto last = dice.chance(0.5) ? sizeof(SlotHeader) - 1 : bytes_.size() - 1;
    bytes_[dice.whole(0, last)] ^= std::byte{1} << dice.whole(0, 7);
  }
}

std::optional<store::Letter> Slot::collect() const {
  const auto header = read_header(bytes_);
  if (header.sequence != sequence_ || header.sequence_again != sequence_) return std::nullopt;
  if (header.bytes > bytes_.size() - sizeof header) return std::nullopt;
  const auto image = std::span(bytes_).subspan(sizeof header, header.bytes);
  if (header.checksum != checksum_of(header, image)) return std::nullopt;
  try {
    return store::decode(image);
  } catch (const store::LetterRefused&) {
    return std::nullopt;
  }
}

bool Slot::holds(const store::Letter& letter) const {
  return std::ranges::equal(image_of(letter), std::span(bytes_).subspan(sizeof(SlotHeader)));
}

}  // namespace Atoll::federation::sim
