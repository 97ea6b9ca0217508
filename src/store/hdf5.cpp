#include "hdf5.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace Atoll::store {
namespace {

int errno_in(std::string_view message) {
  constexpr std::string_view mark = "errno = ";
  int value = 0;
  if (const auto at = message.find(mark); at != std::string_view::npos)
    std::from_chars(message.data() + at + mark.size(), message.data() + message.size(), value);
  return value;
}

// The walk goes from the innermost message outwards.
herr_t collect(unsigned depth, const H5E_error2_t* entry, void* into) {
  auto& failure = *static_cast<Hdf5Failure*>(into);
  if (depth == 0) failure.why = entry->desc;
  if (failure.errno_value == 0) failure.errno_value = errno_in(entry->desc);
  return 0;
}

// HDF5 keeps state of its own for the whole process, so its lock has to be one, too.
std::recursive_mutex& process_wide_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

Hdf5Failure last_failure() {
  Hdf5Failure failure;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &failure);
  if (failure.why.empty()) failure.why = "HDF5 gives no reason";
  return failure;
}

Hdf5Lock::Hdf5Lock() : lock_(process_wide_mutex()) {
  // Printing is a property of the thread, hence every time. Plugins would run foreign code that a file asks for.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

Hid text_type(std::size_t bytes) {
  Hid type(H5Tcopy(H5T_C_S1), H5Tclose);
  check(H5Tset_size(type, std::max<std::size_t>(bytes, 1)));
  check(H5Tset_strpad(type, H5T_STR_NULLPAD));
  check(H5Tset_cset(type, H5T_CSET_UTF8));
  return type;
}

}  // namespace Atoll::store
