#include "atoll/mpi/environment.hpp"

#include <cstdio>
#include <exception>

#include "door.hpp"

namespace Atoll::mpi {

Environment::Environment() {
  int provided = MPI_THREAD_SINGLE;
  require_success(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED)
    throw Error("MPI_Init_thread", MPI_ERR_OTHER, "this MPI library lacks MPI_THREAD_FUNNELED");
  require_success(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require_success(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Environment::~Environment() {
  if (abandoned_ || std::uncaught_exceptions() > 0) return;
  if (MPI_Finalize() != MPI_SUCCESS) std::fputs("atoll: MPI_Finalize failed\n", stderr);
}

void Environment::abandon() noexcept { abandoned_ = true; }

}  // namespace Atoll::mpi
