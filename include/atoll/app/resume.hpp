#pragma once

#include <optional>
#include <vector>

#include "atoll/app/federation_file.hpp"
#include "atoll/app/inner_loop.hpp"
#include "atoll/federation/fragment_state.hpp"
#include "atoll/federation/protocol.hpp"
#include "atoll/store/checkpoint.hpp"

namespace Atoll::app {

/// Everything that a resumed site needs, as of now. @pre all adoptions of the protocol have been taken up by the loop
[[nodiscard]] store::Checkpoint checkpoint_of(InnerLoop& inner, const std::vector<federation::FragmentState>& fragments,
                                              const FederationFile& federation, SiteId site);

/// Puts the loop where the checkpoint was and gives the fragments back.
/// @throws ConfigError  the checkpoint is of another configuration, site or model
[[nodiscard]] std::vector<federation::FragmentState> resume_from(const store::Checkpoint& checkpoint, InnerLoop& inner,
                                                                 const FederationFile& federation, SiteId site);

/// The fragments alone, as the site that saved them had them.
[[nodiscard]] std::vector<federation::FragmentState> fragments_of(const store::Checkpoint& checkpoint);

}  // namespace Atoll::app
