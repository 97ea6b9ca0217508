#pragma once

#include <string>

#include "atoll/store/checkpoint.hpp"
#include "sample_letters.hpp"

namespace Atoll::store::test {

/// A small checkpoint in which every field differs from its default.
inline Checkpoint sample_checkpoint(std::uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.configuration_digest = digest_of("configuration").hex();
  checkpoint.configuration = "[model]\nlayers = 2\n";
  checkpoint.federation = "two-sites";
  checkpoint.site = "alpha";
  checkpoint.program_version = "0.1.0";
  checkpoint.step = step;
  checkpoint.data_cursor = 12;
  checkpoint.tokens = 34'567;
  checkpoint.optimizer_steps = 89;
  checkpoint.random_state = "seed 17";
  checkpoint.tensors = {
      {"embedding.weight", {8, 4}, 0}, {"layers.0.norm.weight", {4}, 32}, {"head.weight", {4, 2}, 36}};
  checkpoint.parameters = *ramp(44, static_cast<float>(step));
  checkpoint.first_moment = *ramp(44, 0.5f);
  checkpoint.second_moment = *ramp(44, 0.25f);

  FragmentCheckpoint first;
  first.version = 3;
  first.anchor_digest = digest_of("anchor 3");
  first.tokens_merged = 9000;
  first.steps_since_base = 11;
  first.tokens_since_base = 1100;
  first.anchor = ramp(32, 2);
  first.momentum = ramp(32, 3);
  first.residual = ramp(32, 4);
  first.merged = {{SiteId{0}, 6, 30, 1000, 0.25f}, {SiteId{1}, 7, 29, 3000, 0.75f}};
  first.recent = {{2, digest_of("anchor 2")}, {3, digest_of("anchor 3")}};
  first.outstanding = OutstandingOffer{4, 30, 3000, 2, ramp(32, 5)};
  first.own_work = {{{7, 7, 40, 4000, nullptr}, {9, 7, 70, 7000, ramp(32, 6)}}, 80, 8000, 10, 1000};
  FragmentCheckpoint second;
  second.anchor = ramp(12, 6);
  second.momentum = ramp(12, 0);
  checkpoint.fragments = {first, second};
  return checkpoint;
}

}  // namespace Atoll::store::test
