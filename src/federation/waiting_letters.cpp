#include "atoll/federation/waiting_letters.hpp"

#include <algorithm>

namespace Atoll::federation {
namespace {

using store::Letter;
using store::LetterKind;

// Beyond that the oldest is dropped, and a snapshot will make up for it.
constexpr std::size_t most = 256;

}  // namespace

void WaitingLetters::add(Letter letter) {
  const auto same = [&](LetterKind kind) {
    return [&letter, kind](const Letter& old) { return old.kind == kind && old.fragment == letter.fragment; };
  };
  if (letter.kind == LetterKind::snapshot) std::erase_if(letters_, same(LetterKind::commit));
  const auto older = std::ranges::find_if(letters_, same(letter.kind));
  if (letter.kind == LetterKind::commit) {
    if (std::ranges::count_if(letters_, same(LetterKind::commit)) >= 2)
      std::erase_if(letters_, same(LetterKind::commit));
  } else if (older != letters_.end()) {
    *older = std::move(letter);
    return;
  }
  letters_.push_back(std::move(letter));
  if (letters_.size() > most) letters_.pop_front();
}

}  // namespace Atoll::federation
