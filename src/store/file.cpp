#include "atoll/store/file.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <numeric>

#include <fcntl.h>
#include <unistd.h>

#include "atoll/store/digest.hpp"
#include "file_state.hpp"

namespace Atoll::store {
namespace {

constexpr std::size_t plain_chunk_bytes = 1 << 20;
constexpr std::size_t deflated_chunk_bytes = 1 << 16;
constexpr std::size_t chunk_cache_bytes = 32 << 20;
constexpr unsigned deflate_level = 1;
constexpr const char* full_disk_advice = "free space there or choose another folder";

Hid file_access() {
  Hid access = property_list(H5P_FILE_ACCESS);
  // Only from format v110 on does the metadata carry checksums. Locks fail on some parallel file systems, and nobody
  // writes into a file that others see.
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
  check(H5Pset_file_locking(access, false, true));
  return access;
}

Hid dataset_creation(const Shape& shape, std::size_t element_bytes, Packing packing) {
  Hid creation = property_list(H5P_DATASET_CREATE);
  check(H5Pset_obj_track_times(creation, false));
  if (std::ranges::find(shape, 0u) != shape.end()) return creation;  // nothing to cut into chunks
  std::size_t most = (packing == Packing::plain ? plain_chunk_bytes : deflated_chunk_bytes) / element_bytes;
  std::vector<hsize_t> chunk(shape.begin(), shape.end());
  for (auto dimension = chunk.rbegin(); dimension != chunk.rend(); ++dimension) {
    *dimension = std::min<hsize_t>(*dimension, std::max<std::size_t>(most, 1));
    most /= *dimension;
  }
  check(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()));
  check(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER));
  if (packing == Packing::deflated) {
    check(H5Pset_shuffle(creation));
    check(H5Pset_deflate(creation, deflate_level));
  }
  check(H5Pset_fletcher32(creation));
  return creation;
}

Hid making_parents() {
  Hid links = property_list(H5P_LINK_CREATE);
  check(H5Pset_create_intermediate_group(links, 1));
  return links;
}

hid_t number_type(std::int64_t) { return H5T_STD_I64LE; }
hid_t number_type(std::uint64_t) { return H5T_STD_U64LE; }
hid_t number_type(double) { return H5T_IEEE_F64LE; }

void create_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  const Hid scalar(H5Screate(H5S_SCALAR), H5Sclose);
  const Hid attribute(H5Acreate2(object, name.c_str(), type, scalar, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  check(H5Awrite(attribute, type, value));
}

Hid open_attribute(hid_t file, const std::string& object, const std::string& name) {
  Hid attribute(H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  const Hid space(H5Aget_space(attribute), H5Sclose);
  if (H5Sget_simple_extent_type(space) != H5S_SCALAR) throw Hdf5Failure{"attribute " + name + " is no single value"};
  return attribute;
}

template <AttributeValue T>
T read_attribute(hid_t file, const std::string& object, const std::string& name) {
  const Hid attribute = open_attribute(file, object, name);
  const Hid type(H5Aget_type(attribute), H5Tclose);
  if constexpr (std::same_as<T, std::string>) {
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0)
      throw Hdf5Failure{"attribute " + name + " is no fixed-length text"};
    std::string value(H5Tget_size(type), '\0');
    check(H5Aread(attribute, type, value.data()));
    value.erase(value.find_last_not_of('\0') + 1);
    return value;
  } else {
    T value{};
    if (check(H5Tequal(type, number_type(value))) == 0) throw Hdf5Failure{"attribute " + name + " has another type"};
    check(H5Aread(attribute, type, &value));
    return value;
  }
}

// Selects `count` rows from `first` on in a one-dimensional dataset.
Hid rows_of(hid_t dataset, hsize_t first, hsize_t count) {
  Hid space(H5Dget_space(dataset), H5Sclose);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &count, nullptr));
  return space;
}

void expect_type(hid_t dataset, const ElementType& expected) {
  if (const auto found = element_type_of(dataset); found.stored != expected.stored)
    throw Hdf5Failure{std::string("it holds ") + found.name + " instead of " + expected.name};
}

void sync(const std::filesystem::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  const int failed = descriptor < 0 || ::fsync(descriptor) != 0 ? errno : 0;
  if (descriptor >= 0) ::close(descriptor);
  if (failed != 0) throw SystemError("cannot sync " + path.string(), failed, full_disk_advice);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

std::vector<std::uint64_t> shape_of(hid_t dataset) {
  const Hid space(H5Dget_space(dataset), H5Sclose);
  const int rank = check(H5Sget_simple_extent_ndims(space));
  std::vector<hsize_t> dimensions(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space, dimensions.data(), nullptr));
  return {dimensions.begin(), dimensions.end()};
}

File::State::~State() {
  datasets.clear();
  id = Hid();
  if (!part.empty()) ::unlink(part.c_str());
}

void File::State::close() {
  for (auto& [path, dataset] : datasets) dataset.id.free();
  datasets.clear();
  id.free();
}

hid_t File::State::dataset(const std::string& path) {
  auto& dataset = datasets[path];
  if (dataset.id < 0) {
    const Hid access = property_list(H5P_DATASET_ACCESS);
    check(H5Pset_chunk_cache(access, 1021, chunk_cache_bytes, H5D_CHUNK_CACHE_W0_DEFAULT));
    dataset.id = Hid(H5Dopen2(id, path.c_str(), access), H5Dclose);
  }
  return dataset.id;
}

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

File File::create(const std::filesystem::path& file) {
  return entered("cannot create " + file.string(), "choose a folder that exists and that you may write", [&] {
    auto state = std::make_unique<State>();
    state->file = file;
    state->part = file.string() + ".part";
    const Hid creation = property_list(H5P_FILE_CREATE);
    check(H5Pset_obj_track_times(creation, false));
    state->id = Hid(H5Fcreate(state->part.c_str(), H5F_ACC_TRUNC, creation, file_access()), H5Fclose);
    return File(std::move(state));
  });
}

File File::open(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    throw Error("cannot open " + file.string(), "no such file", "check its name");
  return entered("cannot open " + file.string(), "check its name; if it is damaged use another copy", [&] {
    auto state = std::make_unique<State>();
    state->file = file;
    state->id = Hid(H5Fopen(file.c_str(), H5F_ACC_RDONLY, file_access()), H5Fclose);
    return File(std::move(state));
  });
}

void File::create_group(const std::string& group) {
  entered("cannot write " + state_->where(group), full_disk_advice, [&] {
    const Hid links = making_parents();
    const Hid creation = property_list(H5P_GROUP_CREATE);
    check(H5Pset_obj_track_times(creation, false));
    Hid(H5Gcreate2(state_->id, group.c_str(), links, creation, H5P_DEFAULT), H5Gclose).free();
  });
}

template <Element T>
void File::write(const std::string& dataset, std::span<const T> values, Shape shape, Packing packing) {
  if (shape.empty()) shape = {values.size()};
  ATOLL_EXPECT(std::reduce(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>()) == values.size(),
               dataset);
  entered("cannot write " + state_->where(dataset), full_disk_advice, [&] {
    const std::vector<hsize_t> dimensions(shape.begin(), shape.end());
    const auto type = element_type<T>();
    const Hid space(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr), H5Sclose);
    Hid id(H5Dcreate2(state_->id, dataset.c_str(), type.stored, space, making_parents(),
                      dataset_creation(shape, sizeof(T), packing), H5P_DEFAULT), H5Dclose);
    if (!values.empty()) check(H5Dwrite(id, type.stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    id.free();
  });
  state_->known[dataset] = digest_of({std::as_bytes(values)});
}

template <Element T>
void File::append(const std::string& dataset, std::span<const T> values, Packing packing) {
  entered("cannot write " + state_->where(dataset), full_disk_advice, [&] {
    const auto type = element_type<T>();
    auto& open = state_->datasets[dataset];
    if (open.id < 0) {
      const hsize_t none = 0, unlimited = H5S_UNLIMITED;
      const Hid space(H5Screate_simple(1, &none, &unlimited), H5Sclose);
      const Shape any{deflated_chunk_bytes};
      open.id = Hid(H5Dcreate2(state_->id, dataset.c_str(), type.stored, space, making_parents(),
                               dataset_creation(any, sizeof(T), packing), H5P_DEFAULT), H5Dclose);
      open.bytes.emplace();
    }
    const hsize_t first = open.count, count = values.size();
    const hsize_t total = first + count;
    check(H5Dset_extent(open.id, &total));
    const Hid memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
    if (count > 0)
      check(H5Dwrite(open.id, type.stored, memory, rows_of(open.id, first, count), H5P_DEFAULT, values.data()));
    open.count = total;
    open.bytes->add(std::as_bytes(values));
  });
}

template <AttributeValue T>
void File::write_attribute(const std::string& object, const std::string& name, const T& value) {
  entered("cannot write " + state_->where(object), full_disk_advice, [&] {
    const Hid id(H5Oopen(state_->id, object.c_str(), H5P_DEFAULT), H5Oclose);
    if constexpr (std::same_as<T, std::string>) {
      create_attribute(id, name, text_type(value.size()), value.c_str());
    } else {
      create_attribute(id, name, number_type(value), &value);
    }
  });
}

void File::publish() {
  const auto part = state_->part;
  entered("cannot write " + state_->file.string(), full_disk_advice, [&] {
    for (auto& [path, dataset] : state_->datasets)
      if (dataset.bytes) state_->known[path] = dataset.bytes->finish();
    const std::string seal = state_->seal_of_content().hex();
    create_attribute(state_->id, seal_attribute, text_type(seal.size()), seal.data());
    state_->close();
  });
  sync(part, O_RDWR);
  std::error_code failed;
  std::filesystem::rename(part, state_->file, failed);
  if (failed) throw SystemError("cannot rename " + part.string(), failed.value(), full_disk_advice);
  state_->part.clear();
  sync(folder_of(state_->file), O_RDONLY | O_DIRECTORY);
}

bool File::has(const std::string& object) const {
  return entered("cannot read " + state_->where(object), damaged_file_advice, [&] {
    if (object == "/") return true;
    for (std::size_t end = object.find('/', 1);; end = object.find('/', end + 1)) {
      if (check(H5Lexists(state_->id, object.substr(0, end).c_str(), H5P_DEFAULT)) == 0) return false;
      if (end == std::string::npos) return true;
    }
  });
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  return entered("cannot read " + state_->where(object), damaged_file_advice, [&] {
    return check(H5Aexists_by_name(state_->id, object.c_str(), name.c_str(), H5P_DEFAULT)) > 0;
  });
}

Shape File::shape(const std::string& dataset) const {
  return entered("cannot read " + state_->where(dataset), damaged_file_advice,
                 [&] { return shape_of(state_->dataset(dataset)); });
}

std::size_t File::element_bytes(const std::string& dataset) const {
  return entered("cannot read " + state_->where(dataset), damaged_file_advice,
                 [&] { return element_type_of(state_->dataset(dataset)).bytes; });
}

template <Element T>
std::vector<T> File::read(const std::string& dataset) const {
  auto values = entered("cannot read " + state_->where(dataset), damaged_file_advice, [&] {
    const Hid id(H5Dopen2(state_->id, dataset.c_str(), H5P_DEFAULT), H5Dclose);
    expect_type(id, element_type<T>());
    const auto shape = shape_of(id);
    std::vector<T> all(std::reduce(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>()));
    if (!all.empty()) check(H5Dread(id, element_type<T>().stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()));
    return all;
  });
  state_->known[dataset] = digest_of({std::as_bytes(std::span<const T>(values))});
  return values;
}

template <Element T>
void File::read(const std::string& dataset, std::uint64_t first, std::span<T> into) const {
  entered("cannot read " + state_->where(dataset), damaged_file_advice, [&] {
    const hid_t id = state_->dataset(dataset);
    expect_type(id, element_type<T>());
    const hsize_t count = into.size();
    const Hid memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
    if (count > 0)
      check(H5Dread(id, element_type<T>().stored, memory, rows_of(id, first, count), H5P_DEFAULT, into.data()));
  });
}

template <AttributeValue T>
T File::attribute(const std::string& object, const std::string& name) const {
  return entered("cannot read " + name + " at " + state_->where(object), damaged_file_advice,
                 [&] { return read_attribute<T>(state_->id, object, name); });
}

#define ATOLL_ELEMENT(T)                                                                       \
  template void File::write<T>(const std::string&, std::span<const T>, Shape, Packing);        \
  template void File::append<T>(const std::string&, std::span<const T>, Packing);              \
  template std::vector<T> File::read<T>(const std::string&) const;                             \
  template void File::read<T>(const std::string&, std::uint64_t, std::span<T>) const;
ATOLL_ELEMENT(float)
ATOLL_ELEMENT(std::int32_t)
ATOLL_ELEMENT(std::uint8_t)
ATOLL_ELEMENT(std::uint16_t)
ATOLL_ELEMENT(std::uint32_t)
ATOLL_ELEMENT(std::uint64_t)
#undef ATOLL_ELEMENT

#define ATOLL_ATTRIBUTE(T)                                                                     \
  template void File::write_attribute<T>(const std::string&, const std::string&, const T&);    \
  template T File::attribute<T>(const std::string&, const std::string&) const;
ATOLL_ATTRIBUTE(std::string)
ATOLL_ATTRIBUTE(std::int64_t)
ATOLL_ATTRIBUTE(std::uint64_t)
ATOLL_ATTRIBUTE(double)
#undef ATOLL_ATTRIBUTE

}  // namespace Atoll::store
