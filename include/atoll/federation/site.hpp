#pragma once

#include <string>

namespace Atoll::federation {

/// One site as the federation file describes it, as far as links need it.
struct Site {
  std::string name;
  std::string host;            ///< where its gateway runs; empty on all sites: all on one machine
  std::string launch_agent;    ///< command that takes the place of ssh to reach this site; empty: ssh
  std::string program;         ///< path of atoll there; empty: the same as ours
  std::string mailboxes;       ///< root of its mailboxes there; empty: default_mailbox_root()
  std::string mpirun_options;  ///< more options for the pair worlds that this site dials
};

}  // namespace Atoll::federation
