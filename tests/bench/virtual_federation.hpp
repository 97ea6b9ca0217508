#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "atoll/app/inner_loop.hpp"
#include "atoll/data/token_file.hpp"
#include "atoll/federation/adoption_queue.hpp"
#include "atoll/federation/protocol.hpp"
#include "convergence_cell.hpp"

namespace Atoll::bench {

struct Outcome {
  std::uint64_t tokens = 0;         ///< that the sites trained on
  std::uint64_t tokens_merged = 0;  ///< of them, in the anchors (mean over the fragments)
  std::uint64_t tokens_lost = 0;    ///< that the protocol counted as lost (mean over the fragments)
  std::uint64_t commits = 0;
  std::uint64_t offers = 0;
  std::map<std::string, std::uint64_t> refused;  ///< letters, by reason
  double virtual_seconds = 0;
  double validation_loss = 0;  ///< of the anchors [nats per token]
};

/// All sites of a cell in this process: real protocols and real training, in virtual time. Local, one thread.
class VirtualFederation {
 public:
  VirtualFederation(const Cell& cell, const app::FederationFile& federation, const data::TokenFile& tokens);

  /// Trains on `total` tokens, lets the letters that are under way arrive, and evaluates the anchors.
  Outcome train(std::uint64_t total, std::uint64_t validation_batches);

 private:
  struct Site {
    app::InnerLoop inner;
    federation::Protocol protocol;
    federation::AdoptionQueue adoptions;
    double progress_tokens = 0;  ///< as of the last exchange
    bool waiting = false;        ///< for a commit that is due
  };
  struct Event {
    double time;
    std::uint64_t number;  ///< events of one time happen in the order in which they were made
    enum class Kind { step, letter, tick } kind;
    std::uint32_t site;
    std::shared_ptr<const store::Letter> letter;
    bool operator<(const Event& other) const {  // the earliest comes first out of a priority_queue
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  void at(double time, Event::Kind kind, std::uint32_t site, std::shared_ptr<const store::Letter> letter = {});
  void go_on(std::uint32_t site);
  void step(std::uint32_t site);
  void exchange(std::uint32_t site);
  void collect(Site& site);
  void take_up(Site& site, const std::vector<federation::Adoption>& adoptions);
  [[nodiscard]] bool is_due(const Site& site, FragmentId f) const;
  [[nodiscard]] bool has_open_round(const Site& site) const;
  void settle(std::uint32_t site);
  void tell(const federation::Protocol& protocol);
  void run(const Event& event);
  void run_next();
  void pass(double seconds);
  void offer(Site& site, FragmentId f);
  void offer_rest();
  [[nodiscard]] std::vector<float> anchors();
  [[nodiscard]] double uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }
  [[nodiscard]] Seconds now() const { return Seconds{now_}; }

  const Cell& cell_;
  const app::FederationFile& federation_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::priority_queue<Event> events_;
  std::uint64_t events_made_ = 0;
  double now_ = 0;
  std::uint64_t total_ = 0;
  std::mt19937_64 random_;
  Outcome outcome_;
};

/// The same training without a federation: one trainer, the whole batch.
[[nodiscard]] Outcome train_data_parallel(const app::FederationFile& federation, const data::TokenFile& tokens,
                                          std::uint64_t total, std::uint64_t validation_batches);

}  // namespace Atoll::bench
