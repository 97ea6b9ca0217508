#include "atoll/mpi/communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "door.hpp"

namespace Atoll::mpi {
namespace {

/// Elements that sum() works on at a time: bounds its scratch memory to twice 16 MiB.
constexpr std::size_t elements_at_once = std::size_t{4} << 20;

/// Sums `values` over all ranks: every rank adds one block, in the order of ranks, and the blocks are then gathered.
/// MPI_Allreduce moves as little but may add in another order when the number of ranks or the library changes.
void sum_in_order(MPI_Comm communicator, std::span<float> values, std::size_t ranks) {
  const std::size_t block = (values.size() + ranks - 1) / ranks;
  const int count = static_cast<int>(block);
  std::vector<float> padded(block * ranks), parts(block * ranks);
  std::copy(values.begin(), values.end(), padded.begin());
  require_success(MPI_Alltoall(padded.data(), count, MPI_FLOAT, parts.data(), count, MPI_FLOAT, communicator),
                  "MPI_Alltoall");
  for (std::size_t rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < block; ++i) parts[i] += parts[rank * block + i];
  require_success(MPI_Allgather(parts.data(), count, MPI_FLOAT, padded.data(), count, MPI_FLOAT, communicator),
                  "MPI_Allgather");
  std::copy_n(padded.begin(), values.size(), values.begin());
}

}  // namespace

Communicator::Communicator(std::unique_ptr<State> state) : state_(std::move(state)) {
  require_success(MPI_Comm_set_errhandler(state_->communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require_success(MPI_Comm_rank(state_->communicator, &state_->rank), "MPI_Comm_rank");
  require_success(MPI_Comm_size(state_->communicator, &state_->size), "MPI_Comm_size");
}

Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::world() {
  auto state = std::make_unique<State>();
  require_success(MPI_Comm_dup(MPI_COMM_WORLD, &state->communicator), "MPI_Comm_dup");
  return Communicator(std::move(state));
}

int Communicator::rank() const noexcept {
  return state_->rank;
}
int Communicator::size() const noexcept {
  return state_->size;
}

void Communicator::barrier() const {
  require_success(MPI_Barrier(state_->communicator), "MPI_Barrier");
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) const {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), largest_piece));
    require_success(MPI_Bcast(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, root, state_->communicator),
                    "MPI_Bcast");
    bytes = bytes.subspan(piece.size());
  }
}

void Communicator::sum(std::span<float> values) const {
  if (size() == 1) return;
  while (!values.empty()) {
    const auto piece = values.first(std::min(values.size(), elements_at_once));
    sum_in_order(state_->communicator, piece, static_cast<std::size_t>(size()));
    values = values.subspan(piece.size());
  }
}

void Communicator::mean(std::span<float> values) const {
  sum(values);
  const auto ranks = static_cast<float>(size());
  for (float& value : values) value /= ranks;
}

std::uint64_t Communicator::max(std::uint64_t value) const {
  std::uint64_t largest = 0;
  require_success(MPI_Allreduce(&value, &largest, 1, MPI_UINT64_T, MPI_MAX, state_->communicator), "MPI_Allreduce");
  return largest;
}

double Communicator::sum(double value) const {
  std::vector<double> all(static_cast<std::size_t>(size()));
  require_success(MPI_Allgather(&value, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, state_->communicator),
                  "MPI_Allgather");
  double total = 0;
  for (const double part : all) total += part;
  return total;
}

Request Communicator::send(std::span<const std::byte> bytes, int to, int tag) const {
  ATOLL_EXPECT(bytes.size() <= largest_piece, "one message is at most 1 GiB");
  auto request = std::make_unique<Request::State>();
  require_success(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, state_->communicator,
                            &request->request),
                  "MPI_Isend");
  return Request(std::move(request));
}

Request Communicator::receive(std::span<std::byte> bytes, int from, int tag) const {
  ATOLL_EXPECT(bytes.size() <= largest_piece, "one message is at most 1 GiB");
  auto request = std::make_unique<Request::State>();
  require_success(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, tag, state_->communicator,
                            &request->request),
                  "MPI_Irecv");
  return Request(std::move(request));
}

void Communicator::abort(int status) const {
  MPI_Abort(state_->communicator, status);
  std::_Exit(status);
}

int Communicator::failed() const {
  MPI_Group group = MPI_GROUP_NULL;
  require_success(MPIX_Comm_get_failed(state_->communicator, &group), "MPIX_Comm_get_failed");
  int ranks = 0;
  require_success(MPI_Group_size(group, &ranks), "MPI_Group_size");
  require_success(MPI_Group_free(&group), "MPI_Group_free");
  return ranks;
}

void Communicator::free() {
  require_success(MPI_Comm_free(&state_->communicator), "MPI_Comm_free");
  state_.reset();
}

}  // namespace Atoll::mpi
