#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atoll/core/event_log.hpp"
#include "atoll/core/quantities.hpp"
#include "atoll/federation/fragment_state.hpp"
#include "atoll/federation/norm_gate.hpp"
#include "atoll/federation/outer_round.hpp"
#include "atoll/federation/pace.hpp"
#include "atoll/outer/merge.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::federation {

/// Where a site goes on from when it has offered a fragment.
enum class AfterOffer {
  own,     ///< its own parameters; the commit moves what is not its own work below them
  eager,   ///< the anchor, moved by the site's own share of the outer step (Kale 2025: eager updates)
  anchor,  ///< the anchor: what was offered comes back with the commit only
};

/// Who merges.
enum class Stewardship {
  first,   ///< the first live site in the order of the federation file
  spread,  ///< the same, but fragment f begins to count at site f: the duty and its traffic are shared
};

/// What the protocol must know; all but `self` and `incarnation` is equal on every site.
struct ProtocolConfig {
  std::string federation;
  Digest configuration;
  std::vector<std::string> sites;  ///< names in the order of the federation file
  SiteId self;
  Incarnation incarnation = 0;

  std::uint32_t quorum = 1;      ///< K: offers that a steward needs at least
  GraceRule grace;               ///< how long it then waits for the other live sites
  Version staleness = 0;         ///< S: an offer may be merged so many versions after its base
  float staleness_decay = 0.5F;  ///< its share in the merge shrinks by this factor for each of them
  double norm_factor = 30;       ///< NormGate; 0: no gate
  Stewardship stewardship = Stewardship::first;
  Seconds status_interval{0.5};
  Seconds catch_up_after{5.0};    ///< how long a peer may be one commit ahead before we ask it for a snapshot
  Seconds resend_after{120.0};    ///< an unanswered offer is sent again
  Seconds ask_again_after{30.0};  ///< an unanswered request for a snapshot is sent again
  Seconds join_patience{120.0};   ///< a donor that lives but sends nothing for so long is given up
  Version far_behind = 4;         ///< from so many missed commits on, the whole model is taken over at once
  outer::WeightRule weights = outer::WeightRule::tokens_per_step;
  outer::Merger merger;
  std::vector<std::vector<outer::Segment>> segments;  ///< by fragment: its tensors; only some merge rules read them
  outer::OuterOptimizer outer;
  bool keeps_progress = true;                ///< false: an adopted anchor replaces local progress (blend with alpha 0)
  AfterOffer after_offer = AfterOffer::own;  ///< other than own needs staleness 0 and keeps_progress
  std::uint64_t total_tokens = 0;            ///< a fragment with so many tokens merged is finished
  bool keeps_letters = false;                ///< fill take_records(); each site's own choice
};

/// "Send this letter to that site."
struct Send {
  SiteId to;
  store::Letter letter;
};

/// "The parameters of this fragment take up that anchor."
struct Adoption {
  FragmentId fragment;
  Version version = 0;
  store::Values anchor;
  store::Values base;        ///< what the local progress is measured from; null: there is none to keep
  std::uint64_t holds = 0;   ///< serial of the newest own offer in `anchor`
  std::uint64_t begins = 0;  ///< serial of the own offer behind which that progress lies
  bool is_start = false;     ///< `anchor` is only where this site goes on from until its offer is answered
};

/// "Write this to the event log."
struct Note {
  std::string event;
  std::vector<LogField> fields;
};

/// "Keep this: a replay repeats the run from it."
struct Record {
  store::Letter letter;               ///< a commit that was applied, or a snapshot as it was taken over
  std::vector<store::Letter> offers;  ///< of the commit, where this site merged them
};

/// The fragment protocol of one site (DESIGN section 3): a state machine without threads, clocks, MPI or files.
///
/// One round of a fragment is src/federation/round.cpp. It takes events, each with the time, and collects actions that
/// the caller takes out and carries out. The same events in the same order give the same actions and the same bits.
/// Local; one thread at a time; owns all anchors and momenta.
class Protocol {
 public:
  Protocol(ProtocolConfig config, std::vector<FragmentState> fragments);

  // Events of the own island.
  /// The island begins to train. Until then it listens and catches up, but merges nothing: a steward that has just come
  /// back must first hear what was committed without it.
  void begin(Seconds now);
  /// The island is about to stop: from here on nothing is merged, so that its last checkpoint stays its last state.
  void rest() { begun_ = false; }
  /// `steps` inner steps of `tokens` tokens each were made.
  void stepped(std::uint64_t tokens, Seconds now, std::uint64_t steps = 1);
  /// Fragment is due: `parameters` are its values now. Nothing happens while may_offer() is false.
  /// The result is the offer's serial, or 0 when nothing was offered.
  std::uint64_t offer(FragmentId fragment, store::Values parameters, Seconds now);
  [[nodiscard]] bool may_offer(FragmentId fragment) const;
  /// The own parameters became unusable (not finite): take the anchors again.
  void discard_progress();

  // Events of the world.
  void receive(const store::Letter& letter, Seconds now);
  /// What the link to a site shows: is its island alive, and which start of it.
  void observe(SiteId site, bool alive, Incarnation incarnation, Seconds now);
  void tick(Seconds now);
  /// An orderly farewell to all.
  void leave();

  // Actions, in the order in which they were decided; taking them empties the list.
  [[nodiscard]] std::vector<Send> take_sends() { return std::exchange(sends_, {}); }
  [[nodiscard]] std::vector<Adoption> take_adoptions() { return std::exchange(adoptions_, {}); }
  [[nodiscard]] std::vector<Note> take_notes() { return std::exchange(notes_, {}); }
  /// To be kept before the notes that were taken with them are written.
  [[nodiscard]] std::vector<Record> take_records() { return std::exchange(records_, {}); }

  // Views.
  [[nodiscard]] const std::vector<FragmentState>& fragments() const noexcept { return fragments_; }
  [[nodiscard]] const ProtocolConfig& config() const noexcept { return config_; }
  /// The first live site that is ready for the duty: it has begun, takes over no model and has told its status.
  [[nodiscard]] SiteId steward(FragmentId f) const;
  [[nodiscard]] std::size_t sites_alive() const;  ///< including this one
  [[nodiscard]] bool joining() const noexcept { return joining_.has_value(); }
  [[nodiscard]] bool has_history() const;
  /// Every live site has told where it is, and we are not behind: a good moment to begin.
  [[nodiscard]] bool settled() const;
  /// All fragments have merged their tokens: nothing is left to train.
  [[nodiscard]] bool finished() const;
  /// Every site that was heard of and took no leave has said that it is finished.
  [[nodiscard]] bool all_finished() const;
  /// Tokens of the whole federation that the model has learned from: merged ones (mean over the fragments) and an
  /// estimate of those under way.
  [[nodiscard]] double progress_tokens() const;
  [[nodiscard]] std::uint64_t tokens_merged() const;  ///< summed over the fragments: the weight of this history
  [[nodiscard]] const std::map<std::string, std::uint64_t>& refused() const noexcept { return refused_; }
  /// Tokens of this site that no anchor will hold, by reason, summed over the fragments.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& tokens_lost() const noexcept { return tokens_lost_; }
  /// Dynamic local updates (Liu 2024, section 5): how many inner steps this site should make while the fastest live one
  /// makes `steps`, so that all offer together.
  [[nodiscard]] std::uint64_t local_steps(std::uint64_t steps) const;

 private:
  struct Peer {
    bool alive = false;
    Incarnation incarnation = 0;
    Incarnation left = 0;  ///< the incarnation that took leave
    std::optional<store::Letter> status;
    std::vector<Version> at;  ///< by fragment: the newest version that it is known to hold; empty: nothing is known
    bool heard = false;       ///< this incarnation has told its status before
    bool heard_since_join = true;  ///< it has told its status since we took over a model
    bool finished = false;         ///< it said so, and is not forgotten when the link breaks
    std::optional<Seconds> ahead_since;
    MovingAverage transfer;  ///< from a commit of ours until it said that it has it
  };
  struct Round {  ///< what a steward has gathered for the next commit of one fragment
    std::map<SiteId, store::Letter> offers;
    std::optional<Seconds> opened_at;  ///< first offer
    std::optional<Seconds> quorum_at;
    std::optional<Seconds> committed_at;  ///< our last commit of this fragment; who has it tells how long it took
    std::optional<Seconds> snapshot_asked_at;
    NormGate norms;
  };
  struct Joining {  ///< taking over the whole model of a site with more history
    SiteId donor;
    Seconds started{};
    Seconds last_letter{};
    std::vector<std::optional<FragmentState>> staged;
    std::size_t bytes = 0;
  };
  enum class Progress { keep, drop };  ///< a site without history has no progress worth keeping
  enum class Line { same, other };     ///< of commits: may an offer that is on its way still be merged there?
  using Offers = std::vector<const store::Letter*>;
  enum class Relation { same, behind_us, ahead_of_us, other_branch };

  [[nodiscard]] bool closed(FragmentId f) const;
  [[nodiscard]] std::vector<SiteId> live_peers() const;
  [[nodiscard]] FragmentState& state(FragmentId f) { return fragments_.at(f.value); }
  [[nodiscard]] const FragmentState& state(FragmentId f) const { return fragments_.at(f.value); }
  [[nodiscard]] std::string name_of(SiteId site) const { return config_.sites.at(site.value); }
  void send(SiteId to, store::Letter letter) { sends_.push_back({to, std::move(letter)}); }

  // notes.cpp: what goes to the event log
  void note(std::string event, std::vector<LogField> fields) {
    notes_.push_back({std::move(event), std::move(fields)});
  }
  void note_offer(FragmentId f);
  void note_commit(const store::Letter& commit, Seconds waited, const Offers& offers);
  void note_taken(FragmentId f, const FragmentState& next);
  void note_lost(FragmentId f, std::uint64_t tokens, const std::string& reason);
  void refuse(const store::Letter& letter, const std::string& reason);

  // letters.cpp: what it writes
  [[nodiscard]] store::Letter letter(store::LetterKind kind) const;
  [[nodiscard]] store::Letter commit_letter(FragmentId f, const Offers& offers, std::span<const float> shares,
                                            const NextAnchor& made) const;
  void send_offer(FragmentId f, Seconds now);
  void send_status(SiteId to);
  void refuse_work(const store::Letter& offer);

  // protocol.cpp: membership, gates
  [[nodiscard]] std::string gate(const store::Letter& letter) const;
  void note_version(SiteId site, FragmentId f, Version version, Seconds now);
  [[nodiscard]] Version version_of(SiteId site, FragmentId f) const;

  // round.cpp: one round of a fragment
  void receive_offer(const store::Letter& letter);
  void merge_if_ready(FragmentId f, Seconds now);
  void merge(FragmentId f, const Offers& offers, Seconds now);
  void receive_commit(const store::Letter& letter, Seconds now);

  // own_work.cpp: what becomes of this site's own work
  void advance(FragmentId f, FragmentState next, Line line, Progress progress);
  void go_on_from_start(FragmentId f);
  [[nodiscard]] store::Values start_of(const FragmentState& s) const;
  void receive_refusal(const store::Letter& letter);
  void discard(FragmentId f, const std::string& reason);

  // steward.cpp: who merges, what and when
  [[nodiscard]] bool may_be_steward(SiteId site) const;
  [[nodiscard]] bool heard_since_join() const;
  [[nodiscard]] bool expected(SiteId site, FragmentId f) const;
  [[nodiscard]] std::string obstacle(const store::Letter& offer) const;
  [[nodiscard]] Offers usable_offers(FragmentId f) const;
  [[nodiscard]] bool waits(FragmentId f, const Offers& offers, Seconds now) const;
  [[nodiscard]] Seconds grace() const;
  [[nodiscard]] std::optional<Seconds> fastest_step() const;
  [[nodiscard]] std::vector<float> shares_of(FragmentId f, const Offers& offers) const;
  [[nodiscard]] bool set_aside(FragmentId f, const Offers& offers, const NextAnchor& made);
  [[nodiscard]] std::span<const outer::Segment> segments(FragmentId f) const;

  // catch_up.cpp: being behind, and helping those who are
  void receive_status(const store::Letter& letter, Seconds now);
  void receive_snapshot_request(const store::Letter& letter, Seconds now);
  void receive_snapshot(const store::Letter& letter, Seconds now);
  [[nodiscard]] bool heavier(SiteId peer, std::optional<FragmentId> told = std::nullopt) const;
  [[nodiscard]] Relation relation(FragmentId f, const store::FragmentStatus& theirs) const;
  enum class Haste { none, at_once };
  void compare(SiteId peer, Seconds now, Haste haste);
  void join(SiteId donor, Seconds now, const std::string& reason);
  void finish_joining(Seconds now);
  [[nodiscard]] bool overtaken(FragmentId f, const FragmentState& staged) const;
  void ask_snapshot(SiteId donor, FragmentId f, Seconds now);
  void adopt_snapshot(FragmentId f, FragmentState next, Line line, Progress progress);
  void forget_common_work(FragmentId f);

  ProtocolConfig config_;
  OuterRound outer_;
  std::vector<FragmentState> fragments_;
  std::vector<Peer> peers_;
  std::vector<Round> rounds_;
  std::optional<Joining> joining_;
  std::optional<Seconds> status_sent_at_;
  bool begun_ = false;
  bool announced_finish_ = false;
  StepClock clock_;
  MovingAverage quorum_wait_;
  std::uint64_t inner_steps_ = 0;
  std::uint64_t offers_made_ = 0;
  std::map<std::string, std::uint64_t> refused_, tokens_lost_;
  std::vector<Send> sends_;
  std::vector<Adoption> adoptions_;
  std::vector<Note> notes_;
  std::vector<Record> records_;
};

}  // namespace Atoll::federation
