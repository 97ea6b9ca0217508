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
#include "federation_check.hpp"

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
  std::string stewardship = "first";
  std::string method = "nesterov";
  std::string merge = "mean";
  std::string after_offer = "own";
  std::string steps = "fixed";
  double warmup_share = 0.02;
  double grace = 2, wait = 0, catch_up_after = 5;
};

void add_federation(po::options_description& known, FederationFile& file, RawSettings& raw) {
  auto& protocol = file.protocol;
  auto add = known.add_options();
  add("federation.name", po::value(&file.name)->required());
  add("federation.sites", po::value(&raw.sites)->required());
  add("federation.tokens", po::value(&protocol.total_tokens)->required());
  add("federation.seed", value(file.seed));
  add("federation.quorum", value(protocol.quorum));
  add("federation.grace_seconds", value(raw.grace));
  add("federation.grace_slack", value(protocol.grace.slack_share));
  add("federation.staleness", value(protocol.staleness));
  add("federation.staleness_decay", value(protocol.staleness_decay));
  add("federation.norm_factor", value(protocol.norm_factor));
  add("federation.stewardship", value(raw.stewardship));
  add("federation.catch_up_seconds", value(raw.catch_up_after));
  add("federation.slowest_link", value(file.slowest_link));
}

void add_training(po::options_description& known, FederationFile& file, RawSettings& raw) {
  auto add = known.add_options();
  add("model.vocabulary", value(file.model.vocabulary));
  add("model.context", value(file.model.context));
  add("model.layers", value(file.model.layers));
  add("model.heads", value(file.model.heads));
  add("model.width", value(file.model.width));
  add("inner.batch", value(file.batch));
  add("inner.micro_batch", value(file.micro_batch));
  add("inner.learning_rate", value(file.learning_rate.peak));
  add("inner.warmup_share", value(raw.warmup_share));
  add("inner.final_share", value(file.learning_rate.final_share));
  add("inner.beta1", value(file.adamw.beta1));
  add("inner.beta2", value(file.adamw.beta2));
  add("inner.epsilon", value(file.adamw.epsilon));
  add("inner.weight_decay", value(file.adamw.weight_decay));
  add("inner.clip_norm", value(file.adamw.clip_norm));
}

void add_outer(po::options_description& known, FederationFile& file, RawSettings& raw) {
  auto& outer = file.protocol.outer;
  auto add = known.add_options();
  add("outer.fragments", value(file.fragments));
  add("outer.fragmentation", value(raw.fragmentation));
  add("outer.inner_steps", value(file.schedule.inner_steps));
  add("outer.steps", value(raw.steps));
  add("outer.overlap", value(file.schedule.overlap));
  add("outer.wait_seconds", value(raw.wait));
  add("outer.after_offer", value(raw.after_offer));
  add("outer.weights", value(raw.weights));
  add("outer.merge", value(raw.merge));
  add("outer.faulty", value(file.protocol.merger.faulty));
  add("outer.method", value(raw.method));
  add("outer.learning_rate", value(outer.learning_rate));
  add("outer.momentum", value(outer.momentum));
  add("outer.second_momentum", value(outer.second_momentum));
  add("outer.epsilon", value(outer.epsilon));
  add("outer.delay", value(outer.delay));
  add("outer.delay_share", value(outer.delay_share));
  add("outer.mixing", value(raw.mixing));
  add("outer.alpha", value(file.alpha));
}

po::options_description settings(FederationFile& file, RawSettings& raw) {
  po::options_description known;
  add_federation(known, file, raw);
  add_training(known, file, raw);
  add_outer(known, file, raw);
  return known;
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

void choose_outer(const std::filesystem::path& file, FederationFile& f, const RawSettings& raw) {
  using enum outer::OuterMethod;
  f.protocol.outer.method = choice<outer::OuterMethod>(file, "outer.method", raw.method,
                                                       {{"sgd", sgd},
                                                        {"nesterov", nesterov},
                                                        {"delayed_nesterov", delayed_nesterov},
                                                        {"adam", adam},
                                                        {"yogi", yogi},
                                                        {"adagrad", adagrad}});
  using enum outer::MergeRule;
  f.protocol.merger.rule = choice<outer::MergeRule>(file, "outer.merge", raw.merge,
                                                    {{"mean", mean},
                                                     {"radial_directional", radial_directional},
                                                     {"trimmed_mean", trimmed_mean},
                                                     {"median", median},
                                                     {"krum", krum}});
  using federation::AfterOffer;
  f.protocol.after_offer =
      choice<AfterOffer>(file, "outer.after_offer", raw.after_offer,
                         {{"own", AfterOffer::own}, {"eager", AfterOffer::eager}, {"anchor", AfterOffer::anchor}});
  f.mixing = choice<outer::Mixing>(file, "outer.mixing", raw.mixing,
                                   {{"rebase", outer::Mixing::rebase}, {"blend", outer::Mixing::blend}});
}

void choose(const std::filesystem::path& file, FederationFile& f, const RawSettings& raw) {
  f.fragmentation = choice<outer::Fragmentation>(file, "outer.fragmentation", raw.fragmentation,
                                                 {{"strided", outer::Fragmentation::strided},
                                                  {"sequential", outer::Fragmentation::sequential},
                                                  {"balanced", outer::Fragmentation::balanced}});
  f.protocol.weights = choice<outer::WeightRule>(file, "outer.weights", raw.weights,
                                                 {{"equal", outer::WeightRule::equal},
                                                  {"tokens", outer::WeightRule::tokens},
                                                  {"tokens_per_step", outer::WeightRule::tokens_per_step}});
  f.steps =
      choice<StepRule>(file, "outer.steps", raw.steps, {{"fixed", StepRule::fixed}, {"dynamic", StepRule::dynamic}});
  using federation::Stewardship;
  f.protocol.stewardship = choice<Stewardship>(file, "federation.stewardship", raw.stewardship,
                                               {{"first", Stewardship::first}, {"spread", Stewardship::spread}});
}

void complete(FederationFile& f, const RawSettings& raw) {
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
  choose(file, federation, raw);
  choose_outer(file, federation, raw);
  complete(federation, raw);
  check_settings(file, federation);
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
