#pragma once

#include <hdf5.h>

#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "atoll/store/error.hpp"

// Internal to store: the only door to HDF5.
namespace Atoll::store {

/// HDF5's own account of a call that failed; the public functions turn it into Error, SystemError or LetterRefused.
struct Hdf5Failure {
  std::string why;      ///< the innermost message
  int errno_value = 0;  ///< of the system call that failed, 0 if none did
};

/// What HDF5 remembers of this thread's last failed call.
[[nodiscard]] Hdf5Failure last_failure();

/// Throwing tier: passes a result through. @throws Hdf5Failure  it is negative
template <class Result>
Result check(Result result) {
  if (result < 0) throw last_failure();
  return result;
}

/// The one lock under which HDF5 is entered: an HDF5 that was built without thread safety is allowed. It may be taken
/// again by its holder. Also turns off HDF5's printing of errors and its loading of plugins.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Owns one HDF5 identifier of any kind; closing in the destructor never throws.
class Hid {
 public:
  using Close = herr_t (*)(hid_t);
  Hid() = default;
  /// Takes the result of a call that opens or creates. @throws Hdf5Failure  it is negative
  Hid(hid_t id, Close close) : id_(check(id)), close_(close) {}
  Hid(Hid&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hid& operator=(Hid&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hid() {
    const Hdf5Lock lock;
    if (id_ >= 0) close_(id_);
  }
  /// Closes now. @throws Hdf5Failure
  void free() {
    if (const auto id = std::exchange(id_, H5I_INVALID_HID); id >= 0) check(close_(id));
  }
  operator hid_t() const noexcept { return id_; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

[[nodiscard]] inline Hid property_list(hid_t kind) { return {H5Pcreate(kind), H5Pclose}; }

/// A fixed-length UTF-8 text of `bytes` bytes, at least one, padded with zeros.
[[nodiscard]] Hid text_type(std::size_t bytes);

/// Runs `body`; HDF5's failures and impossible sizes become an Error (SystemError when the system refused).
template <class Body>
auto explained(const std::string& problem, const std::string& advice, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Hdf5Failure& failure) {
    if (failure.errno_value != 0) throw SystemError(problem, failure.errno_value, advice);
    throw Error(problem, failure.why, advice);
  } catch (const std::bad_alloc&) {
    throw Error(problem, "not enough memory for the size it claims", advice);
  } catch (const std::length_error&) {
    throw Error(problem, "it claims an impossible size", advice);
  }
}

/// The same under the lock.
template <class Body>
auto entered(const std::string& problem, const std::string& advice, Body&& body) {
  const Hdf5Lock lock;
  return explained(problem, advice, std::forward<Body>(body));
}

}  // namespace Atoll::store
