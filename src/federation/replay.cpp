#include "atoll/federation/replay.hpp"

#include <algorithm>
#include <bit>
#include <format>
#include <span>

#include "atoll/core/error.hpp"
#include "atoll/federation/repeat.hpp"

namespace Atoll::federation {
namespace {

using store::Letter;

std::string described(const LoggedEvent& event) {
  const auto of_fragment = [&](const char* what) {
    return std::format("{} of fragment {} to version {}", what, event.number("fragment"), event.number("version"));
  };
  if (event.name() == "commit") return of_fragment("commit");
  if (event.name() == "anchor_taken") return of_fragment("snapshot");
  return event.name();
}

std::string commit_key(const LoggedEvent& event) {
  return std::format("commit {} {} {}", event.number("fragment"), event.number("version"), event.text("anchor"));
}

std::string snapshot_key(const LoggedEvent& event) {
  return std::format("snapshot {} {} {}", event.number("fragment"), event.number("version"), event.text("anchor"));
}

std::string offer_key(std::uint64_t fragment, const std::string& site, std::uint64_t serial) {
  return std::format("offer {} {} {}", fragment, site, serial);
}

// What a line "kept" or "not_kept" speaks of.
std::string key_of(const LoggedEvent& kept) {
  const auto& kind = kept.text("kind");
  if (kind == "offer") return offer_key(kept.number("fragment"), kept.text("site"), kept.number("serial"));
  return kind == "commit" ? commit_key(kept) : snapshot_key(kept);
}

std::string bits(float value) {
  return std::format("{} ({:08x})", value, std::bit_cast<std::uint32_t>(value));
}

// Thrown and caught in this file.
struct Differs {
  Difference difference;
};

[[noreturn]] void differs(const LoggedEvent& event, const std::string& what, const std::string& expected,
                          const std::string& found) {
  throw Differs{{event.line(), described(event), what, expected, found}};
}

void expect(const LoggedEvent& event, const std::string& what, const std::string& expected, const std::string& found) {
  if (expected != found) differs(event, what, expected, found);
}

void expect(const LoggedEvent& event, const std::string& what, std::uint64_t expected, std::uint64_t found) {
  if (expected != found) differs(event, what, std::to_string(expected), std::to_string(found));
}

void expect_equal_bits(const LoggedEvent& event, std::span<const float> expected, std::span<const float> found) {
  const auto same = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
  const auto [ours, theirs] = std::ranges::mismatch(expected, found, same);
  if (ours != expected.end())
    differs(event, std::format("merged gradient at value {}", ours - expected.begin()), bits(*ours), bits(*theirs));
}

// What the line says of the commit must be what the letter says.
void expect_same_commit(const LoggedEvent& event, const Letter& commit, const std::vector<std::string>& sites) {
  const auto names = event.texts("offers");
  const auto serials = event.numbers("serials"), tokens = event.numbers("offer_tokens"),
             steps = event.numbers("offer_steps");
  const auto count = commit.offers.size();
  for (const auto size : {names.size(), serials.size(), tokens.size(), steps.size(), event.reals("weights").size()})
    expect(event, "number of offers", count, size);
  if (count == 0) differs(event, "number of offers", "1 at least", "0");
  for (std::size_t i = 0; i < count; ++i) {
    const auto& offer = commit.offers[i];
    const auto of_offer = [&](const char* what) { return std::format("{} of offer {}", what, i); };
    if (offer.tokens == 0) differs(event, of_offer("tokens"), "1 at least", "0");
    expect(event, of_offer("site"), offer.site.value < sites.size() ? sites[offer.site.value] : "unknown", names[i]);
    expect(event, of_offer("serial"), offer.serial, serials[i]);
    expect(event, of_offer("tokens"), offer.tokens, tokens[i]);
    expect(event, of_offer("steps"), offer.steps, steps[i]);
  }
  expect(event, "steward", sites.at(commit.site.value), event.text("steward"));
  expect(event, "version in the letter", event.number("version"), commit.version);
  expect(event, "digest in the letter", event.text("anchor"), commit.anchor.hex());
  expect(event, "tokens merged in the letter", event.number("tokens"), commit.tokens);
}

void expect_rule_weights(const LoggedEvent& event, const std::vector<float>& rule, const Letter& commit) {
  const auto names = event.texts("offers");
  const auto logged = event.reals("weights");
  for (std::size_t i = 0; i < rule.size(); ++i) {
    if (logged[i] != static_cast<double>(rule[i]))
      differs(event, "weight of the offer of " + names[i], bits(rule[i]), std::format("{}", logged[i]));
    expect(event, "weight in the letter of the offer of " + names[i], bits(rule[i]), bits(commit.offers[i].weight));
  }
}

void expect_size(const LoggedEvent& event, const std::string& what, const store::Values& expected,
                 const store::Values& found) {
  expect(event, "values of " + what, expected->size(), found ? found->size() : 0);
}

}  // namespace

Repeated Replay::run() {
  for (const auto& event : events_) {
    try {
      follow(event);
    } catch (const Differs& differs) {
      done_.difference = differs.difference;
    } catch (const Error& error) {  // fields that are missing or of another type
      done_.difference = Difference{event.line(), event.name(), "the line", "one that Atoll wrote", error.what()};
    }
    if (done_.difference) break;
    const auto lines = static_cast<double>(std::max<std::uint64_t>(done_.lines, 1));
    if (input_.progress) input_.progress(done_, static_cast<double>(event.line()) / lines);
  }
  return done_;
}

void Replay::follow(const LoggedEvent& event) {
  const auto& name = event.name();
  if (name.empty() && !ends_a_start(event))
    throw Differs{{event.line(), "an event", "the line", "a JSON object", "none; it was cut or changed"}};
  if (name == "kept" || name == "not_kept") kept_.insert_or_assign(key_of(event), event);
  if (name == "opened") follow_opened(event);
  if (name == "commit" && !skipped(event)) follow_commit(event);
  if (name == "anchor_taken" && !skipped(event)) follow_snapshot(event);
  if (name == "checkpoint" || name == "end") check_standing(event);
}

// A kill or a full disk cuts the last line of a start; the next start ends that line and writes on.
bool Replay::ends_a_start(const LoggedEvent& cut) const {
  const auto next = std::ranges::upper_bound(events_, cut.line(), {}, &LoggedEvent::line);
  return next != events_.end() && next->line() == cut.line() + 1 &&
         (next->name() == "opened" || next->name() == "checkpoint_skipped");
}

// An island goes on where its checkpoint was, which may lie behind what the log had reached.
void Replay::follow_opened(const LoggedEvent& event) {
  keeps_all_ = event.text("keep_letters") == name_of(KeepLetters::all);
  const auto versions = event.numbers("versions");
  const auto anchors = event.texts("anchors");
  expect(event, "fragments", done_.fragments.size(), versions.size());
  expect(event, "fragments", done_.fragments.size(), anchors.size());
  bool counts = false;
  for (std::uint32_t f = 0; f < versions.size(); ++f) {
    if (event.line() <= begins_after_[f]) continue;
    counts = true;
    const auto place = wanted_.find({f, versions[f], anchors[f]});
    const auto& state = done_.fragments[f];
    if (place == wanted_.end() || !place->second.reached)
      differs(event, std::format("fragment {}", f),
              std::format("a state that was reached before; the last one is version {} with digest {}", state.version,
                          state.digest.hex()),
              std::format("version {} with digest {}", versions[f], anchors[f]));
    passed_[f].clear();
    put({f}, *place->second.reached);
    if (--place->second.starts == 0) wanted_.erase(place);
  }
  done_.starts += counts ? 1 : 0;
}

void Replay::follow_commit(const LoggedEvent& event) {
  const auto& state = state_of(event);
  expect(event, "version", state.version + 1, event.number("version"));
  const auto commit = letter(event, commit_key(event));
  if (!commit) differs(event, "its letter", "a file in " + input_.letters.string(), why_missing(commit_key(event)));
  expect_same_commit(event, *commit, input_.config.sites);
  expect(event, "parent", state.digest.hex(), commit->parent.hex());
  expect_size(event, "the commit", state.anchor, commit->values);
  const auto offers = offers_of(event, *commit);
  auto repeated = repeat(input_.config, state, *commit, offers);
  expect_rule_weights(event, repeated.weights, *commit);
  if (repeated.merged) expect_equal_bits(event, *repeated.merged, *commit->values);
  expect(event, "digest", repeated.next.digest.hex(), event.text("anchor"));
  expect(event, "tokens merged", repeated.next.tokens_merged, event.number("tokens"));
  ++(repeated.merged ? done_.merges : done_.commits);
  put(fragment_of(event), std::move(repeated.next));
}

// The offers that the commit names, where this site merged them and kept them.
std::vector<Letter> Replay::offers_of(const LoggedEvent& event, const Letter& commit) {
  std::vector<Letter> offers;
  for (const auto& record : commit.offers) {
    const auto& site = input_.config.sites.at(record.site.value);
    auto offer = letter(event, offer_key(commit.fragment.value, site, record.serial));
    if (!offer && must_have_kept(event, site, record.serial))
      differs(event, "offer of " + site, "a line 'kept' or 'not_kept'", "none");
    if (!offer) return {};
    const auto of_offer = [&](const char* what) {
      return std::string(what) + " in the letter of the offer of " + site;
    };
    expect(event, of_offer("serial"), record.serial, offer->serial);
    expect(event, of_offer("tokens"), record.tokens, offer->tokens);
    expect(event, of_offer("steps"), record.steps, offer->steps);
    const auto& state = state_of(event);
    if (offer->version > state.version || offer->version + input_.config.staleness < state.version)
      differs(event, of_offer("base version"), std::to_string(state.version), std::to_string(offer->version));
    if (const auto base = state.digest_at(offer->version))
      expect(event, of_offer("base digest"), base->hex(), offer->parent.hex());
    expect_size(event, "the offer of " + site, commit.values, offer->values);
    offers.push_back(std::move(*offer));
  }
  return offers;
}

void Replay::follow_snapshot(const LoggedEvent& event) {
  const auto& state = state_of(event);
  const auto snapshot = letter(event, snapshot_key(event));
  if (!snapshot) differs(event, "its letter", "a file in " + input_.letters.string(), why_missing(snapshot_key(event)));
  expect_size(event, "the snapshot's anchor", state.anchor, snapshot->values);
  expect_size(event, "the snapshot's momentum", state.momentum, snapshot->momentum);
  expect(event, "version in the letter", event.number("version"), snapshot->version);
  expect(event, "tokens merged in the letter", event.number("tokens"), snapshot->tokens);
  auto next = state.taken_over(*snapshot);
  expect(event, "digest", next.digest.hex(), event.text("anchor"));
  ++done_.snapshots;
  put(fragment_of(event), std::move(next));
}

// The letter as it was kept, or nothing when it was not kept.
std::optional<Letter> Replay::letter(const LoggedEvent& event, const std::string& key) const {
  const auto line = kept_.find(key);
  if (line == kept_.end() || line->second.name() == "not_kept") return std::nullopt;
  const auto& kept = line->second;
  try {
    return letters_.read({kept.text("file"), Digest::from_hex(kept.text("digest")), kept.number("bytes")});
  } catch (const store::Error& error) {
    differs(event, "its letter " + kept.text("file"), "as it was kept at line " + std::to_string(kept.line()),
            error.what());
  }
}

// A steward that keeps all says of every offer whether it is there.
bool Replay::must_have_kept(const LoggedEvent& event, const std::string& site, std::uint64_t serial) const {
  return keeps_all_ && event.text("steward") == done_.site &&
         !kept_.contains(offer_key(event.number("fragment"), site, serial));
}

std::string Replay::why_missing(const std::string& key) const {
  const auto line = kept_.find(key);
  if (line == kept_.end()) return "the log says nothing of a letter that was kept";
  return std::format("not kept, says line {}: {}", line->second.line(), line->second.text("reason"));
}

// Events that tell where all fragments stood, at their time or a moment before it.
void Replay::check_standing(const LoggedEvent& event) {
  const auto versions = event.numbers("versions");
  const auto anchors = event.texts(event.name() == "end" ? "digests" : "anchors");
  expect(event, "fragments", done_.fragments.size(), versions.size());
  expect(event, "fragments", done_.fragments.size(), anchors.size());
  bool compared = false;
  for (std::uint32_t f = 0; f < versions.size(); ++f) {
    // A checkpoint's line may name a state of a moment before it, older than the one that the replay begins at.
    if (event.line() <= begins_after_[f] || versions[f] < input_.beginning[f].version) continue;
    compared = true;
    if (passed_[f].contains({versions[f], anchors[f]})) continue;
    const auto& state = done_.fragments[f];
    differs(event, std::format("fragment {}", f),
            std::format("version {} with digest {}, or one before it", state.version, state.digest.hex()),
            std::format("version {} with digest {}", versions[f], anchors[f]));
  }
  done_.checked += compared ? 1 : 0;
}

std::optional<Difference> Replay::compare(const std::string& name, const std::vector<FragmentState>& fragments) const {
  for (std::uint32_t f = 0; f < fragments.size(); ++f) {
    const auto& theirs = fragments[f];
    const auto& state = done_.fragments.at(f);
    if (passed_[f].contains({theirs.version, theirs.digest.hex()})) continue;
    return Difference{done_.lines, "the end of the log", std::format("fragment {} of {}", f, name),
                      std::format("version {} with digest {}, or one before it", state.version, state.digest.hex()),
                      std::format("version {} with digest {}", theirs.version, theirs.digest.hex())};
  }
  return std::nullopt;
}

FragmentId Replay::fragment_of(const LoggedEvent& event) const {
  const auto f = event.number("fragment");
  if (f >= done_.fragments.size())
    differs(event, "fragment", "below " + std::to_string(done_.fragments.size()), std::to_string(f));
  return {static_cast<std::uint32_t>(f)};
}

const FragmentState& Replay::state_of(const LoggedEvent& event) const {
  return done_.fragments[fragment_of(event).value];
}

void Replay::put(FragmentId f, FragmentState next) {
  passed_[f.value].emplace(next.version, next.digest.hex());
  if (const auto place = wanted_.find({f.value, next.version, next.digest.hex()}); place != wanted_.end())
    place->second.reached = next;
  done_.fragments[f.value] = std::move(next);
}

}  // namespace Atoll::federation
