// What the protocol tells the event log. A replay needs the commits: which offers, in which order, with which weights.
#include "atoll/federation/protocol.hpp"

namespace Atoll::federation {

using store::Letter;

void Protocol::note_offer(FragmentId f) {
  const auto& offer = *state(f).outstanding;
  note("offer", {{"fragment", std::uint64_t{f.value}},
                 {"version", offer.base},
                 {"serial", offer.serial},
                 {"follows", state(f).newest_serial(config_.self)},
                 {"steps", offer.steps},
                 {"tokens", offer.tokens},
                 {"steward", name_of(offer.sent_to)}});
}

void Protocol::note_commit(const Letter& commit, Seconds waited, const Offers& offers) {
  if (config_.keeps_letters) {
    auto& record = records_.emplace_back(Record{commit, {}});
    for (const auto* offer : offers) record.offers.push_back(*offer);
  }
  std::vector<std::string> names;
  std::vector<std::uint64_t> serials, tokens, steps;
  std::vector<double> weights;
  for (const auto& offer : commit.offers) {
    names.push_back(name_of(offer.site));
    serials.push_back(offer.serial);
    tokens.push_back(offer.tokens);
    steps.push_back(offer.steps);
    weights.push_back(offer.weight);
  }
  note("commit", {{"fragment", std::uint64_t{commit.fragment.value}},
                  {"version", commit.version},
                  {"anchor", commit.anchor.hex()},
                  {"steward", name_of(commit.site)},
                  {"offers", names},
                  {"serials", serials},
                  {"offer_tokens", tokens},
                  {"offer_steps", steps},
                  {"weights", weights},
                  {"tokens", commit.tokens},
                  {"seconds", waited.count()}});
}

// The state that is put in place of our own, whichever letters it came from.
void Protocol::note_taken(FragmentId f, const FragmentState& next) {
  note("anchor_taken", {{"fragment", std::uint64_t{f.value}},
                        {"version", next.version},
                        {"anchor", next.digest.hex()},
                        {"tokens", next.tokens_merged}});
  if (!config_.keeps_letters) return;
  auto taken = letter(store::LetterKind::snapshot);
  taken.fragment = f;
  taken.version = next.version;
  taken.anchor = next.digest;
  taken.tokens = next.tokens_merged;
  taken.offers = next.newest;
  taken.fragments = next.recent_line();
  taken.values = next.anchor;
  taken.momentum = next.momentum;
  records_.push_back({std::move(taken), {}});
}

void Protocol::note_lost(FragmentId f, std::uint64_t tokens, const std::string& reason) {
  if (tokens == 0) return;
  tokens_lost_[reason] += tokens;
  note("tokens_lost", {{"fragment", std::uint64_t{f.value}}, {"tokens", tokens}, {"reason", reason}});
}

void Protocol::refuse(const Letter& in, const std::string& reason) {
  ++refused_[reason];
  note("letter_refused", {{"kind", std::string(store::name_of(in.kind))},
                          {"site", in.site.value < peers_.size() ? name_of(in.site) : std::string("unknown")},
                          {"fragment", std::uint64_t{in.fragment.value}},
                          {"version", in.version},
                          {"reason", reason}});
}

}  // namespace Atoll::federation
