#include "atoll/app/inner_loop.hpp"

#include <algorithm>

#include "atoll/core/error.hpp"
#include "atoll/outer/mixing.hpp"

namespace Atoll::app {
namespace {

outer::TensorKind kind_of(const model::ParameterInfo& parameter) {
  if (parameter.shape.size() < 2) return outer::TensorKind::vector;
  return parameter.layer < 0 ? outer::TensorKind::embedding : outer::TensorKind::matrix;
}

outer::FragmentPlan plan_for(const FederationFile& federation, const model::Trainer& trainer) {
  std::vector<outer::TensorRange> tensors;
  for (const auto& p : trainer.layout())
    tensors.push_back({static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.count), p.layer, kind_of(p)});
  return {tensors, federation.fragments, federation.fragmentation};
}

}  // namespace

InnerLoop::InnerLoop(const FederationFile& federation, const data::TokenFile& tokens, SiteId site, RankOf rank,
                     model::AverageInPlace average)
    : federation_(federation),
      tokens_(tokens),
      rank_(rank),
      average_(std::move(average)),
      order_(tokens.count(data::Part::training), federation.model.context, site,
             static_cast<std::uint32_t>(federation.sites.size()), federation.seed),
      trainer_(federation.model, federation.adamw, federation.seed),
      plan_(plan_for(federation, trainer_)),
      tokens_per_step_(static_cast<std::uint64_t>(federation.batch * federation.model.context)) {
  if (tokens.vocabulary() > federation.model.vocabulary)
    throw ConfigError("the token file does not fit the model",
                      "it has ids up to " + std::to_string(tokens.vocabulary() - 1) + ", model.vocabulary is " +
                          std::to_string(federation.model.vocabulary),
                      "set model.vocabulary = " + std::to_string(tokens.vocabulary()) + " on every site");
  if (federation.batch % rank.ranks != 0)
    throw ConfigError("inner.batch " + std::to_string(federation.batch) + " cannot be shared by " +
                          std::to_string(rank.ranks) + " ranks",
                      "every rank needs equally many sequences", "choose a multiple, or other ranks");
}

model::StepReport InnerLoop::step(double learning_rate) {
  const auto share = static_cast<std::uint64_t>(federation_.batch / rank_.ranks);
  const auto micro = std::min(share, static_cast<std::uint64_t>(federation_.micro_batch));
  const auto first = cursor_ + static_cast<std::uint64_t>(rank_.rank) * share;
  std::vector<model::Batch> batches;
  for (std::uint64_t done = 0; done < share; done += micro) {
    auto& batch = batches.emplace_back();
    for (auto i = done; i < std::min(share, done + micro); ++i)
      read(data::Part::training, order_.first_token(first + i), batch);
  }
  const auto report = trainer_.inner_step(batches, learning_rate, average_);
  cursor_ += static_cast<std::uint64_t>(federation_.batch);
  ++steps_;
  return report;
}

void InnerLoop::read(data::Part part, std::uint64_t first, model::Batch& batch) const {
  const auto columns = static_cast<std::size_t>(federation_.model.context + 1);
  const auto begin = batch.tokens.size();
  batch.tokens.resize(begin + columns);
  tokens_.read(part, first, std::span(batch.tokens).subspan(begin));
  ++batch.sequences;
}

store::Values InnerLoop::fragment(FragmentId fragment) {
  return std::make_shared<const std::vector<float>>(plan_.gather(trainer_.parameters(), fragment));
}

void InnerLoop::adopt(const federation::Adoption& adoption) {
  auto values = plan_.gather(trainer_.parameters(), adoption.fragment);
  if (!adoption.base)
    values = *adoption.anchor;
  else if (federation_.mixing == outer::Mixing::rebase)
    outer::rebase(values, *adoption.anchor, *adoption.base);
  else
    outer::blend(values, *adoption.anchor, federation_.alpha);
  replace(adoption.fragment, values);
}

void InnerLoop::replace(FragmentId fragment, std::span<const float> values) {
  plan_.scatter(values, fragment, trainer_.parameters());
}

void InnerLoop::resume(std::uint64_t steps, std::uint64_t cursor) {
  steps_ = steps;
  cursor_ = cursor;
}

std::vector<model::Batch> InnerLoop::validation(std::uint64_t batches) const {
  const auto context = static_cast<std::uint64_t>(federation_.model.context);
  const auto available = tokens_.count(data::Part::validation);
  if (available <= context)
    throw ConfigError(
        "the validation part is too short",
        "it has " + std::to_string(available) + " tokens, one sequence needs " + std::to_string(context + 1),
        "make a token file of more text, or with a larger --validation-share");
  std::vector<model::Batch> set;
  std::uint64_t next = 0;
  for (std::uint64_t b = 0; b < batches && next + context < available; ++b) {
    auto& batch = set.emplace_back();
    for (std::int64_t i = 0; i < federation_.micro_batch && next + context < available; ++i, next += context)
      read(data::Part::validation, next, batch);
  }
  return set;
}

namespace {

std::vector<federation::FragmentState> cut(const outer::FragmentPlan& plan, std::span<const float> parameters,
                                           std::size_t slots) {
  std::vector<federation::FragmentState> fragments;
  for (std::uint32_t f = 0; f < plan.count(); ++f)
    fragments.push_back(federation::FragmentState::initial(plan.gather(parameters, {f}), slots));
  return fragments;
}

}  // namespace

federation::ProtocolConfig protocol_config(const FederationFile& federation, const outer::FragmentPlan& plan) {
  auto config = federation.protocol;
  std::size_t largest = 0;
  for (std::uint32_t f = 0; f < plan.count(); ++f) {
    config.segments.push_back(plan.segments({f}));
    largest = std::max(largest, plan.size({f}));
  }
  // A snapshot of the largest fragment over the slowest link, behind one that goes first.
  const auto bits = static_cast<double>(largest * (1 + config.outer.slots()) * 8 * sizeof(float));
  const Seconds longest{2 * bits / (federation.slowest_link * 1e6)};
  config.resend_after = std::max(config.resend_after, 2 * longest);
  config.ask_again_after = std::max(config.ask_again_after, longest);
  config.join_patience = std::max(config.join_patience, 2 * longest);
  return config;
}

federation::ProtocolConfig protocol_config(const FederationFile& federation) {
  return protocol_config(federation, plan_for(federation, {federation.model, federation.adamw, federation.seed}));
}

std::vector<federation::FragmentState> initial_fragments(InnerLoop& loop) {
  return cut(loop.plan(), loop.trainer().parameters(), loop.federation().protocol.outer.slots());
}

std::vector<federation::FragmentState> initial_fragments(const FederationFile& federation) {
  model::Trainer trainer(federation.model, federation.adamw, federation.seed);
  return cut(plan_for(federation, trainer), trainer.parameters(), federation.protocol.outer.slots());
}

}  // namespace Atoll::app
