#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "atoll/core/quantities.hpp"
#include "atoll/store/letter.hpp"

namespace Atoll::store {

/// One letter on disk.
struct KeptLetter {
  std::string file;  ///< its name in the folder
  Digest digest;     ///< of the file's bytes
  std::uint64_t bytes = 0;
};

/// Letters kept on disk, one HDF5 file image each (LETTER.md says its form and its name). One process writes; local;
/// one thread at a time.
class LetterFolder {
 public:
  /// The folder is made with the first letter. @param reserve  what stays free on its disk for others [bytes]
  explicit LetterFolder(std::filesystem::path folder = {}, std::uint64_t reserve = 0)
      : folder_(std::move(folder)), reserve_(reserve) {}

  /// Written aside and renamed; never over another file. Not synced: a power failure may cost the last ones.
  /// @throws SystemError  disk full, no room beside the reserve, file system gone; nothing is left behind
  [[nodiscard]] KeptLetter keep(const Letter& letter) const;

  /// @throws Error  the file is missing, its bytes are not those that were kept, or they are no letter
  [[nodiscard]] Letter read(const KeptLetter& kept) const;

  /// "<fragment>-<version>-<site>-<serial>-<kind>": all numbers with leading zeros, so that names sort.
  [[nodiscard]] static std::string stem(const Letter& letter);

 private:
  std::filesystem::path folder_;
  std::uint64_t reserve_;
};

}  // namespace Atoll::store
