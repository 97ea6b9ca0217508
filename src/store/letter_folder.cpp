#include "atoll/store/letter_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <format>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <vector>

#include "atoll/store/digest.hpp"

namespace Atoll::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* advice = "free space there; a replay needs every letter";

std::vector<std::byte> image_of(const Letter& letter) {
  const auto count = [](const Values& values) { return values ? values->size() : 0; };
  std::vector<std::byte> image(
      image_bound(count(letter.values) + count(letter.momentum), letter.offers.size(), letter.fragments.size()));
  image.resize(encode(letter, image));
  return image;
}

// 0, or the errno of what failed.
int write_all(const fs::path& file, std::span<const std::byte> bytes) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return errno;
  int failed = 0;
  while (!bytes.empty() && failed == 0) {
    const auto written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) failed = errno;
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (::close(descriptor) != 0 && failed == 0) failed = errno;
  return failed;
}

// After a site came back from a checkpoint, letters of the same name may come anew.
fs::path unused_name(const fs::path& folder, const std::string& stem) {
  auto file = folder / (stem + ".h5");
  for (int again = 2; fs::exists(file); ++again) file = folder / std::format("{}-{}.h5", stem, again);
  return file;
}

}  // namespace

std::string LetterFolder::stem(const Letter& letter) {
  return std::format("{:04}-{:012}-{:04}-{:020}-{}", letter.fragment.value, letter.version, letter.site.value,
                     letter.serial, name_of(letter.kind));
}

KeptLetter LetterFolder::keep(const Letter& letter) const try {
  const auto image = image_of(letter);
  fs::create_directories(folder_);
  if (fs::space(folder_).available < reserve_ + image.size())
    throw SystemError("cannot keep a letter in " + folder_.string(), ENOSPC, advice);
  const auto file = unused_name(folder_, stem(letter));
  const auto part = folder_ / (file.filename().string() + ".part");
  if (const int failed = write_all(part, image); failed != 0) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw SystemError("cannot write " + part.string(), failed, advice);
  }
  fs::rename(part, file);
  return {file.filename().string(), digest_of({std::span<const std::byte>(image)}), image.size()};
} catch (const fs::filesystem_error& error) {
  throw SystemError("cannot keep a letter in " + folder_.string(), error.code().value(), advice);
}

Letter LetterFolder::read(const KeptLetter& kept) const {
  const auto file = folder_ / kept.file;
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw Error("the letter " + file.string() + " is missing", "the log says that it was kept", "restore it");
  std::vector<char> bytes(kept.bytes);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const bool whole = static_cast<std::uint64_t>(stream.gcount()) == kept.bytes && stream.peek() == EOF;
  const auto digest = digest_of({std::as_bytes(std::span<const char>(bytes))});
  if (!whole || digest != kept.digest)
    throw Error("the letter " + file.string() + " is damaged",
                whole ? "its digest is " + digest.hex() + ", kept was " + kept.digest.hex() : "it has another size",
                "restore it");
  try {
    return decode(std::as_bytes(std::span<const char>(bytes)));
  } catch (const LetterRefused& refused) {
    throw Error("the letter " + file.string() + " cannot be used", refused.what(), "see src/store/LETTER.md");
  }
}

}  // namespace Atoll::store
