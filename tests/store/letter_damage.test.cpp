#include <gtest/gtest.h>

#include <hdf5.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "atoll/store/letter.hpp"
#include "sample_letters.hpp"

// The images here are made or changed with plain HDF5, as a faulty or foreign sender would.
namespace Atoll::store::test {
namespace {

using Bytes = std::vector<std::byte>;

/// The image after `change` was let loose on it.
Bytes changed(const Bytes& image, const std::function<void(hid_t file)>& change) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, 4096, false);
  H5Pset_file_image(access, const_cast<std::byte*>(image.data()), image.size());
  const hid_t file = H5Fopen("changed", H5F_ACC_RDWR, access);
  change(file);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  Bytes result(static_cast<std::size_t>(H5Fget_file_image(file, nullptr, 0)));
  H5Fget_file_image(file, result.data(), result.size());
  H5Fclose(file);
  H5Pclose(access);
  return result;
}

void replace_number(hid_t file, const char* name, hid_t type, const void* value) {
  H5Adelete(file, name);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, value);
  H5Aclose(attribute);
  H5Sclose(space);
}

void replace_dataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                     hid_t creation = H5P_DEFAULT) {
  H5Ldelete(file, name, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  H5Dclose(H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  H5Sclose(space);
}

std::string refusal(const Bytes& image) {
  try {
    (void)decode(image);
  } catch (const LetterRefused& refused) {
    EXPECT_NE(std::string(refused.what()).find("letter refused ("), std::string::npos);
    return refused.reason();
  }
  return "";
}

class DamagedLetter : public testing::Test {
 protected:
  const Bytes image = image_of(full_letter(LetterKind::snapshot, 16));
};

TEST_F(DamagedLetter, WhatIsNoHdf5FileIsRefused) {
  EXPECT_EQ(refusal({}), "not_hdf5");
  EXPECT_EQ(refusal(Bytes(1000, std::byte{'x'})), "not_hdf5");
}

TEST_F(DamagedLetter, AnotherHdf5FileIsRefused) {
  EXPECT_EQ(refusal(changed(image, [](hid_t file) { H5Adelete(file, "format"); })), "format");
}

TEST_F(DamagedLetter, AnUnknownFormatVersionIsRefused) {
  const std::uint32_t version = 99;
  EXPECT_EQ(
      refusal(changed(image, [&](hid_t file) { replace_number(file, "format_version", H5T_STD_U32LE, &version); })),
      "format_version");
}

TEST_F(DamagedLetter, AMissingFieldIsRefused) {
  EXPECT_EQ(refusal(changed(image, [](hid_t file) { H5Adelete(file, "serial"); })), "damaged");
}

TEST_F(DamagedLetter, AFieldOfAnotherTypeIsRefused) {
  const double serial = 7;
  EXPECT_EQ(refusal(changed(image, [&](hid_t file) { replace_number(file, "serial", H5T_IEEE_F64LE, &serial); })),
            "layout");
  EXPECT_EQ(refusal(changed(image, [&](hid_t file) { replace_number(file, "kind", H5T_IEEE_F64LE, &serial); })),
            "layout");
}

TEST_F(DamagedLetter, AnUnknownKindIsRefused) {
  EXPECT_EQ(refusal(changed(image, [](hid_t file) {
              const hid_t attribute = H5Aopen(file, "kind", H5P_DEFAULT), type = H5Aget_type(attribute);
              H5Awrite(attribute, type, "gossip\0\0");
              H5Tclose(type);
              H5Aclose(attribute);
            })),
            "kind");
}

TEST_F(DamagedLetter, ValuesOfAnotherTypeOrRankAreRefused) {
  EXPECT_EQ(refusal(changed(image, [](hid_t file) { replace_dataset(file, "values", H5T_IEEE_F64LE, {16}); })),
            "layout");
  EXPECT_EQ(refusal(changed(image,
                            [](hid_t file) {
                              replace_dataset(file, "values", H5T_IEEE_F32LE, {4, 4});
                            })),
            "layout");
}

TEST_F(DamagedLetter, ValuesThatNeedAFilterAreRefused) {
  EXPECT_EQ(refusal(changed(image,
                            [](hid_t file) {
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              const hsize_t chunk = 16;
                              H5Pset_chunk(creation, 1, &chunk);
                              H5Pset_deflate(creation, 1);
                              replace_dataset(file, "values", H5T_IEEE_F32LE, {16}, creation);
                              H5Pclose(creation);
                            })),
            "layout");
}

TEST_F(DamagedLetter, ValuesInAnotherFileAreRefused) {
  EXPECT_EQ(refusal(changed(image,
                            [](hid_t file) {
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              H5Pset_external(creation, "/etc/passwd", 0, 64);
                              replace_dataset(file, "values", H5T_IEEE_F32LE, {16}, creation);
                              H5Pclose(creation);
                            })),
            "layout");
}

TEST_F(DamagedLetter, LinksToElsewhereAreRefused) {
  EXPECT_EQ(
      refusal(changed(image, [](hid_t file) { H5Lcreate_soft("/momentum", file, "extra", H5P_DEFAULT, H5P_DEFAULT); })),
      "link");
  EXPECT_EQ(refusal(changed(image, [](hid_t file) {
              H5Lcreate_external("other.h5", "/values", file, "extra", H5P_DEFAULT, H5P_DEFAULT);
            })),
            "link");
}

TEST_F(DamagedLetter, UnknownMembersAndGroupsAreRefused) {
  const auto group_named = [](const char* name) {
    return [name](hid_t file) {
      H5Ldelete(file, "values", H5P_DEFAULT);
      H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    };
  };
  EXPECT_EQ(refusal(changed(image, group_named("extra"))), "layout");
  EXPECT_EQ(refusal(changed(image, group_named("values"))), "layout");
}

TEST_F(DamagedLetter, ATruncatedImageIsRefused) {
  for (std::size_t size = 0; size < image.size(); size += 61)
    EXPECT_NE(refusal(Bytes(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size))), "") << size;
}

// A letter's checksum is compared before HDF5 sees the bytes; this is what happens to those that get past it.
TEST_F(DamagedLetter, FlippedBitsNeverCrash) {
  const char* rounds = std::getenv("ATOLL_DAMAGE_ROUNDS");
  std::mt19937_64 random(20261201);
  std::size_t decoded = 0, refused = 0;
  for (int round = rounds ? std::atoi(rounds) : 10'000; round > 0; --round) {
    Bytes mutant = image;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      const auto bit = random() % (8 * mutant.size());
      mutant[bit / 8] ^= std::byte(1 << bit % 8);
    }
    if (random() % 8 == 0) mutant.resize(random() % mutant.size());
    ++(refusal(mutant).empty() ? decoded : refused);
  }
  EXPECT_GT(decoded, 0u);
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace Atoll::store::test
