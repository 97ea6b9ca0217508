#pragma once

#include <span>

namespace Atoll::outer {

/// Copies values past the processor's caches: for results that are too large to be read again from there. It spares
/// memory the read of what is overwritten. `to` has the size of `from` and lies elsewhere. Local, any thread.
void stream_copy(std::span<const float> from, std::span<float> to);

}  // namespace Atoll::outer
