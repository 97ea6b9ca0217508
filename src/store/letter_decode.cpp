#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>

#include "atoll/store/letter.hpp"
#include "letter_image.hpp"

namespace Atoll::store {
namespace {

constexpr std::array<unsigned char, 8> hdf5_signature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

[[noreturn]] void refuse(const char* reason, const std::string& detail) {
  throw LetterRefused(reason, detail);
}

// Reads from the root of an image. Nothing that the image claims is believed before it has been compared with what we
// write.
class Root {
 public:
  Root(hid_t file, std::size_t image_bytes) : file_(file), image_bytes_(image_bytes) {}

  [[nodiscard]] std::uint64_t number(const char* name) const { return scalar<std::uint64_t>(name, H5T_STD_U64LE); }
  [[nodiscard]] std::uint32_t number32(const char* name) const { return scalar<std::uint32_t>(name, H5T_STD_U32LE); }

  [[nodiscard]] std::string text(const char* name) const {
    const Hid attribute(H5Aopen(file_, name, H5P_DEFAULT), H5Aclose);
    const Hid type(H5Aget_type(attribute), H5Tclose);
    expect_scalar(attribute, name);
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0)
      refuse("layout", std::string(name) + " is no text");
    const std::size_t size = H5Tget_size(type);
    if (size == 0 || size > longest_text) refuse("layout", std::string(name) + " has an impossible length");
    const Hid expected = text_type(size);
    if (check(H5Tequal(type, expected)) == 0) refuse("layout", std::string(name) + " is another kind of text");
    std::string value(size, '\0');
    check(H5Aread(attribute, type, value.data()));
    value.erase(std::find(value.begin(), value.end(), '\0'), value.end());
    return value;
  }

  [[nodiscard]] Digest digest(const char* name) const { return parsed(text(name), name); }

  [[nodiscard]] static Digest parsed(std::string_view hex, const char* name) {
    try {
      return Digest::from_hex(hex);
    } catch (const Atoll::Error&) {
      refuse("layout", std::string(name) + " is no digest");
    }
  }

  template <class Row>
  [[nodiscard]] std::vector<Row> rows(const char* name, hid_t type) const {
    const Hid dataset(H5Dopen2(file_, name, H5P_DEFAULT), H5Dclose);
    std::vector<Row> rows(expect_plain(dataset, name, type));
    if (!rows.empty()) check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()));
    return rows;
  }

 private:
  template <class Number>
  Number scalar(const char* name, hid_t expected) const {
    const Hid attribute(H5Aopen(file_, name, H5P_DEFAULT), H5Aclose);
    const Hid type(H5Aget_type(attribute), H5Tclose);
    expect_scalar(attribute, name);
    if (check(H5Tequal(type, expected)) == 0) refuse("layout", std::string(name) + " has another type");
    Number value{};
    check(H5Aread(attribute, expected, &value));
    return value;
  }

  static void expect_scalar(hid_t attribute, const char* name) {
    const Hid space(H5Aget_space(attribute), H5Sclose);
    if (H5Sget_simple_extent_type(space) != H5S_SCALAR) refuse("layout", std::string(name) + " is no single value");
  }

  // One dimension, exactly our type, contiguous inside the image, no filter, no external file. Returns the number of
  // rows.
  std::size_t expect_plain(hid_t dataset, const char* name, hid_t expected) const {
    const Hid type(H5Dget_type(dataset), H5Tclose);
    const Hid space(H5Dget_space(dataset), H5Sclose);
    const Hid creation(H5Dget_create_plist(dataset), H5Pclose);
    if (check(H5Tequal(type, expected)) == 0) refuse("layout", std::string(name) + " has another type");
    if (H5Sget_simple_extent_ndims(space) != 1) refuse("layout", std::string(name) + " is not one-dimensional");
    if (H5Pget_layout(creation) != H5D_CONTIGUOUS || H5Pget_nfilters(creation) != 0 ||
        H5Pget_external_count(creation) != 0)
      refuse("layout", std::string(name) + " is not stored plainly");
    hsize_t count = 0;
    check(H5Sget_simple_extent_dims(space, &count, nullptr));
    const std::size_t row_bytes = H5Tget_size(expected);
    const auto offset = H5Dget_offset(dataset);
    if (count == 0) return 0;
    if (count > image_bytes_ / row_bytes || H5Dget_storage_size(dataset) != count * row_bytes ||
        offset > image_bytes_ || count * row_bytes > image_bytes_ - offset)
      refuse("size", std::string(name) + " reaches beyond the image");
    return count;
  }

  hid_t file_;
  std::size_t image_bytes_;
};

herr_t note_link(hid_t, const char* name, const H5L_info2_t* link, void* into) {
  (*static_cast<std::map<std::string, H5L_type_t>*>(into))[name] = link->type;
  return 0;
}

// The root's members, all of them plain datasets that a letter may have.
std::map<std::string, H5L_type_t> expect_members(hid_t file) {
  std::map<std::string, H5L_type_t> members;
  check(H5Literate2(file, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note_link, &members));
  for (const auto& [name, type] : members) {
    if (type != H5L_TYPE_HARD) refuse("link", "/" + name + " is a link to elsewhere");
    if (name != "offers" && name != "fragments" && name != "values" && name != "momentum")
      refuse("layout", "/" + name + " is no part of a letter");
    H5O_info2_t object;
    check(H5Oget_info_by_name3(file, name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT));
    if (object.type != H5O_TYPE_DATASET) refuse("layout", "/" + name + " is no dataset");
  }
  return members;
}

bool yes_or_no(const Root& root, const char* name) {
  const auto number = root.number32(name);
  if (number > 1) refuse("layout", std::string(name) + " is neither 0 nor 1");
  return number == 1;
}

LetterKind kind_named(const std::string& name) {
  for (std::uint32_t number = 1; number <= static_cast<std::uint32_t>(LetterKind::refusal); ++number)
    if (name_of(LetterKind{number}) == name) return LetterKind{number};
  refuse("kind", "its kind is '" + name + "'");
}

void expect_format(hid_t file, const Root& root) {
  if (check(H5Aexists(file, "format")) == 0 || root.text("format") != letter_format)
    refuse("format", "it is an HDF5 file, but no letter");
  const auto version = root.number32("format_version");
  if (version != letter_format_version)
    refuse("format_version", "it has format version " + std::to_string(version) + " and this program takes " +
                                 std::to_string(letter_format_version));
}

void read_header(const Root& root, Letter& letter) {
  letter.kind = kind_named(root.text("kind"));
  letter.federation = root.text("federation");
  letter.configuration = root.digest("configuration");
  letter.site.value = root.number32("site");
  letter.incarnation = root.number("incarnation");
  letter.fragment.value = root.number32("fragment");
  letter.version = root.number("version");
  letter.parent = root.digest("parent");
  letter.anchor = root.digest("anchor");
  letter.serial = root.number("serial");
  letter.follows = root.number("follows");
  letter.steps = root.number("steps");
  letter.tokens = root.number("tokens");
  letter.inner_step = root.number("inner_step");
  letter.step_micros = root.number("step_micros");
  letter.finished = yes_or_no(root, "finished");
  letter.ready = yes_or_no(root, "ready");
  letter.joining = yes_or_no(root, "joining");
}

Values read_values(const Root& root, const char* name) {
  return std::make_shared<const std::vector<float>>(root.rows<float>(name, H5T_IEEE_F32LE));
}

Letter read_image(ImageMemory& memory) {
  const Hid file = open_image(memory);
  const Root root(file, memory.bytes.size());
  expect_format(file, root);
  const auto members = expect_members(file);
  Letter letter;
  read_header(root, letter);
  if (members.contains("offers"))
    for (const auto& row : root.rows<OfferRow>("offers", offer_row_type()))
      letter.offers.push_back({SiteId{row.site}, row.serial, row.steps, row.tokens, row.weight});
  if (members.contains("fragments"))
    for (const auto& row : root.rows<FragmentRow>("fragments", fragment_row_type()))
      letter.fragments.push_back(
          {row.version, Root::parsed({row.anchor, sizeof row.anchor}, "/fragments"), row.tokens_merged,
           row.receiver_version, Root::parsed({row.receiver_anchor, sizeof row.receiver_anchor}, "/fragments")});
  if (members.contains("values")) letter.values = read_values(root, "values");
  if (members.contains("momentum")) letter.momentum = read_values(root, "momentum");
  return letter;
}

}  // namespace

LetterRefused::LetterRefused(std::string reason, const std::string& detail)
    : Error("letter refused", detail, "both sites must run the same version of atoll"), reason_(std::move(reason)) {}

Letter decode(std::span<const std::byte> image) {
  if (image.size() < hdf5_signature.size() ||
      std::memcmp(image.data(), hdf5_signature.data(), hdf5_signature.size()) != 0)
    refuse("not_hdf5", "it does not begin like an HDF5 file");
  const Hdf5Lock lock;
  // HDF5 asks for writable memory, but a file that is opened read only is never written.
  ImageMemory memory{{const_cast<std::byte*>(image.data()), image.size()}};
  try {
    return read_image(memory);
  } catch (const Hdf5Failure& failure) {
    refuse("damaged", failure.why);
  } catch (const std::bad_alloc&) {
    refuse("size", "it claims more memory than there is");
  }
}

}  // namespace Atoll::store
