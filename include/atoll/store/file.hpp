#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/core/quantities.hpp"
#include "atoll/store/error.hpp"

namespace Atoll::store {

/// What a dataset may hold; stored little endian, never converted.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, std::int32_t> || std::same_as<T, std::uint8_t> ||
                  std::same_as<T, std::uint16_t> || std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>;

/// What an attribute may hold. Texts are fixed-length UTF-8.
template <class T>
concept AttributeValue = std::same_as<T, std::string> || std::same_as<T, std::int64_t> ||
                         std::same_as<T, std::uint64_t> || std::same_as<T, double>;

using Shape = std::vector<std::uint64_t>;

/// How a dataset lies on disk. Every chunk carries a Fletcher-32 checksum.
enum class Packing { plain, deflated };

/// An HDF5 file: groups, attributes and datasets by their absolute path ("/fragments/0/anchor").
///
/// A created file is written aside: it appears under its own name, whole and synced, only by publish(); without that
/// the destructor removes what was written. Each call enters HDF5 under the process-wide lock and leaves it again, so a
/// long file does not keep another thread from its letters. Local; one thread at a time per File. Owns the handle.
///
/// The seal is a digest over everything in the file (CHECKPOINT.md says how), stored as the root's attribute "seal".
class File {
 public:
  /// Starts a new file beside `file`, as "<file>.part"; an older part is replaced, `file` itself stays as it is.
  /// @throws SystemError  the folder cannot be written
  [[nodiscard]] static File create(const std::filesystem::path& file);
  /// @throws Error  missing, truncated or no HDF5 file
  [[nodiscard]] static File open(const std::filesystem::path& file);
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  void create_group(const std::string& group);
  /// Writes a new dataset; parents are made. @pre the product of `shape` is values.size(); no shape = one dimension
  template <Element T>
  void write(const std::string& dataset, std::span<const T> values, Shape shape = {}, Packing packing = Packing::plain);
  /// Writes at the end of a one-dimensional dataset, which the first call makes.
  template <Element T>
  void append(const std::string& dataset, std::span<const T> values, Packing packing = Packing::deflated);
  /// Writes a new attribute of the group or dataset `object`, which exists ("/" is the root).
  template <AttributeValue T>
  void write_attribute(const std::string& object, const std::string& name, const T& value);
  /// Seals, closes, syncs, renames to the own name and syncs the folder; the File is then closed.
  /// @throws SystemError  disk full or file system gone: nothing is left and an older file of that name is untouched
  void publish();

  [[nodiscard]] bool has(const std::string& object) const;
  [[nodiscard]] bool has_attribute(const std::string& object, const std::string& name) const;
  /// Names of a group's members, sorted.
  [[nodiscard]] std::vector<std::string> members(const std::string& group) const;
  [[nodiscard]] Shape shape(const std::string& dataset) const;
  /// Bytes of one element of a dataset.
  [[nodiscard]] std::size_t element_bytes(const std::string& dataset) const;
  /// The whole dataset, row-major. @throws Error  missing, other type, or a checksum is wrong
  template <Element T>
  [[nodiscard]] std::vector<T> read(const std::string& dataset) const;
  /// into.size() values of a one-dimensional dataset from `first` on.
  template <Element T>
  void read(const std::string& dataset, std::uint64_t first, std::span<T> into) const;
  template <AttributeValue T>
  [[nodiscard]] T attribute(const std::string& object, const std::string& name) const;

  /// BLAKE2b-128 of a dataset's values as they lie in memory, row-major. Reads it unless it was read whole or verified
  /// before.
  [[nodiscard]] Digest digest(const std::string& dataset) const;
  /// The stored seal. @throws Error  there is none
  [[nodiscard]] Digest seal() const;
  /// Checks the seal against everything in the file; datasets that were read whole before are not read again.
  /// @throws Error  the file is damaged
  void verify() const;

 private:
  struct State;
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace Atoll::store
