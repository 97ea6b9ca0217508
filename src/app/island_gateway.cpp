#include "atoll/app/island_gateway.hpp"

#include <algorithm>
#include <chrono>
#include <format>
#include <iterator>
#include <thread>

#include "atoll/app/resume.hpp"
#include "atoll/core/error.hpp"
#include "atoll/federation/replay.hpp"

namespace Atoll::app {
namespace {

using federation::Gateway;
using federation::Protocol;
using namespace std::chrono_literals;

// The serial of an offer is the incarnation and how many offers this start has made: so many it may make. Not more than
// needed: a start that comes within so many microseconds runs ahead of the clock, which another folder does not know.
constexpr Incarnation most_offers = 10'000'000;

// The time of this start; later than any earlier one of this run and its offers, even where the clock was set back
// meanwhile: the others would take this island for an old one, for ever, or a new offer for an old one.
Incarnation this_incarnation(const std::vector<federation::FragmentState>& fragments, SiteId self,
                             RunDirectory& directory) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto incarnation = static_cast<Incarnation>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  if (const auto last = directory.last_start(); last > 0) incarnation = std::max(incarnation, last + most_offers);
  for (const auto& s : fragments) {
    incarnation = std::max(incarnation, s.newest_serial(self) + 1);
    if (s.outstanding) incarnation = std::max(incarnation, s.outstanding->serial + 1);
  }
  directory.leave(RunDirectory::start_file, std::to_string(incarnation) + "\n");
  return incarnation;
}

std::map<SiteId, federation::Mailbox> mailboxes_for(const FederationFile& federation, const IslandOptions& options,
                                                    const outer::FragmentPlan& plan, SiteId self,
                                                    Incarnation incarnation) {
  std::size_t largest = 0;
  for (std::uint32_t f = 0; f < plan.count(); ++f) largest = std::max(largest, plan.size({f}));
  const auto slots = federation.protocol.outer.slots();
  const auto geometry = federation::geometry_for(largest, slots, plan.count(), federation.sites.size());
  const auto& own = federation.sites[self.value].mailboxes;
  const auto root = !options.mailboxes.empty() ? options.mailboxes
                    : own.empty()              ? federation::default_mailbox_root()
                                               : std::filesystem::path(own);
  std::map<SiteId, federation::Mailbox> mailboxes;
  for (std::uint32_t peer = 0; peer < federation.sites.size(); ++peer) {
    if (peer == self.value) continue;
    const federation::MailboxAddress address{root, federation.name, options.site, federation.sites[peer].name};
    mailboxes.emplace(SiteId{peer}, federation::Mailbox(address, geometry, incarnation, federation.configuration));
  }
  return mailboxes;
}

Protocol protocol_for(federation::ProtocolConfig config, std::vector<federation::FragmentState> fragments, SiteId self,
                      Incarnation incarnation, federation::KeepLetters letters) {
  config.self = self;
  config.incarnation = incarnation;
  config.keeps_letters = letters != federation::KeepLetters::none;
  return {std::move(config), std::move(fragments)};
}

}  // namespace

IslandGateway::IslandGateway(const FederationFile& federation, const IslandOptions& options,
                             const data::TokenFile& tokens, RunDirectory& directory, EventLog& log, InnerLoop& inner,
                             std::vector<federation::FragmentState> fragments, StopRequest& stop, int ranks)
    : federation_(federation),
      options_(options),
      directory_(directory),
      log_(log),
      inner_(inner),
      stop_(stop),
      site_(federation.site(options.site)),
      ranks_(ranks),
      resumed_at_(inner.steps()),
      gateway_(make_gateway(std::move(fragments))),
      outer_(federation, inner, gateway_),
      report_(federation, options, tokens, inner, outer_, gateway_, log),
      saved_at_(inner.steps()),
      evaluated_at_(inner.steps()) {
  directory_.leave("federation.ini.resolved", federation.resolved);
}

Gateway IslandGateway::make_gateway(std::vector<federation::FragmentState> fragments) {
  const auto incarnation = this_incarnation(fragments, site_, directory_);
  return Gateway(protocol_for(protocol_config(federation_, inner_.plan()), std::move(fragments), site_, incarnation,
                              options_.keep_letters),
                 mailboxes_for(federation_, options_, inner_.plan(), site_, incarnation), log_, make_keeper());
}

federation::RecordKeeper IslandGateway::make_keeper() {
  // A checkpoint holds the parameters, two moments, anchor, momentum and an offer; letters leave room for two of them.
  const std::uint64_t reserve = 2 * 6 * sizeof(float) * inner_.trainer().parameter_count();
  return {options_.keep_letters, store::LetterFolder(directory_.letters(), reserve), federation_.protocol.sites, log_};
}

void IslandGateway::gather() {
  const auto deadline = Gateway::now() + options_.gather;
  const auto ready = [&](Protocol& protocol, Seconds) {
    // A new federation begins together; a site that comes back needs but one that tells it what it missed.
    const auto needed =
        protocol.has_history() ? std::min<std::size_t>(2, federation_.sites.size()) : federation_.sites.size();
    return protocol.sites_alive() >= needed && protocol.settled();
  };
  if (!gateway_.visit(ready) && options_.gather > Seconds{0})
    report_.say(std::format("waits up to {:.0f} s for the other sites", options_.gather.count()));
  while (!gateway_.visit(ready) && Gateway::now() < deadline && !stop_.arrived()) {
    for (const auto& [site, reason] : gateway_.refusals())
      throw ConfigError("site '" + federation_.sites[site.value].name + "' cannot train with this site", reason,
                        "give both sites the same federation file and program");
    std::this_thread::sleep_for(5ms);
  }
  if (federation_.sites.size() > 1 && gateway_.standing().sites_alive == 1 && !stop_.arrived())
    report_.say("no other site is there; trains alone until one comes (this needs `atoll links` beside the island)");
  gateway_.visit([](Protocol& protocol, Seconds now) { protocol.begin(now); });
  report_.started(resumed_at_, ranks_);
}

Order IslandGateway::between_steps(std::set<FragmentId>& changed) {
  changed = outer_.between_steps();
  note_adopted(changed);
  warn_of_refusals();
  if (stop_.arrived()) return Order::stop;
  const auto due = [&](std::uint64_t every, std::uint64_t& last) {
    if (every == 0 || inner_.steps() < last + every) return false;
    last = inner_.steps();
    return true;
  };
  if (due(options_.evaluate_every, evaluated_at_)) report_.evaluate();
  if (due(options_.checkpoint_every, saved_at_)) save_checkpoint(changed);
  return gateway_.standing().finished ? Order::finish : Order::step;
}

void IslandGateway::stepped(const model::StepReport& step, double learning_rate) {
  outer_.stepped();
  report_.stepped(step, learning_rate);
}

// At which step commits were taken up decides the bits of everything after it.
void IslandGateway::note_adopted(const std::set<FragmentId>& fragments) {
  if (fragments.empty()) return;
  std::vector<std::uint64_t> numbers;
  for (const auto f : fragments) numbers.push_back(f.value);
  log_.write("adopted", {{"step", inner_.steps()}, {"fragments", numbers}});
}

void IslandGateway::warn_of_refusals() {
  for (const auto& [site, reason] : gateway_.refusals()) {
    if (!warned_.insert(site).second) continue;
    log_.write("link_refused", {{"site", federation_.sites[site.value].name}, {"reason", reason}});
    report_.say("goes on without site '" + federation_.sites[site.value].name + "' (" + reason + ")");
  }
}

void IslandGateway::save_checkpoint(std::set<FragmentId>& changed) {
  const auto began = Gateway::now();
  std::set<FragmentId> settled;
  const auto fragments = outer_.settle(settled);
  note_adopted(settled);
  changed.merge(settled);
  gateway_.record();
  const auto file = store::save(checkpoint_of(inner_, fragments, federation_, site_), directory_.checkpoints());
  std::vector<LogField> fields{
      {"step", inner_.steps()}, {"file", file.string()}, {"seconds", (Gateway::now() - began).count()}};
  std::ranges::move(federation::standing_fields(fragments), std::back_inserter(fields));
  log_.write("checkpoint", std::move(fields));
}

void IslandGateway::linger() {
  const auto deadline = Gateway::now() + options_.linger;
  const auto served = [](Protocol& protocol, Seconds) { return protocol.all_finished(); };
  if (!gateway_.visit(served)) report_.say("finished; serves the sites that are not");
  while (!gateway_.visit(served) && Gateway::now() < deadline && !stop_.arrived()) std::this_thread::sleep_for(5ms);
  const auto alone = federation_.sites.size() > 1 && gateway_.standing().sites_alive == 1;
  if (!gateway_.visit(served))
    report_.say("a site does not have the final model: start this one again beside it, and it will be served");
  else if (alone)
    report_.say("no other site is there at the end; one that ended before may hold another final model");
}

void IslandGateway::finish() {
  linger();
  std::set<FragmentId> changed;
  outer_.settle(changed);
  outer_.take_anchors();
  save_checkpoint(changed);
  report_.finished();
  directory_.leave("DONE", "finished at inner step " + std::to_string(inner_.steps()) + '\n');
}

void IslandGateway::stop() {
  report_.say("asked to stop: writes a checkpoint");
  gateway_.visit([](Protocol& protocol, Seconds) { protocol.rest(); });
  std::set<FragmentId> changed;
  save_checkpoint(changed);
  log_.write("stopped", {{"step", inner_.steps()}});
}

}  // namespace Atoll::app
