#include <sched.h>

#include <cstdlib>
#include <format>
#include <iostream>
#include <optional>
#include <thread>

#include "atoll/app/command.hpp"
#include "atoll/app/island_gateway.hpp"
#include "atoll/app/island_options.hpp"
#include "atoll/app/resume.hpp"
#include "atoll/device/session.hpp"
#include "atoll/federation/replay.hpp"
#include "atoll/mpi/communicator.hpp"
#include "atoll/mpi/environment.hpp"

namespace Atoll::app {
namespace {

// Ranks that mpirun has bound know their own cores; unbound ones share those of the machine.
int threads_for(int asked) {
  if (asked > 0) return asked;
  if (const char* set = std::getenv("OMP_NUM_THREADS"); set != nullptr && std::atoi(set) > 0) return std::atoi(set);
  cpu_set_t own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof own, &own);
  const int cores = std::max(1, CPU_COUNT(&own));
  if (cores < static_cast<int>(std::thread::hardware_concurrency())) return cores;
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return std::max(1, cores / std::max(1, local != nullptr ? std::atoi(local) : 1));
}

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Rank 0 decides; the others learn what changed and what comes next. Collective.
struct NextStep {
  Order order = Order::step;
  std::uint32_t changed = 0;
  double learning_rate = 0;
};

void share(const mpi::Communicator& world, NextStep& next, const std::set<FragmentId>& changed, InnerLoop& inner) {
  world.broadcast(bytes_of(next), 0);
  auto fragment = changed.begin();
  for (std::uint32_t i = 0; i < next.changed; ++i) {
    FragmentId id = world.rank() == 0 ? *fragment++ : FragmentId{};
    world.broadcast(bytes_of(id), 0);
    auto values = inner.plan().gather(inner.trainer().parameters(), id);
    world.broadcast(std::as_writable_bytes(std::span(values)), 0);
    if (world.rank() != 0) inner.replace(id, values);
  }
}

// The whole training of one island. Collective.
Order train(const mpi::Communicator& world, InnerLoop& inner, IslandGateway* gateway) {
  while (true) {
    NextStep next;
    std::set<FragmentId> changed;
    if (gateway != nullptr) {
      next.order = gateway->between_steps(changed);
      next.changed = static_cast<std::uint32_t>(changed.size());
      next.learning_rate = gateway->learning_rate();
    }
    share(world, next, changed, inner);
    if (next.order != Order::step) return next.order;
    const auto report = inner.step(next.learning_rate);
    if (gateway != nullptr) gateway->stepped(report, next.learning_rate);
  }
}

constexpr std::uint64_t no_checkpoint = ~std::uint64_t{0};

std::optional<store::FoundCheckpoint> newest_checkpoint(const IslandOptions& options, EventLog& log) {
  if (!options.resume) return std::nullopt;
  return store::load_newest(
      options.run / "checkpoints", [&](const std::filesystem::path& file, const std::string& why) {
        log.write("checkpoint_skipped", {{"file", file.string()}, {"reason", why}});
        std::cerr << "atoll: passes over the checkpoint " << file.string() << " (" << why << ") an older one is used\n";
      });
}

// Rank 0 chooses the checkpoint; the others read the same one. Collective.
std::vector<federation::FragmentState> resume_or_begin(const mpi::Communicator& world, const IslandOptions& options,
                                                       const FederationFile& federation, InnerLoop& inner, SiteId site,
                                                       EventLog& log) {
  auto found = world.rank() == 0 ? newest_checkpoint(options, log) : std::nullopt;
  std::uint64_t step = found ? found->checkpoint.step : no_checkpoint;
  world.broadcast(bytes_of(step), 0);
  if (step == no_checkpoint) return initial_fragments(inner);
  if (world.rank() != 0) {
    const auto file = store::checkpoint_file(options.run / "checkpoints", step);
    found = store::FoundCheckpoint{file, store::load(file)};
  }
  return resume_from(found->checkpoint, inner, federation, site);
}

void print_plan(const IslandOptions& options, const FederationFile& federation, const data::TokenFile& tokens,
                InnerLoop& inner) {
  std::cout << std::format("federation     {} ({} sites), configuration {}\n", federation.name, federation.sites.size(),
                           federation.configuration.hex())
            << std::format("model          {} parameters in {} fragments\n", inner.trainer().parameter_count(),
                           inner.plan().count())
            << std::format("tokens         {} for training, {} for validation, vocabulary {}\n",
                           tokens.count(data::Part::training), tokens.count(data::Part::validation),
                           tokens.vocabulary())
            << std::format("inner step     {} tokens\n", inner.tokens_per_step())
            << std::format("round          {} inner steps, {} for the federation's {} tokens\n",
                           federation.schedule.inner_steps,
                           federation.protocol.total_tokens / inner.tokens_per_step() /
                               federation.schedule.inner_steps / federation.sites.size(),
                           federation.protocol.total_tokens)
            << std::format("letters kept   {}: {} bytes per round at most\n", federation::name_of(options.keep_letters),
                           federation::kept_bytes_per_round(options.keep_letters, inner.trainer().parameter_count(),
                                                            federation.sites.size()));
}

ExitStatus train_island(const mpi::Communicator& world, const IslandOptions& options, const FederationFile& federation,
                        const data::TokenFile& tokens, SiteId site, InnerLoop& inner, StopRequest& stop) {
  std::optional<RunDirectory> directory;
  EventLog log;
  if (world.rank() == 0) {
    directory.emplace(options.run, options.resume ? RunDirectory::Opening::resume : RunDirectory::Opening::fresh);
    log = EventLog(directory->log());
  }
  auto fragments = resume_or_begin(world, options, federation, inner, site, log);
  std::optional<IslandGateway> gateway;
  if (world.rank() == 0) {
    log.write("opened", federation::opened_fields(options.site, inner.steps(), federation.configuration,
                                                  options.keep_letters, fragments));
    gateway.emplace(federation, options, tokens, *directory, log, inner, std::move(fragments), stop, world.size());
    gateway->gather();
  }
  const auto order = train(world, inner, gateway ? &*gateway : nullptr);
  if (gateway) order == Order::finish ? gateway->finish() : gateway->stop();
  gateway.reset();
  world.barrier();
  return order == Order::finish ? ExitStatus::success : ExitStatus::requeue;
}

ExitStatus run(const IslandOptions& options, const FederationFile& federation, const data::TokenFile& tokens,
               SiteId site) {
  StopRequest stop;
  mpi::Environment mpi;
  const auto world = mpi::Communicator::world();
  const device::Session device;
  model::limit_threads(options.threads);
  InnerLoop inner(federation, tokens, site, {world.rank(), world.size()}, [&](std::span<float> values) {
    if (world.size() > 1) world.mean(values);
  });
  if (options.dry_run) {
    if (world.rank() == 0) print_plan(options, federation, tokens, inner);
    return ExitStatus::success;
  }
  try {
    return train_island(world, options, federation, tokens, site, inner, stop);
  } catch (const std::exception& error) {
    // The other ranks may wait for this one in a collective call, and would wait for ever.
    if (world.size() == 1) throw;
    std::cerr << "atoll: " << error.what() << std::endl;
    world.abort(static_cast<int>(status_of(error)));
  }
}

}  // namespace

ExitStatus run_island(std::span<const std::string> arguments) {
  auto options = parse_island_options(arguments);
  if (!options) return ExitStatus::success;
  auto federation = read_federation(options->federation);
  if (options->print_config) return std::cout << federation.resolved, ExitStatus::success;
  const auto site = federation.site(options->site);
  const data::TokenFile tokens(options->tokens);
  federation.agree_on("tokens.digest", tokens.digest());
  options->threads = threads_for(options->threads);
  return run(*options, federation, tokens, site);
}

}  // namespace Atoll::app
