#pragma once

#include <map>
#include <optional>

#include "atoll/store/file.hpp"
#include "digest_stream.hpp"
#include "hdf5.hpp"

// Internal to store: what file.cpp and file_seal.cpp share.
namespace Atoll::store {

/// The element types by their HDF5 form and by their name in seals.
struct ElementType {
  const char* name;
  hid_t stored;
  std::size_t bytes;
};
template <Element T>
[[nodiscard]] ElementType element_type();
/// The element type of an open dataset. @throws Hdf5Failure  it is none of ours
[[nodiscard]] ElementType element_type_of(hid_t dataset);

/// A dataset that is read or appended to stays open: its chunk cache makes scattered reads cheap.
struct OpenDataset {
  Hid id;
  std::uint64_t count = 0;            ///< appended so far
  std::optional<DigestStream> bytes;  ///< of what was appended so far
};

struct File::State {
  std::filesystem::path file;  ///< under its own name
  std::filesystem::path part;  ///< where it is written; empty when opened for reading
  Hid id;
  std::map<std::string, OpenDataset> datasets;
  std::map<std::string, Digest> known;  ///< digests of datasets that were written or read whole, for the seal

  ~State();
  /// Closes everything that is open. @throws Hdf5Failure
  void close();
  [[nodiscard]] hid_t dataset(const std::string& path);
  [[nodiscard]] std::string where(const std::string& object) const { return object + " of " + file.string(); }
  /// Seal of what HDF5 finds in the file, with the datasets' digests from `known`, which has them all. @throws
  /// Hdf5Failure
  [[nodiscard]] Digest seal_of_content();
};

[[nodiscard]] std::vector<std::uint64_t> shape_of(hid_t dataset);
inline constexpr const char* seal_attribute = "seal";
inline constexpr const char* damaged_file_advice = "use another copy of the file";

}  // namespace Atoll::store
