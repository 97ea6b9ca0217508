#pragma once

namespace Atoll::app {

/// Takes SIGTERM, SIGINT and SIGUSR1 out of the hands of the system: from here on they only ask for an orderly end.
/// Made before any thread starts, so that all threads inherit the mask.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// True from the first signal on. Local, cheap.
  [[nodiscard]] bool arrived();

 private:
  int descriptor_ = -1;
  bool arrived_ = false;
};

}  // namespace Atoll::app
