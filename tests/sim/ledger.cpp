#include "ledger.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <format>

namespace Atoll::federation::sim {
namespace {

// FNV-1a over the bits of the values.
std::uint64_t hash_of(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3U;
  return hash;
}

}  // namespace

std::size_t Ledger::Hash::operator()(const Digest& digest) const {
  std::size_t hash = 0;
  std::memcpy(&hash, digest.bytes.data(), sizeof hash);
  return hash;
}

void Ledger::begin(FragmentId f, const FragmentState& initial) {
  if (entries_.size() <= f.value) {
    entries_.resize(f.value + 1);
    by_bits_.resize(f.value + 1);
    ever_.resize(f.value + 1);
  }
  entries_[f.value][initial.digest] = {0, {}, initial.anchor, 0, {}};
  by_bits_[f.value][hash_of(*initial.anchor)] = initial.digest;
}

void Ledger::offered(std::uint32_t site, std::uint64_t serial, std::uint64_t tokens, std::uint64_t tokens_per_step,
                     const Contents& gradient) {
  if (!gradient.once())
    throw Broken(std::format("offer {} of site{} does not hold each step once:{}", serial, site, gradient.text()));
  if (tokens > gradient.total() * tokens_per_step)
    throw Broken(
        std::format("offer {} of site{} claims {} tokens and holds {} steps", serial, site, tokens, gradient.total()));
  offers_.emplace(std::pair{site, serial}, gradient);
}

void Ledger::committed(FragmentId f, Version version, const Digest& parent, const Digest& digest,
                       const store::Values& anchor, std::uint64_t tokens_merged, const Offers& offers) {
  const auto& before = entries_[f.value].at(parent);
  auto contents = before.contents;
  for (const auto& offer : offers) {
    const auto known = offers_.find(offer);
    if (known == offers_.end())
      throw Broken(std::format("offer {} of site{} was never made", offer.second, offer.first));
    contents += known->second;
  }
  if (!contents.once())
    throw Broken(
        std::format("fragment {} version {} does not hold each step once:{}", f.value, version, contents.text()));
  const auto [place, fresh] = entries_[f.value].try_emplace(digest);
  if (!fresh) {
    if (place->second.contents != contents) throw Broken(std::format("fragment {}: one digest, two lineages", f.value));
    return;
  }
  ever_[f.value].unite(contents);
  place->second = {version, parent, anchor, tokens_merged, std::move(contents)};
  by_bits_[f.value][hash_of(*anchor)] = digest;
}

const Ledger::Entry& Ledger::entry(FragmentId f, const FragmentState& state) const {
  const auto found = entries_[f.value].find(state.digest);
  if (found == entries_[f.value].end())
    throw Broken(std::format("fragment {} version {}: nobody committed this", f.value, state.version));
  const auto& entry = found->second;
  if (entry.version != state.version || *entry.anchor != *state.anchor || entry.tokens_merged != state.tokens_merged)
    throw Broken(
        std::format("fragment {} version {}: one digest, but other bits, version or tokens", f.value, state.version));
  return entry;
}

const Contents& Ledger::contents(FragmentId f, const store::Values& anchor) const {
  const auto found = by_bits_[f.value].find(hash_of(*anchor));
  if (found == by_bits_[f.value].end()) throw Broken(std::format("fragment {}: an anchor of nobody", f.value));
  return entries_[f.value].at(found->second).contents;
}

bool Ledger::descends(FragmentId f, const Digest& younger, const Digest& older, Version older_version) const {
  auto at = younger;
  while (true) {
    if (at == older) return true;
    const auto& entry = entries_[f.value].at(at);
    if (entry.version <= older_version) return false;
    at = entry.parent;
  }
}

}  // namespace Atoll::federation::sim
