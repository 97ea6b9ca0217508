#include "atoll/mpi/request.hpp"

#include "door.hpp"

namespace Atoll::mpi {

Request::Request() noexcept = default;
Request::Request(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

bool Request::test() {
  if (!state_) return true;
  int complete = 0;
  require_success(MPI_Test(&state_->request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
  if (complete) state_.reset();
  return complete != 0;
}

}  // namespace Atoll::mpi
