#pragma once

#include <span>
#include <vector>

#include "atoll/federation/fragment_state.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::federation {

/// What the protocol's mathematics makes of one commit.
struct Repetition {
  std::vector<float> weights;  ///< of the offers that the commit names, by the rule, damped where they were late
  store::Values merged;        ///< from the offers; null when none were given
  FragmentState next;          ///< the outer step with the commit's own values
};

/// Does the work of Protocol::merge and Protocol::receive_commit once more, without their gates.
/// @param offers  those that `commit` names in the same order, or none
[[nodiscard]] Repetition repeat(const ProtocolConfig& config, const FragmentState& before, const store::Letter& commit,
                                std::span<const store::Letter> offers);

}  // namespace Atoll::federation
