#pragma once

#include <span>

namespace Atoll::outer {

/// How a site's parameters take up a new anchor.
enum class Mixing {
  rebase,  ///< new anchor plus the local progress that is not in it
  blend,   ///< new anchor + alpha (parameters - new anchor), alpha 0 = take the anchor, 1 = keep the parameters
};

/// parameters <- anchor + (parameters - base); exactly the anchor where parameters equal base.
void rebase(std::span<float> parameters, std::span<const float> anchor, std::span<const float> base);

/// parameters <- anchor + alpha (parameters - anchor) (Streaming DiLoCo, section 2.4).
void blend(std::span<float> parameters, std::span<const float> anchor, float alpha);

}  // namespace Atoll::outer
