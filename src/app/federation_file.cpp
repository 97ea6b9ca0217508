#include "atoll/app/federation_file.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "atoll/core/error.hpp"
#include "atoll/store/digest.hpp"

namespace Atoll::app {
namespace {

namespace po = boost::program_options;

// Settings that say how a site is reached; sites need not agree on them.
const std::set<std::string> site_keys = {"host", "launch_agent", "program", "mailboxes", "mpirun_options"};

template <class T>
po::typed_value<T>* value(T& target) {
  return po::value<T>(&target)->default_value(target);
}

/// Values that the file holds as text or in other units than the structs.
struct RawSettings {
  std::string sites;
  std::string fragmentation = "strided";
  std::string weights = "tokens_per_step";
  std::string mixing = "rebase";
  double warmup_share = 0.02;
  double grace = 2, wait = 0, catch_up_after = 5;
};

po::options_description settings(FederationFile& file, RawSettings& raw) {
  po::options_description known;
  known.add_options()("federation.name", po::value(&file.name)->required())("federation.sites",
                                                                            po::value(&raw.sites)->required())(
      "federation.tokens", po::value(&file.protocol.total_tokens)->required())("federation.seed", value(file.seed))(
      "federation.quorum", value(file.protocol.quorum))("federation.grace_seconds", value(raw.grace))(
      "federation.catch_up_seconds", value(raw.catch_up_after))("model.vocabulary", value(file.model.vocabulary))(
      "model.context", value(file.model.context))("model.layers", value(file.model.layers))(
      "model.heads", value(file.model.heads))("model.width", value(file.model.width))("inner.batch", value(file.batch))(
      "inner.micro_batch", value(file.micro_batch))("inner.learning_rate", value(file.learning_rate.peak))(
      "inner.warmup_share", value(raw.warmup_share))("inner.final_share", value(file.learning_rate.final_share))(
      "inner.beta1", value(file.adamw.beta1))("inner.beta2", value(file.adamw.beta2))(
      "inner.epsilon", value(file.adamw.epsilon))("inner.weight_decay", value(file.adamw.weight_decay))(
      "inner.clip_norm", value(file.adamw.clip_norm))("outer.fragments", value(file.fragments))(
      "outer.fragmentation", value(raw.fragmentation))("outer.inner_steps", value(file.schedule.inner_steps))(
      "outer.overlap", value(file.schedule.overlap))("outer.wait_seconds", value(raw.wait))(
      "outer.weights", value(raw.weights))("outer.learning_rate", value(file.protocol.outer.learning_rate))(
      "outer.momentum", value(file.protocol.outer.momentum))("outer.mixing", value(raw.mixing))("outer.alpha",
                                                                                                value(file.alpha));
  return known;
}

[[noreturn]] void wrong(const std::filesystem::path& file, const std::string& why, const std::string& advice) {
  throw ConfigError("cannot use the federation file " + file.string(), why, advice);
}

template <class T>
T choice(const std::filesystem::path& file, const std::string& key, const std::string& text,
         const std::map<std::string, T>& choices) {
  const auto found = choices.find(text);
  if (found != choices.end()) return found->second;
  std::string names;
  for (const auto& [name, _] : choices) names += (names.empty() ? "" : ", ") + name;
  wrong(file, key + " is '" + text + "'", "use one of " + names);
}

std::vector<federation::Site> sites_of(const std::filesystem::path& file, const std::string& names) {
  std::vector<federation::Site> sites;
  std::istringstream words(names);
  for (std::string name; words >> name;) {
    const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
    if (!std::ranges::all_of(name, plain))
      wrong(file, "'" + name + "' is no site name", "use letters, digits, - and _");
    if (std::ranges::find(sites, name, &federation::Site::name) != sites.end())
      wrong(file, "site '" + name + "' is named twice", "name each site once");
    sites.push_back(
        {.name = name, .host = {}, .launch_agent = {}, .program = {}, .mailboxes = {}, .mpirun_options = {}});
  }
  if (sites.empty()) wrong(file, "federation.sites names no site", "list the sites, as in: sites = alpha beta");
  return sites;
}

void set_site_option(const std::filesystem::path& file, FederationFile& federation, const po::option& option) {
  const auto dot = option.string_key.rfind('.');
  const auto name = option.string_key.substr(sizeof "site." - 1, dot - (sizeof "site." - 1));
  const auto key = option.string_key.substr(dot + 1);
  const auto site = std::ranges::find(federation.sites, name, &federation::Site::name);
  if (site == federation.sites.end())
    wrong(file, "section [site." + name + "] is for no site of federation.sites",
          "add the site there, or drop the section");
  if (!site_keys.contains(key))
    wrong(file, "unknown key '" + option.string_key + "'", "see inputs/README.md for the keys");
  auto& target = key == "host"           ? site->host
                 : key == "launch_agent" ? site->launch_agent
                 : key == "program"      ? site->program
                 : key == "mailboxes"    ? site->mailboxes
                                         : site->mpirun_options;
  target = option.value.empty() ? "" : option.value.front();
}

// What all sites must agree on, in one canonical text.
std::string resolved_text(const po::variables_map& values) {
  std::ostringstream text;
  text.precision(9);
  for (const auto& [key, held] : values) {
    text << key << " = ";
    const auto& any = held.value();
    if (const auto* v = boost::any_cast<std::string>(&any)) text << *v;
    if (const auto* v = boost::any_cast<double>(&any)) text << *v;
    if (const auto* v = boost::any_cast<float>(&any)) text << *v;
    if (const auto* v = boost::any_cast<std::uint32_t>(&any)) text << *v;
    if (const auto* v = boost::any_cast<std::uint64_t>(&any)) text << *v;
    if (const auto* v = boost::any_cast<std::int64_t>(&any)) text << *v;
    text << '\n';
  }
  return text.str();
}

/// Negative numbers come out of the parser as huge ones.
void check_counts(const std::filesystem::path& file, const FederationFile& f) {
  constexpr std::uint64_t most = 1'000'000'000'000'000;
  const std::pair<const char*, std::uint64_t> counts[] = {{"federation.tokens", f.protocol.total_tokens},
                                                          {"outer.fragments", f.fragments},
                                                          {"outer.inner_steps", f.schedule.inner_steps},
                                                          {"outer.overlap", f.schedule.overlap}};
  for (const auto& [key, count] : counts)
    if (count > most) wrong(file, std::string(key) + " is negative or too large", "use 10^15 at most");
  if (f.fragments == 0) wrong(file, "outer.fragments is 0", "set it to at least 1");
}

/// A NaN fails every comparison; infinity is beyond every bound here.
void check_optimizers(const std::filesystem::path& file, const FederationFile& f) {
  constexpr double largest = std::numeric_limits<double>::max();
  const auto demand = [&](bool holds, const std::string& why, const std::string& advice) {
    if (!holds) wrong(file, why, advice);
  };
  const auto& adamw = f.adamw;
  demand(f.learning_rate.peak > 0 && f.learning_rate.peak <= largest, "inner.learning_rate is not a positive number",
         "try 0.001");
  demand(f.learning_rate.final_share >= 0 && f.learning_rate.final_share <= 1, "inner.final_share is not in 0 .. 1",
         "try 0.1");
  demand(adamw.beta1 >= 0 && adamw.beta1 < 1 && adamw.beta2 >= 0 && adamw.beta2 < 1,
         "inner.beta1 or inner.beta2 is not in 0 .. 1", "try 0.9 and 0.95; 1 itself is excluded");
  demand(adamw.epsilon > 0 && adamw.epsilon <= largest, "inner.epsilon is not a positive number", "try 1e-8");
  demand(adamw.weight_decay >= 0 && adamw.weight_decay <= largest, "inner.weight_decay is negative or no number",
         "try 0.1; 0 is none");
  demand(adamw.clip_norm >= 0 && adamw.clip_norm <= largest, "inner.clip_norm is negative or no number",
         "try 1; 0 is never");
  demand(f.protocol.outer.learning_rate > 0 && f.protocol.outer.learning_rate <= 10,
         "outer.learning_rate is not above 0 and at most 10", "try 0.7");
  demand(f.protocol.outer.momentum >= 0 && f.protocol.outer.momentum < 1, "outer.momentum is not in 0 .. 1",
         "try 0.9; 1 itself is excluded");
}

void check(const std::filesystem::path& file, const FederationFile& f, const RawSettings& raw) {
  const auto demand = [&](bool holds, const std::string& why, const std::string& advice) {
    if (!holds) wrong(file, why, advice);
  };
  const auto& m = f.model;
  demand(m.layers > 0 && m.heads > 0 && m.width > 0 && m.context > 0 && m.vocabulary > 1,
         "a size under [model] is not positive", "set all of them to at least 1 (vocabulary: 2)");
  demand(m.width % m.heads == 0,
         "model.width " + std::to_string(m.width) + " is no multiple of model.heads " + std::to_string(m.heads),
         "choose a width that all heads can share");
  demand(f.batch > 0 && f.micro_batch > 0, "a batch under [inner] is not positive", "set it to at least 1");
  demand(raw.warmup_share >= 0 && raw.warmup_share < 1, "inner.warmup_share is not in 0 .. 1", "try 0.02");
  demand(f.schedule.inner_steps > 0, "outer.inner_steps is 0", "set how many inner steps a round has, 20 say");
  demand(f.schedule.overlap < f.schedule.inner_steps, "outer.overlap is not less than outer.inner_steps",
         "a commit must be taken up before the next offer of its fragment");
  demand(f.protocol.quorum >= 1 && f.protocol.quorum <= f.sites.size(),
         "federation.quorum " + std::to_string(f.protocol.quorum) + " does not fit " + std::to_string(f.sites.size()) +
             " sites",
         "set it between 1 and the number of sites");
  demand(raw.grace >= 0 && raw.wait >= 0 && raw.catch_up_after > 0, "a time is negative", "times are seconds, from 0");
  demand(f.alpha >= 0 && f.alpha <= 1, "outer.alpha is not in 0 .. 1", "0 takes the anchor, 1 keeps the parameters");
  demand(f.mixing == outer::Mixing::blend || f.alpha == 0, "outer.alpha is set, but outer.mixing is rebase",
         "set outer.mixing = blend, or drop outer.alpha");
  demand(f.protocol.total_tokens > 0, "federation.tokens is 0", "set how many tokens the federation trains on");
}

void complete(const std::filesystem::path& file, FederationFile& f, const RawSettings& raw) {
  f.fragmentation = choice<outer::Fragmentation>(file, "outer.fragmentation", raw.fragmentation,
                                                 {{"strided", outer::Fragmentation::strided},
                                                  {"sequential", outer::Fragmentation::sequential},
                                                  {"balanced", outer::Fragmentation::balanced}});
  f.protocol.weights = choice<outer::WeightRule>(file, "outer.weights", raw.weights,
                                                 {{"equal", outer::WeightRule::equal},
                                                  {"tokens", outer::WeightRule::tokens},
                                                  {"tokens_per_step", outer::WeightRule::tokens_per_step}});
  f.mixing = choice<outer::Mixing>(file, "outer.mixing", raw.mixing,
                                   {{"rebase", outer::Mixing::rebase}, {"blend", outer::Mixing::blend}});
  f.schedule.fragments = f.fragments;
  f.wait = Seconds{raw.wait};
  f.protocol.grace.longest = Seconds{raw.grace};
  f.protocol.grace.overlap = f.schedule.overlap;
  f.protocol.catch_up_after = Seconds{raw.catch_up_after};
  f.protocol.federation = f.name;
  f.protocol.configuration = f.configuration;
  f.protocol.keeps_progress = f.mixing == outer::Mixing::rebase || f.alpha > 0;
  for (const auto& site : f.sites) f.protocol.sites.push_back(site.name);
  f.learning_rate.total_tokens = static_cast<double>(f.protocol.total_tokens);
  f.learning_rate.warmup_tokens = raw.warmup_share * f.learning_rate.total_tokens;
}

}  // namespace

void FederationFile::agree_on(const std::string& key, const std::string& value) {
  resolved += key + " = " + value + '\n';
  configuration = store::digest_of(resolved);
  protocol.configuration = configuration;
}

SiteId FederationFile::site(std::string_view site_name) const {
  const auto found = std::ranges::find(protocol.sites, site_name);
  if (found != protocol.sites.end()) return {static_cast<std::uint32_t>(found - protocol.sites.begin())};
  std::string names;
  for (const auto& known : protocol.sites) names += (names.empty() ? "" : ", ") + known;
  throw ConfigError("no site '" + std::string(site_name) + "' in this federation", "the file names " + names,
                    "correct --site, or add the site to federation.sites on every site");
}

namespace {

FederationFile parse_federation(std::istream& stream, const std::filesystem::path& file) {
  FederationFile federation;
  RawSettings raw;
  po::variables_map values;
  std::vector<po::option> site_options;
  try {
    const auto known = settings(federation, raw);
    auto parsed = po::parse_config_file(stream, known, true);
    for (const auto& option : parsed.options) {
      if (!option.unregistered) continue;
      if (!option.string_key.starts_with("site.") || option.string_key.find('.', 5) == std::string::npos)
        wrong(file, "unknown key '" + option.string_key + "'", "see inputs/README.md for the keys");
      site_options.push_back(option);
    }
    std::erase_if(parsed.options, [](const auto& option) { return option.unregistered; });
    po::store(parsed, values);
    po::notify(values);
  } catch (const po::error& error) {
    wrong(file, error.what(), "see inputs/README.md for the keys");
  }
  federation.sites = sites_of(file, raw.sites);
  for (const auto& option : site_options) set_site_option(file, federation, option);
  federation.resolved = resolved_text(values);
  federation.configuration = store::digest_of(federation.resolved);
  complete(file, federation, raw);
  check_counts(file, federation);
  check_optimizers(file, federation);
  check(file, federation, raw);
  return federation;
}

}  // namespace

FederationFile read_federation(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) wrong(file, "no such readable file", "check --federation");
  return parse_federation(stream, file);
}

FederationFile read_resolved_federation(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) wrong(file, "no such readable file", "a run directory has it from its first start on");
  // What was agreed on besides the file's own settings stands behind them, and no federation file may hold it.
  std::ostringstream settings;
  std::vector<std::pair<std::string, std::string>> agreed;
  constexpr std::string_view equals = " = ";
  for (std::string line; std::getline(stream, line);) {
    const auto split = line.find(equals);
    if (line.starts_with("tokens.") && split != std::string::npos)
      agreed.emplace_back(line.substr(0, split), line.substr(split + equals.size()));
    else
      settings << line << '\n';
  }
  std::istringstream text(settings.str());
  auto federation = parse_federation(text, file);
  for (const auto& [key, value] : agreed) federation.agree_on(key, value);
  return federation;
}

}  // namespace Atoll::app
