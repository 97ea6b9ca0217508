#include <array>
#include <set>

#include "atoll/store/digest.hpp"
#include "file_state.hpp"

namespace Atoll::store {
namespace {

constexpr std::size_t deepest_group = 16;
constexpr std::size_t piece_bytes = 4 << 20;

const std::array<ElementType, 6>& element_types() {
  static const std::array<ElementType, 6> types{{{"float32", H5T_IEEE_F32LE, 4},
                                                 {"int32", H5T_STD_I32LE, 4},
                                                 {"uint8", H5T_STD_U8LE, 1},
                                                 {"uint16", H5T_STD_U16LE, 2},
                                                 {"uint32", H5T_STD_U32LE, 4},
                                                 {"uint64", H5T_STD_U64LE, 8}}};
  return types;
}

// Lines that describe all there is, in a set so that their order is their spelling.
using Lines = std::set<std::string>;

herr_t note_name(hid_t, const char* name, const H5L_info2_t* link, void* into) {
  // A link to elsewhere would bring in what the seal does not cover.
  if (link->type == H5L_TYPE_HARD) return static_cast<std::set<std::string>*>(into)->insert(name), 0;
  return -1;
}

std::set<std::string> names_in(hid_t group) {
  std::set<std::string> names;
  check(H5Literate2(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note_name, &names));
  return names;
}

void read_piece(hid_t dataset, const ElementType& type, const std::vector<hsize_t>& first,
                const std::vector<hsize_t>& count, std::byte* into) {
  const Hdf5Lock lock;
  const Hid space(H5Dget_space(dataset), H5Sclose);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr));
  const Hid memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
  check(H5Dread(dataset, type.stored, memory, space, H5P_DEFAULT, into));
}

// The bytes of a dataset, read in pieces along its first dimension. Between two pieces other threads may enter HDF5.
Digest digest_of_dataset(hid_t dataset, const ElementType& type) {
  const auto shape = shape_of(dataset);
  std::vector<hsize_t> first(shape.size(), 0), count(shape.begin(), shape.end());
  std::size_t row_bytes = type.bytes;
  for (std::size_t d = 1; d < shape.size(); ++d) row_bytes *= shape[d];
  DigestStream stream;
  if (shape.empty() || row_bytes == 0) return stream.finish();

  const hsize_t most = std::max<std::size_t>(piece_bytes / row_bytes, 1);
  std::vector<std::byte> piece(std::min<std::size_t>(most, shape[0]) * row_bytes);
  for (; first[0] < shape[0]; first[0] += count[0]) {
    count[0] = std::min<hsize_t>(most, shape[0] - first[0]);
    read_piece(dataset, type, first, count, piece.data());
    stream.add(std::span(piece).first(count[0] * row_bytes));
  }
  return stream.finish();
}

std::string attribute_type_name(hid_t type) {
  if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0) return "text";
  if (check(H5Tequal(type, H5T_STD_I64LE)) > 0) return "int64";
  if (check(H5Tequal(type, H5T_STD_U64LE)) > 0) return "uint64";
  if (check(H5Tequal(type, H5T_IEEE_F64LE)) > 0) return "float64";
  throw Hdf5Failure{"an attribute has a type that Atoll does not write"};
}

void describe_attributes(hid_t object, const std::string& path, Lines& lines) {
  H5O_info2_t info;
  check(H5Oget_info3(object, &info, H5O_INFO_NUM_ATTRS));
  for (hsize_t index = 0; index < info.num_attrs; ++index) {
    const Hid attribute(H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, index, H5P_DEFAULT, H5P_DEFAULT),
                        H5Aclose);
    std::string name(static_cast<std::size_t>(check(H5Aget_name(attribute, 0, nullptr))), '\0');
    check(H5Aget_name(attribute, name.size() + 1, name.data()));
    if (path == "/" && name == seal_attribute) continue;
    const Hid type(H5Aget_type(attribute), H5Tclose);
    const Hid space(H5Aget_space(attribute), H5Sclose);
    if (H5Sget_simple_extent_type(space) != H5S_SCALAR) throw Hdf5Failure{"attribute " + name + " is no single value"};
    std::vector<std::byte> value(H5Tget_size(type));
    check(H5Aread(attribute, type, value.data()));
    lines.insert("attribute " + path + "@" + name + " " + attribute_type_name(type) + " " + digest_of({value}).hex() +
                 "\n");
  }
}

std::string child(const std::string& path, const std::string& name) { return (path == "/" ? path : path + "/") + name; }

bool is_dataset(hid_t object, const std::string& path, std::size_t depth) {
  if (depth > deepest_group) throw Hdf5Failure{"its groups are nested too deeply"};
  const auto type = H5Iget_type(object);
  if (type != H5I_DATASET && type != H5I_GROUP) throw Hdf5Failure{path + " is neither group nor dataset"};
  return type == H5I_DATASET;
}

void note_datasets(hid_t object, const std::string& path, std::vector<std::string>& paths, std::size_t depth) {
  if (is_dataset(object, path, depth)) return paths.push_back(path);
  for (const auto& name : names_in(object))
    note_datasets(Hid(H5Oopen(object, name.c_str(), H5P_DEFAULT), H5Oclose), child(path, name), paths, depth + 1);
}

void describe_dataset(hid_t dataset, const std::string& path, const Digest& bytes, Lines& lines) {
  std::string shape;
  for (const auto size : shape_of(dataset)) shape += (shape.empty() ? "" : "x") + std::to_string(size);
  lines.insert("dataset " + path + " " + element_type_of(dataset).name + " " + shape + " " + bytes.hex() + "\n");
}

void describe(hid_t object, const std::string& path, const std::map<std::string, Digest>& known, Lines& lines,
              std::size_t depth) {
  describe_attributes(object, path, lines);
  if (is_dataset(object, path, depth)) return describe_dataset(object, path, known.at(path), lines);
  for (const auto& name : names_in(object))
    describe(Hid(H5Oopen(object, name.c_str(), H5P_DEFAULT), H5Oclose), child(path, name), known, lines, depth + 1);
}

}  // namespace

template <> ElementType element_type<float>() { return element_types()[0]; }
template <> ElementType element_type<std::int32_t>() { return element_types()[1]; }
template <> ElementType element_type<std::uint8_t>() { return element_types()[2]; }
template <> ElementType element_type<std::uint16_t>() { return element_types()[3]; }
template <> ElementType element_type<std::uint32_t>() { return element_types()[4]; }
template <> ElementType element_type<std::uint64_t>() { return element_types()[5]; }

ElementType element_type_of(hid_t dataset) {
  const Hid type(H5Dget_type(dataset), H5Tclose);
  for (const auto& known : element_types())
    if (check(H5Tequal(type, known.stored)) > 0) return known;
  throw Hdf5Failure{"it has an element type that Atoll does not write"};
}

Digest File::State::seal_of_content() {
  Lines lines;
  const Hid root(H5Oopen(id, "/", H5P_DEFAULT), H5Oclose);
  describe(root, "/", known, lines, 0);
  DigestStream stream;
  for (const auto& line : lines) stream.add(std::as_bytes(std::span(line)));
  return stream.finish();
}

std::vector<std::string> File::members(const std::string& group) const {
  return entered("cannot read " + state_->where(group), damaged_file_advice, [&] {
    const Hid id(H5Gopen2(state_->id, group.c_str(), H5P_DEFAULT), H5Gclose);
    const auto names = names_in(id);
    return std::vector<std::string>(names.begin(), names.end());
  });
}

Digest File::digest(const std::string& dataset) const {
  const auto found = state_->known.find(dataset);
  if (found != state_->known.end()) return found->second;
  const std::string problem = "cannot read " + state_->where(dataset);
  const auto id = entered(problem, damaged_file_advice,
                          [&] { return Hid(H5Dopen2(state_->id, dataset.c_str(), H5P_DEFAULT), H5Dclose); });
  return state_->known[dataset] =
             explained(problem, damaged_file_advice, [&] { return digest_of_dataset(id, element_type_of(id)); });
}

Digest File::seal() const {
  const auto hex = attribute<std::string>("/", seal_attribute);
  return Digest::from_hex(hex);
}

void File::verify() const {
  const std::string problem = "cannot read " + state_->file.string();
  std::vector<std::string> paths;
  entered(problem, damaged_file_advice,
          [&] { note_datasets(Hid(H5Oopen(state_->id, "/", H5P_DEFAULT), H5Oclose), "/", paths, 0); });
  for (const auto& path : paths) (void)digest(path);
  const auto found = entered(problem, damaged_file_advice, [&] { return state_->seal_of_content(); });
  if (found != seal())
    throw Error(state_->file.string() + " is damaged", "its content does not match its seal", damaged_file_advice);
}

}  // namespace Atoll::store
