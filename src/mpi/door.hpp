#pragma once

// Inside the door: the only files that include <mpi.h> are those of src/mpi.

#include <mpi.h>
#include <mpi-ext.h>  // needs mpi.h before it

#include <cstddef>
#include <memory>

#include "atoll/mpi/communicator.hpp"
#include "atoll/mpi/error.hpp"
#include "atoll/mpi/request.hpp"

namespace Atoll::mpi {

/// Throws PeerLost or Error when `code` is not success.
void require_success(int code, const char* call);

/// Largest piece that one MPI call moves [bytes]; counts of MPI 3.1 have 31 bits.
inline constexpr std::size_t largest_piece = std::size_t{1} << 30;

struct Request::State {
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Communicator::State {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
};

}  // namespace Atoll::mpi
