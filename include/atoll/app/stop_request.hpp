#pragma once

namespace Atoll::app {

/// While it lives, SIGTERM, SIGINT and SIGUSR1 to this process only ask for an orderly end. At most one at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// True from the first signal on, whichever thread the system gave it to. Local, cheap, any thread.
  [[nodiscard]] bool arrived() const;
};

}  // namespace Atoll::app
