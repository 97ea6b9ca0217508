#include "atoll/app/resume.hpp"

#include <algorithm>

#include "atoll/core/error.hpp"
#include "atoll/outer/outer_optimizer.hpp"

namespace Atoll::app {

using federation::FragmentState;

namespace {

// An offer that comes out of a checkpoint was sent to nobody whom we still know.
constexpr SiteId nobody{};
constexpr Seconds long_ago{-1e9};

std::vector<store::NamedTensor> tensors_of(const model::Trainer& trainer) {
  std::vector<store::NamedTensor> tensors;
  for (const auto& p : trainer.layout()) tensors.push_back({p.name, p.shape, p.offset});
  return tensors;
}

store::FragmentCheckpoint checkpoint_of(const FragmentState& s) {
  store::FragmentCheckpoint saved;
  saved.version = s.version;
  saved.anchor_digest = s.digest;
  saved.tokens_merged = s.tokens_merged;
  saved.steps_since_base = s.steps_since;
  saved.tokens_since_base = s.tokens_since;
  saved.anchor = s.anchor;
  saved.momentum = s.momentum;
  saved.merged = s.newest;
  saved.recent = s.history;
  if (s.outstanding)
    saved.outstanding = store::OutstandingOffer{s.outstanding->serial, s.outstanding->steps, s.outstanding->tokens,
                                                s.outstanding->base, s.outstanding->parameters};
  return saved;
}

FragmentState fragment_of(const store::FragmentCheckpoint& saved) {
  FragmentState s;
  s.version = saved.version;
  s.anchor = saved.anchor;
  s.momentum = saved.momentum;
  s.digest = saved.anchor_digest;
  s.tokens_merged = saved.tokens_merged;
  s.newest = saved.merged;
  s.history = saved.recent;
  s.steps_since = saved.steps_since_base;
  s.tokens_since = saved.tokens_since_base;
  if (const auto& out = saved.outstanding) {
    auto gradient = outer::pseudo_gradient(*s.anchor, *out->values);
    auto& offer = s.outstanding.emplace();
    offer.serial = out->serial;
    offer.base = out->base;
    offer.steps = offer.work_steps = out->steps;
    offer.tokens = out->tokens;
    offer.gradient = std::make_shared<const std::vector<float>>(std::move(gradient));
    offer.parameters = out->values;
    offer.sent_to = nobody;
    offer.sent_at = long_ago;
  }
  return s;
}

void check(const store::Checkpoint& saved, InnerLoop& inner, const FederationFile& federation, SiteId site) {
  const auto refuse = [](const std::string& why) {
    throw ConfigError("cannot resume from the checkpoint", why,
                      "use the federation file and --site of the run, or another --run directory");
  };
  if (saved.configuration_digest != federation.configuration.hex()) refuse("it is of another configuration");
  if (saved.site != federation.sites[site.value].name) refuse("it is of site '" + saved.site + "'");
  if (saved.tensors != tensors_of(inner.trainer()) || saved.fragments.size() != inner.plan().count())
    refuse("its model has other parameters");
  for (std::uint32_t f = 0; f < saved.fragments.size(); ++f)
    if (saved.fragments[f].anchor->size() != inner.plan().size({f})) refuse("its fragments have other sizes");
}

}  // namespace

store::Checkpoint checkpoint_of(InnerLoop& inner, const std::vector<FragmentState>& fragments,
                                const FederationFile& federation, SiteId site) {
  auto& trainer = inner.trainer();
  const auto copy = [](std::span<const float> values) { return std::vector<float>(values.begin(), values.end()); };
  store::Checkpoint saved;
  saved.configuration_digest = federation.configuration.hex();
  saved.configuration = federation.resolved;
  saved.federation = federation.name;
  saved.site = federation.sites[site.value].name;
  saved.program_version = ATOLL_VERSION;
  saved.step = inner.steps();
  saved.data_cursor = inner.cursor();
  saved.tokens = inner.steps() * inner.tokens_per_step();
  saved.optimizer_steps = trainer.optimizer_steps();
  saved.random_state =
      "seed " + std::to_string(federation.seed) + "; training draws no random numbers after initialisation";
  saved.tensors = tensors_of(trainer);
  saved.parameters = copy(trainer.parameters());
  saved.first_moment = copy(trainer.first_moment());
  saved.second_moment = copy(trainer.second_moment());
  for (const auto& fragment : fragments) saved.fragments.push_back(checkpoint_of(fragment));
  return saved;
}

std::vector<FragmentState> resume_from(const store::Checkpoint& saved, InnerLoop& inner,
                                       const FederationFile& federation, SiteId site) {
  check(saved, inner, federation, site);
  auto& trainer = inner.trainer();
  std::ranges::copy(saved.parameters, trainer.parameters().begin());
  std::ranges::copy(saved.first_moment, trainer.first_moment().begin());
  std::ranges::copy(saved.second_moment, trainer.second_moment().begin());
  trainer.resume_optimizer(saved.optimizer_steps);
  inner.resume(saved.step, saved.data_cursor);
  return fragments_of(saved);
}

std::vector<FragmentState> fragments_of(const store::Checkpoint& saved) {
  std::vector<FragmentState> fragments;
  for (const auto& fragment : saved.fragments) fragments.push_back(fragment_of(fragment));
  return fragments;
}

}  // namespace Atoll::app
