// train_in_memory FEDERATION TOKENS: trains all sites of a federation in this process, one after the other, with
// letters carried in memory, and prints every commit as a line of JSON. What the real thing must equal to the bit.
#include <cstdio>
#include <memory>
#include <vector>

#include "atoll/app/federation_file.hpp"
#include "atoll/app/inner_loop.hpp"
#include "atoll/data/token_file.hpp"
#include "atoll/device/session.hpp"
#include "atoll/federation/adoption_queue.hpp"
#include "atoll/federation/protocol.hpp"

namespace {

using namespace Atoll;
using federation::Protocol;

struct Site {
  app::InnerLoop inner;
  Protocol protocol;
  federation::AdoptionQueue adoptions;

  void take_up(const std::vector<federation::Adoption>& ready) {
    for (const auto& adoption : ready) inner.adopt(adoption);
  }
};

// As app::OuterLoop between two inner steps.
void offer_what_is_due(const app::FederationFile& federation, Site& site) {
  const auto step = site.inner.steps();
  site.take_up(site.adoptions.due(step));
  for (std::uint32_t f = 0; f < federation.fragments; ++f) {
    if (!federation.schedule.offers({f}, step)) continue;
    site.take_up(site.adoptions.all({f}));
    const auto serial = site.protocol.offer({f}, site.inner.fragment({f}), Seconds{0});
    if (serial > 0) site.adoptions.offered({f}, step, serial);
  }
}

Protocol protocol_for(const app::FederationFile& federation, app::InnerLoop& inner, SiteId self) {
  auto config = app::protocol_config(federation, inner.plan());
  config.self = self;
  config.incarnation = 1;
  return {config, app::initial_fragments(inner)};
}

void print_commits(Protocol& protocol) {
  for (const auto& note : protocol.take_notes()) {
    if (note.event != "commit") continue;
    std::uint64_t fragment = 0, version = 0;
    std::string anchor;
    for (const auto& [name, value] : note.fields) {
      if (name == "fragment") fragment = std::get<std::uint64_t>(value);
      if (name == "version") version = std::get<std::uint64_t>(value);
      if (name == "anchor") anchor = std::get<std::string>(value);
    }
    std::printf("{\"fragment\": %llu, \"version\": %llu, \"anchor\": \"%s\"}\n",
                static_cast<unsigned long long>(fragment), static_cast<unsigned long long>(version), anchor.c_str());
  }
}

void carry_letters(std::vector<std::unique_ptr<Site>>& sites) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& site : sites)
      for (auto& [to, letter] : site->protocol.take_sends()) {
        sites[to.value]->protocol.receive(letter, Seconds{0});
        moved = true;
      }
  }
}

void train(const app::FederationFile& federation, std::vector<std::unique_ptr<Site>>& sites) {
  while (!sites.front()->protocol.finished()) {
    for (auto& site : sites) {
      site->inner.step(federation.learning_rate.at(site->protocol.progress_tokens()));
      site->protocol.stepped(site->inner.tokens_per_step(), Seconds{0});
    }
    for (auto& site : sites) offer_what_is_due(federation, *site);
    carry_letters(sites);
    for (auto& site : sites) {
      for (auto& adoption : site->protocol.take_adoptions()) site->adoptions.add(std::move(adoption));
      site->take_up(site->adoptions.due(site->inner.steps()));
    }
    print_commits(sites.front()->protocol);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: train_in_memory FEDERATION TOKENS\n"), 64;
  const device::Session device;
  model::limit_threads(1);
  const auto federation = app::read_federation(argv[1]);
  const data::TokenFile tokens(argv[2]);
  std::vector<std::unique_ptr<Site>> sites;
  for (std::uint32_t i = 0; i < federation.sites.size(); ++i) {
    app::InnerLoop inner(federation, tokens, {i}, {}, [](std::span<float>) {});
    auto protocol = protocol_for(federation, inner, {i});
    sites.push_back(std::make_unique<Site>(
        Site{std::move(inner), std::move(protocol), {federation.fragments, federation.schedule.overlap}}));
  }
  for (std::uint32_t a = 0; a < sites.size(); ++a)
    for (std::uint32_t b = 0; b < sites.size(); ++b)
      if (a != b) sites[a]->protocol.observe({b}, true, 1, Seconds{0});
  carry_letters(sites);
  for (auto& site : sites) site->protocol.begin(Seconds{0});
  train(federation, sites);
}
