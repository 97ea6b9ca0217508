#include <algorithm>
#include <array>
#include <cstring>

#include "atoll/store/letter.hpp"
#include "letter_image.hpp"

namespace Atoll::store {
namespace {

// Everything that HDF5 adds to the payload, measured at 4 KiB, rounded up generously for long names.
constexpr std::size_t image_overhead = 16 * 1024;

// Writes into the root of a new image.
class Root {
 public:
  explicit Root(hid_t file)
      : file_(file), scalar_(H5Screate(H5S_SCALAR), H5Sclose), creation_(property_list(H5P_DATASET_CREATE)) {
    check(H5Pset_layout(creation_, H5D_CONTIGUOUS));
    check(H5Pset_alloc_time(creation_, H5D_ALLOC_TIME_EARLY));
    check(H5Pset_fill_time(creation_, H5D_FILL_TIME_NEVER));
    check(H5Pset_obj_track_times(creation_, false));
  }

  void number(const char* name, std::uint64_t value) { attribute(name, H5T_STD_U64LE, &value); }
  void number32(const char* name, std::uint32_t value) { attribute(name, H5T_STD_U32LE, &value); }
  void text(const char* name, std::string_view value) {
    if (value.size() > longest_text) throw Hdf5Failure{std::string(name) + " is longer than 4096 bytes"};
    const std::string padded(value.empty() ? std::string(1, '\0') : std::string(value));
    attribute(name, text_type(value.size()), padded.data());
  }

  void rows(const char* name, hid_t type, std::size_t count, const void* data) {
    const hsize_t size = count;
    const Hid space(H5Screate_simple(1, &size, nullptr), H5Sclose);
    const Hid dataset(H5Dcreate2(file_, name, type, space, H5P_DEFAULT, creation_, H5P_DEFAULT), H5Dclose);
    if (count > 0) check(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
  }
  void values(const char* name, const Values& values) {
    if (values) rows(name, H5T_IEEE_F32LE, values->size(), values->data());
  }

 private:
  void attribute(const char* name, hid_t type, const void* value) {
    const Hid attribute(H5Acreate2(file_, name, type, scalar_, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    check(H5Awrite(attribute, type, value));
  }

  hid_t file_;
  Hid scalar_;
  Hid creation_;
};

void write_header(Root& root, const Letter& letter) {
  root.text("format", letter_format);
  root.number32("format_version", letter_format_version);
  root.text("kind", name_of(letter.kind));
  root.text("federation", letter.federation);
  root.text("configuration", letter.configuration.hex());
  root.number32("site", letter.site.value);
  root.number("incarnation", letter.incarnation);
  root.number32("fragment", letter.fragment.value);
  root.number("version", letter.version);
  root.text("parent", letter.parent.hex());
  root.text("anchor", letter.anchor.hex());
  root.number("serial", letter.serial);
  root.number("follows", letter.follows);
  root.number("steps", letter.steps);
  root.number("tokens", letter.tokens);
  root.number("inner_step", letter.inner_step);
  root.number("step_micros", letter.step_micros);
  root.number32("finished", letter.finished);
  root.number32("ready", letter.ready);
  root.number32("joining", letter.joining);
}

void write_offers(Root& root, const std::vector<OfferRecord>& offers) {
  if (offers.empty()) return;
  std::vector<OfferRow> rows;
  for (const auto& offer : offers)
    rows.push_back({offer.site.value, offer.weight, offer.serial, offer.steps, offer.tokens});
  root.rows("offers", offer_row_type(), rows.size(), rows.data());
}

void write_fragments(Root& root, const std::vector<FragmentStatus>& fragments) {
  if (fragments.empty()) return;
  std::vector<FragmentRow> rows;
  for (const auto& fragment : fragments) {
    FragmentRow row{fragment.version, {}, fragment.tokens_merged, fragment.receiver_version, {}};
    std::memcpy(row.anchor, fragment.anchor.hex().data(), sizeof row.anchor);
    std::memcpy(row.receiver_anchor, fragment.receiver_anchor.hex().data(), sizeof row.receiver_anchor);
    rows.push_back(row);
  }
  root.rows("fragments", fragment_row_type(), rows.size(), rows.data());
}

std::size_t write_image(const Letter& letter, ImageMemory& memory) {
  Hid file = create_image(memory);
  Root root(file);
  write_header(root, letter);
  write_offers(root, letter.offers);
  write_fragments(root, letter.fragments);
  root.values("values", letter.values);
  root.values("momentum", letter.momentum);
  check(H5Fflush(file, H5F_SCOPE_LOCAL));
  hsize_t size = 0;
  check(H5Fget_filesize(file, &size));
  file.free();
  return size;
}

}  // namespace

std::string_view name_of(LetterKind kind) {
  constexpr std::array<std::string_view, 8> names{"?",        "status", "offer",  "commit", "snapshot_request",
                                                  "snapshot", "leave",  "refusal"};
  const auto number = static_cast<std::size_t>(kind);
  return names[number < names.size() ? number : 0];
}

std::size_t image_bound(std::size_t values, std::size_t offers, std::size_t fragments) {
  return image_overhead + values * sizeof(float) + offers * sizeof(OfferRow) + fragments * sizeof(FragmentRow);
}

std::size_t encode(const Letter& letter, std::span<std::byte> memory) {
  const Hdf5Lock lock;
  ImageMemory image{memory};
  try {
    return write_image(letter, image);
  } catch (const Hdf5Failure& failure) {
    const std::string problem = "cannot write a letter of kind " + std::string(name_of(letter.kind));
    if (image.too_small)
      throw Error(problem, std::to_string(memory.size()) + " bytes are too few", "give it a larger slot");
    throw Error(problem, failure.why, "this is a defect of Atoll");
  }
}

}  // namespace Atoll::store
