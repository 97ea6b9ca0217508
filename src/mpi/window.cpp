#include "atoll/mpi/window.hpp"

#include "door.hpp"

namespace Atoll::mpi {

struct Window::State {
  MPI_Win window = MPI_WIN_NULL;
};

Window::Window(const Communicator& communicator, std::span<std::byte> memory) : state_(std::make_unique<State>()) {
  require_success(MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size()), 1, MPI_INFO_NULL,
                                 communicator.state_->communicator, &state_->window),
                  "MPI_Win_create");
  require_success(MPI_Win_set_errhandler(state_->window, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  require_success(MPI_Win_lock_all(MPI_MODE_NOCHECK, state_->window), "MPI_Win_lock_all");
}

Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

Request Window::put(std::span<const std::byte> bytes, int rank, std::uint64_t offset) {
  ATOLL_EXPECT(bytes.size() <= largest_piece, "one put is at most 1 GiB");
  const int count = static_cast<int>(bytes.size());
  auto request = std::make_unique<Request::State>();
  require_success(MPI_Rput(bytes.data(), count, MPI_BYTE, rank, static_cast<MPI_Aint>(offset), count, MPI_BYTE,
                           state_->window, &request->request),
                  "MPI_Rput");
  return Request(std::move(request));
}

}  // namespace Atoll::mpi
