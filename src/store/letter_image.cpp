#include "letter_image.hpp"

#include <cstring>

namespace Atoll::store {
namespace {

// HDF5's "core" driver keeps a file in one block of memory that it allocates through these functions. All of them
// answer with our block, so nothing is ever copied: not when the file grows, not when an image is handed in.
void* place(std::size_t size, H5FD_file_image_op_t, void* data) {
  auto& memory = *static_cast<ImageMemory*>(data);
  if (size <= memory.bytes.size()) return memory.bytes.data();
  memory.too_small = true;
  return nullptr;
}

void* grow(void*, std::size_t size, H5FD_file_image_op_t operation, void* data) { return place(size, operation, data); }

void* copy(void* to, const void* from, std::size_t size, H5FD_file_image_op_t, void*) {
  return to == from ? to : std::memcpy(to, from, size);
}

herr_t release(void*, H5FD_file_image_op_t, void*) { return 0; }
void* share_data(void* data) { return data; }
herr_t release_data(void*) { return 0; }

Hid image_access(ImageMemory& memory) {
  Hid access = property_list(H5P_FILE_ACCESS);
  constexpr std::size_t growth = 1;  // growing costs nothing here, and the size is then that of the content
  check(H5Pset_fapl_core(access, growth, 0));
  check(H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V110));
  H5FD_file_image_callbacks_t callbacks{place, copy, grow, release, share_data, release_data, &memory};
  check(H5Pset_file_image_callbacks(access, &callbacks));
  return access;
}

}  // namespace

Hid create_image(ImageMemory& memory) {
  const Hid access = image_access(memory);
  const Hid creation = property_list(H5P_FILE_CREATE);
  check(H5Pset_obj_track_times(creation, false));
  return {H5Fcreate("letter", H5F_ACC_TRUNC, creation, access), H5Fclose};
}

Hid open_image(ImageMemory& memory) {
  const Hid access = image_access(memory);
  check(H5Pset_file_image(access, memory.bytes.data(), memory.bytes.size()));
  return {H5Fopen("letter", H5F_ACC_RDONLY, access), H5Fclose};
}

Hid offer_row_type() {
  Hid type(H5Tcreate(H5T_COMPOUND, sizeof(OfferRow)), H5Tclose);
  check(H5Tinsert(type, "site", offsetof(OfferRow, site), H5T_STD_U32LE));
  check(H5Tinsert(type, "weight", offsetof(OfferRow, weight), H5T_IEEE_F32LE));
  check(H5Tinsert(type, "serial", offsetof(OfferRow, serial), H5T_STD_U64LE));
  check(H5Tinsert(type, "steps", offsetof(OfferRow, steps), H5T_STD_U64LE));
  check(H5Tinsert(type, "tokens", offsetof(OfferRow, tokens), H5T_STD_U64LE));
  return type;
}

Hid fragment_row_type() {
  const Hid digest = text_type(sizeof FragmentRow::anchor);
  Hid type(H5Tcreate(H5T_COMPOUND, sizeof(FragmentRow)), H5Tclose);
  check(H5Tinsert(type, "version", offsetof(FragmentRow, version), H5T_STD_U64LE));
  check(H5Tinsert(type, "anchor", offsetof(FragmentRow, anchor), digest));
  check(H5Tinsert(type, "tokens_merged", offsetof(FragmentRow, tokens_merged), H5T_STD_U64LE));
  check(H5Tinsert(type, "receiver_version", offsetof(FragmentRow, receiver_version), H5T_STD_U64LE));
  check(H5Tinsert(type, "receiver_anchor", offsetof(FragmentRow, receiver_anchor), digest));
  return type;
}

}  // namespace Atoll::store
