// One run of the convergence table: all sites of a cell in this process, one line of JSON. See --help.
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <format>
#include <iostream>

#include "atoll/core/error.hpp"
#include "atoll/device/session.hpp"
#include "convergence_cell.hpp"
#include "virtual_federation.hpp"

namespace {

using namespace Atoll;

struct Wanted {
  std::string cell = "data_parallel", tokens;
  bench::Sizes sizes;
  std::uint64_t validation_tokens = 65536;
};

void print(const Wanted& wanted, const bench::Outcome& outcome, double seconds) {
  std::string refused;
  for (const auto& [reason, count] : outcome.refused)
    refused += std::format("{}\"{}\": {}", refused.empty() ? "" : ", ", reason, count);
  const auto loss = std::isfinite(outcome.validation_loss) ? std::format("{:.6f}", outcome.validation_loss) : "null";
  std::cout << std::format(
                   "{{\"cell\": \"{}\", \"seed\": {}, \"outer_rate\": {}, \"inner_rate\": {}, \"rounds\": {}, "
                   "\"tokens\": {}, \"tokens_merged\": {}, \"tokens_lost\": {}, \"validation_loss\": {}, "
                   "\"offers\": {}, \"commits\": {}, \"refused\": {{{}}}, \"virtual_seconds\": {:.1f}, "
                   "\"seconds\": {:.1f}}}",
                   wanted.cell, wanted.sizes.seed, wanted.sizes.outer_rate, wanted.sizes.inner_rate,
                   wanted.sizes.rounds, outcome.tokens, outcome.tokens_merged, outcome.tokens_lost, loss,
                   outcome.offers, outcome.commits, refused, outcome.virtual_seconds, seconds)
            << std::endl;
}

void run(const Wanted& wanted) {
  const auto& cell = bench::cell(wanted.cell);
  const device::Session device;
  model::limit_threads(1);
  const auto federation = bench::federation_of(cell, wanted.sizes);
  const data::TokenFile tokens(wanted.tokens);
  const auto total = bench::total_tokens(wanted.sizes);
  const auto batch = static_cast<std::uint64_t>(federation.micro_batch * federation.model.context);
  const auto began = std::chrono::steady_clock::now();
  const auto outcome =
      cell.sites == 1
          ? bench::train_data_parallel(federation, tokens, total, wanted.validation_tokens / batch)
          : bench::VirtualFederation(cell, federation, tokens).train(total, wanted.validation_tokens / batch);
  print(wanted, outcome, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Wanted wanted;
  auto& sizes = wanted.sizes;
  po::options_description options("convergence: trains all sites of one cell in virtual time, prints one line of JSON");
  const auto value = [](auto& target) { return po::value(&target)->default_value(target); };
  options.add_options()("help", "this text")("list", "the names of the cells")(
      "tokens", po::value(&wanted.tokens), "token file (atoll tokenize)")("cell", value(wanted.cell), "which exchange")(
      "seed", value(sizes.seed), "of initialisation, batch order and jitter")(
      "outer-rate", value(sizes.outer_rate), "outer learning rate")("inner-rate", value(sizes.inner_rate),
                                                                    "peak of the inner learning rate")(
      "rounds", value(sizes.rounds), "rounds of H steps of the whole batch")("batch", value(sizes.batch),
                                                                             "sequences of one step over all sites")(
      "context", value(sizes.model.context), "tokens of a sequence")("width", value(sizes.model.width), "of the model")(
      "heads", value(sizes.model.heads), "of the model")("layers", value(sizes.model.layers), "of the model")(
      "validation", value(wanted.validation_tokens), "tokens to evaluate on");
  po::variables_map given;
  try {
    po::store(po::parse_command_line(argc, argv, options), given);
    po::notify(given);
    if (given.contains("help")) {
      std::cout << options;
    } else if (given.contains("list")) {
      for (const auto& cell : bench::cells()) std::cout << cell.name << '\n';
    } else {
      run(wanted);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
