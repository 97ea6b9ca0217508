#include "atoll/mpi/error.hpp"

#include "door.hpp"

namespace Atoll::mpi {

Error::Error(const std::string& call, int error_class, const std::string& text)
    : Atoll::Error(call + " failed (" + text + ") see the log of mpirun"), call_(call), error_class_(error_class) {}

void require_success(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &error_class);
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  if (error_class == MPIX_ERR_PROC_FAILED || error_class == MPIX_ERR_PROC_FAILED_PENDING ||
      error_class == MPIX_ERR_REVOKED)
    throw PeerLost(call, error_class, text);
  throw Error(call, error_class, text);
}

}  // namespace Atoll::mpi
