#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>

#include "atoll/app/command.hpp"
#include "atoll/data/token_file.hpp"
#include "atoll/store/checkpoint.hpp"
#include "atoll/store/digest.hpp"
#include "atoll/store/file.hpp"
#include "atoll/store/letter.hpp"
#include "inspect_run.hpp"

namespace Atoll::app {
namespace {

namespace fs = std::filesystem;

constexpr Manual manual{
    .synopsis = "atoll inspect [OPTION...] FILE...",
    .description =
        "    Says what checkpoints, token files and letters hold, and checks them completely: every checksum, the\n"
        "    seal, and that all parts fit together. A run directory is summed up from its log on one screen: site,\n"
        "    steps, rounds, losses, sites seen, versions and digests, tokens lost, letters refused by reason. Another\n"
        "    folder stands for the checkpoints in it.\n\n"
        "    Ends with status 65 when one of them is damaged or of no kind that Atoll writes; the others are still\n"
        "    shown.",
    .examples =
        "    atoll inspect runs/alpha\n"
        "        how far the run is\n"
        "    atoll inspect runs/alpha/checkpoints runs/alpha/letters/*.h5\n"
        "        its checkpoints, and the letters that it kept\n"
        "    atoll inspect bible.h5\n"
        "        what a token file was made of\n"};

// One line of a summary: a name and what follows.
std::ostream& line(std::string_view name) {
  return std::cout << "  " << std::left << std::setw(18) << name << std::right;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

void show_values(std::string_view name, const store::Values& values) {
  if (values)
    line(name) << values->size() << " values, norm " << norm_of(*values) << ", digest "
               << store::digest_of_values({*values}).hex() << '\n';
}

void show_offers(std::string_view name, const std::vector<store::OfferRecord>& offers) {
  for (const auto& offer : offers)
    line(name) << "site " << offer.site.value << " serial " << offer.serial << ": " << offer.steps << " steps, "
               << offer.tokens << " tokens, weight " << offer.weight << '\n';
}

void show_fragment(std::size_t index, const store::FragmentCheckpoint& fragment) {
  line("fragment " + std::to_string(index))
      << "version " << fragment.version << ", digest " << fragment.anchor_digest.hex() << ", " << fragment.tokens_merged
      << " tokens merged\n";
  line("  since the base") << fragment.steps_since_base << " steps, " << fragment.tokens_since_base << " tokens\n";
  show_values("  anchor", fragment.anchor);
  show_values("  momentum", fragment.momentum);
  show_values("  residual", fragment.residual);
  show_offers("  merged", fragment.merged);
  if (const auto& offer = fragment.outstanding)
    line("  outstanding") << "serial " << offer->serial << " on version " << offer->base << ": " << offer->steps
                          << " steps, " << offer->tokens << " tokens\n";
}

void show_checkpoint(const fs::path& file) {
  const auto checkpoint = store::load(file);
  std::cout << file.string() << ": checkpoint, whole\n";
  line("federation") << checkpoint.federation << ", site " << checkpoint.site << ", configuration "
                     << checkpoint.configuration_digest << '\n';
  line("written by") << "atoll " << checkpoint.program_version << '\n';
  line("seal") << store::File::open(file).seal().hex() << '\n';
  line("progress") << "step " << checkpoint.step << ", " << checkpoint.tokens << " tokens, data cursor "
                   << checkpoint.data_cursor << ", " << checkpoint.optimizer_steps << " optimizer steps\n";
  line("random state") << checkpoint.random_state << '\n';
  line("parameters") << checkpoint.parameters.size() << " values in " << checkpoint.tensors.size() << " tensors, norm "
                     << norm_of(checkpoint.parameters) << ", digest "
                     << store::digest_of_values({checkpoint.parameters}).hex() << '\n';
  for (const auto& tensor : checkpoint.tensors) line("") << tensor.name << ": " << shape_text(tensor.shape) << '\n';
  for (std::size_t i = 0; i < checkpoint.fragments.size(); ++i) show_fragment(i, checkpoint.fragments[i]);
}

void show_tokens(const fs::path& file) {
  const data::TokenFile tokens(file);
  std::cout << file.string() << ": token file, whole\n";
  line("digest") << tokens.digest() << '\n';
  line("tokenizer") << name_of(tokens.tokenizer()) << ", vocabulary " << tokens.vocabulary()
                    << (tokens.restores_text() ? ", restores the text" : ", does not restore every byte of the text")
                    << '\n';
  line("tokens") << tokens.count(data::Part::training) << " training, " << tokens.count(data::Part::validation)
                 << " validation, " << tokens.bytes_per_token() << " bytes per token\n";
  line("unigram loss") << tokens.unigram_loss() << " nats per token\n";
  for (const auto& source : tokens.sources())
    line("text") << source.name << ": " << source.bytes << " bytes, SHA-256 " << source.sha256 << '\n';
}

void show_letter(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  const auto letter = store::decode(std::as_bytes(std::span(bytes)));
  std::cout << file.string() << ": letter of kind " << name_of(letter.kind) << '\n';
  line("from") << "site " << letter.site.value << " of " << letter.federation << ", incarnation " << letter.incarnation
               << ", configuration " << letter.configuration.hex() << '\n';
  line("about") << "fragment " << letter.fragment.value << ", version " << letter.version << ", serial "
                << letter.serial << ", " << letter.steps << " steps, " << letter.tokens << " tokens\n";
  line("parent") << letter.parent.hex() << '\n';
  line("anchor") << letter.anchor.hex() << '\n';
  line("sender") << "inner step " << letter.inner_step << (letter.finished ? ", finished" : "") << '\n';
  show_offers("offer", letter.offers);
  for (std::size_t i = 0; i < letter.fragments.size(); ++i)
    line("fragment " + std::to_string(i))
        << "version " << letter.fragments[i].version << ", digest " << letter.fragments[i].anchor.hex() << ", "
        << letter.fragments[i].tokens_merged << " tokens merged\n";
  show_values("values", letter.values);
  show_values("momentum", letter.momentum);
}

void show(const fs::path& path) {
  if (is_run_directory(path)) return show_run(path, std::cout);
  const auto file = store::File::open(path);
  const auto format = file.has_attribute("/", "format") ? file.attribute<std::string>("/", "format") : "";
  if (format == "atoll checkpoint") return show_checkpoint(path);
  if (format == "atoll tokens") return show_tokens(path);
  if (format == "atoll letter") return show_letter(path);
  throw store::Error(path.string() + " is nothing that Atoll writes", "an HDF5 file without Atoll's format",
                     "check its name");
}

std::vector<fs::path> expanded(const std::vector<std::string>& names) {
  std::vector<fs::path> files;
  for (const fs::path name : names) {
    if (!fs::is_directory(name) || is_run_directory(name)) {
      files.push_back(name);
      continue;
    }
    auto found = store::checkpoints_in(name);
    std::ranges::move(store::checkpoints_in(name / "checkpoints"), std::back_inserter(found));
    if (found.empty())
      throw ConfigError("nothing to inspect in " + name.string(), "it holds no checkpoint and no log", "name a file");
    std::ranges::move(found, std::back_inserter(files));
  }
  return files;
}

}  // namespace

ExitStatus run_inspect(std::span<const std::string> arguments) {
  std::vector<std::string> names;
  po::options_description options("Options");
  options.add_options()("file", po::value(&names)->composing()->required(),
                        "file or folder; may be given without --file, and repeated");
  po::positional_options_description positional;
  positional.add("file", -1);
  po::variables_map values;
  if (!parse(arguments, manual, options, positional, values)) return ExitStatus::success;

  auto status = ExitStatus::success;
  for (const auto& file : expanded(names)) {
    try {
      show(file);
    } catch (const Error& error) {
      std::cout << std::flush;
      std::cerr << "atoll: " << error.what() << '\n';
      status = ExitStatus::bad_data;
    }
  }
  return status;
}

}  // namespace Atoll::app
