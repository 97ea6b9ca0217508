#include <ATen/Parallel.h>

#include <dlfcn.h>

#include "atoll/model/trainer.hpp"

namespace Atoll::model {

void limit_threads(int threads) {
  at::set_num_threads(threads);
  // LibTorch does not tell an OpenBLAS that has threads of its own, and that one read its environment before main().
  using SetThreads = void (*)(int);
  if (const auto set_threads = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set_threads(threads);
}

}  // namespace Atoll::model
