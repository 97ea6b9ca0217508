#include <fstream>

#include "atoll/core/error.hpp"
#include "sample_checkpoint.hpp"

// samples FOLDER: writes one letter of each kind and a checkpoint there, to be read by others.
int main(int argc, char** argv) {
  using namespace Atoll::store;
  ATOLL_EXPECT(argc == 2, "usage: samples FOLDER");
  const std::filesystem::path folder = argv[1];
  for (const auto kind : {LetterKind::status, LetterKind::offer, LetterKind::commit, LetterKind::snapshot}) {
    const auto image = test::image_of(test::full_letter(kind));
    std::ofstream(folder / (std::string(name_of(kind)) + ".h5"), std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  }
  save(test::sample_checkpoint(1200), folder);
}
