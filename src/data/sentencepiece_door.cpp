#include "sentencepiece_door.hpp"

#include <filesystem>

#include <dlfcn.h>

#include "atoll/core/error.hpp"

namespace Atoll::data {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int binding = RTLD_NOW | RTLD_LOCAL;  // AddressSanitizer refuses the other flag
#else
constexpr int binding = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;  // its own protobuf before that of LibTorch
#endif

const SentencePieceDoor* load() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string why;
  for (const auto& folder : {program, program.parent_path() / "lib" / "atoll"}) {
    void* library = dlopen((folder / "libatoll_sentencepiece.so").c_str(), binding);
    if (library == nullptr) {
      why += (why.empty() ? "" : "; ") + std::string(dlerror());
      continue;
    }
    using Offer = const SentencePieceDoor* (*)();
    if (const auto offer = reinterpret_cast<Offer>(dlsym(library, "atoll_sentencepiece_door"))) return offer();
    why = dlerror();
  }
  throw Error("cannot use SentencePiece (" + why + ") install Atoll completely, or use byte-level tokens");
}

}  // namespace

const SentencePieceDoor& sentencepiece_door() {
  static const SentencePieceDoor* const door = load();
  return *door;
}

}  // namespace Atoll::data
