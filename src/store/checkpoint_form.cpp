#include "checkpoint_form.hpp"

#include <algorithm>

namespace Atoll::store {
namespace {

constexpr const char* parameters_group = "/parameters/";
constexpr const char* first_moment_group = "/optimizer/first_moment/";
constexpr const char* second_moment_group = "/optimizer/second_moment/";

// The attributes of the root, for writing and for reading: `visit(name, field)`.
template <class CheckpointType, class Visit>
void each_attribute(CheckpointType& checkpoint, const Visit& visit) {
  visit("configuration_digest", checkpoint.configuration_digest);
  visit("configuration", checkpoint.configuration);
  visit("federation", checkpoint.federation);
  visit("site", checkpoint.site);
  visit("program_version", checkpoint.program_version);
  visit("step", checkpoint.step);
  visit("data_cursor", checkpoint.data_cursor);
  visit("tokens", checkpoint.tokens);
  visit("optimizer_steps", checkpoint.optimizer_steps);
  visit("random_state", checkpoint.random_state);
}

template <class FragmentType, class Visit>
void each_fragment_attribute(FragmentType& fragment, const Visit& visit) {
  visit("version", fragment.version);
  visit("tokens_merged", fragment.tokens_merged);
  visit("steps_since_base", fragment.steps_since_base);
  visit("tokens_since_base", fragment.tokens_since_base);
}

template <class OfferType, class Visit>
void each_offer_attribute(OfferType& offer, const Visit& visit) {
  visit("serial", offer.serial);
  visit("steps", offer.steps);
  visit("tokens", offer.tokens);
  visit("base", offer.base);
}

template <class Work, class Visit>
void each_work_attribute(Work& work, Visit visit) {
  visit("steps", work.steps);
  visit("tokens", work.tokens);
  visit("steps_dropped", work.steps_dropped);
  visit("tokens_dropped", work.tokens_dropped);
}

auto writing_attributes(File& file, const std::string& object) {
  return [&file, object](const char* name, const auto& value) { file.write_attribute(object, name, value); };
}

auto reading_attributes(const File& file, const std::string& object) {
  return [&file, object](const char* name, auto& value) {
    value = file.attribute<std::decay_t<decltype(value)>>(object, name);
  };
}

std::string fragment_group(std::size_t index) { return "/fragments/" + std::to_string(index); }

std::uint64_t product(const Shape& shape) {
  std::uint64_t count = 1;
  for (const auto size : shape) count *= size;
  return count;
}

template <class Number, class Rows, class Field>
std::vector<Number> column(const Rows& rows, Field field) {
  std::vector<Number> values;
  for (const auto& row : rows) values.push_back(field(row));
  return values;
}

void write_values(File& file, const std::string& dataset, const Values& values) {
  if (values) file.write<float>(dataset, *values);
}

void write_tensors(const Checkpoint& checkpoint, File& file) {
  for (const auto& tensor : checkpoint.tensors) {
    ATOLL_EXPECT(tensor.name.find('/') == std::string::npos, tensor.name);
    const Shape shape = tensor.shape.empty() ? Shape{1} : Shape(tensor.shape.begin(), tensor.shape.end());
    const auto part = [&](const std::vector<float>& flat) {
      return std::span(flat).subspan(static_cast<std::size_t>(tensor.offset), product(shape));
    };
    file.write<float>(parameters_group + tensor.name, part(checkpoint.parameters), shape);
    file.write_attribute<std::int64_t>(parameters_group + tensor.name, "offset", tensor.offset);
    file.write<float>(first_moment_group + tensor.name, part(checkpoint.first_moment), shape);
    file.write<float>(second_moment_group + tensor.name, part(checkpoint.second_moment), shape);
  }
}

void write_offers(File& file, const std::string& group, const std::vector<OfferRecord>& offers) {
  using Row = OfferRecord;
  file.write<std::uint32_t>(group + "/site",
                            column<std::uint32_t>(offers, [](const Row& row) { return row.site.value; }));
  file.write<std::uint64_t>(group + "/serial",
                            column<std::uint64_t>(offers, [](const Row& row) { return row.serial; }));
  file.write<std::uint64_t>(group + "/steps", column<std::uint64_t>(offers, [](const Row& row) { return row.steps; }));
  file.write<std::uint64_t>(group + "/tokens",
                            column<std::uint64_t>(offers, [](const Row& row) { return row.tokens; }));
  file.write<float>(group + "/weight", column<float>(offers, [](const Row& row) { return row.weight; }));
}

void write_recent(File& file, const std::string& group, const std::vector<std::pair<Version, Digest>>& recent) {
  std::vector<std::uint8_t> digests;
  for (const auto& [version, digest] : recent)
    for (const auto byte : digest.bytes) digests.push_back(std::to_integer<std::uint8_t>(byte));
  file.write<std::uint64_t>(group + "/version",
                            column<std::uint64_t>(recent, [](const auto& row) { return row.first; }));
  file.write<std::uint8_t>(group + "/digest", digests, {recent.size(), sizeof(Digest::bytes)});
}

void write_own_work(File& file, const std::string& group, const OwnWork& work) {
  file.create_group(group);
  each_work_attribute(work, writing_attributes(file, group));
  const auto numbers = [&](const std::string& name, std::uint64_t WorkMark::*member) {
    file.write<std::uint64_t>(group + '/' + name,
                              column<std::uint64_t>(work.marks, [&](const WorkMark& mark) { return mark.*member; }));
  };
  numbers("serial", &WorkMark::serial);
  numbers("follows", &WorkMark::follows);
  numbers("mark_steps", &WorkMark::steps);
  numbers("mark_tokens", &WorkMark::tokens);
  for (std::size_t i = 0; i < work.marks.size(); ++i)
    write_values(file, group + "/gradient_" + std::to_string(i), work.marks[i].gradient);
}

void write_fragment(const FragmentCheckpoint& fragment, const std::string& group, File& file) {
  file.create_group(group);
  each_fragment_attribute(fragment, writing_attributes(file, group));
  file.write_attribute(group, "anchor_digest", fragment.anchor_digest.hex());
  write_values(file, group + "/anchor", fragment.anchor);
  write_values(file, group + "/momentum", fragment.momentum);
  write_values(file, group + "/residual", fragment.residual);
  write_offers(file, group + "/merged", fragment.merged);
  write_recent(file, group + "/recent", fragment.recent);
  write_own_work(file, group + "/own_work", fragment.own_work);
  if (!fragment.outstanding) return;
  const std::string outstanding = group + "/outstanding";
  file.create_group(outstanding);
  each_offer_attribute(*fragment.outstanding, writing_attributes(file, outstanding));
  write_values(file, outstanding + "/values", fragment.outstanding->values);
}

[[noreturn]] void refuse(const std::filesystem::path& name, const std::string& why, const std::string& advice) {
  throw Error("cannot resume from " + name.string(), why, advice);
}

constexpr const char* damaged_advice = "use an older checkpoint";

Values read_values(const File& file, const std::string& dataset) {
  if (!file.has(dataset)) return nullptr;
  return std::make_shared<const std::vector<float>>(file.read<float>(dataset));
}

void read_tensors(const File& file, const std::filesystem::path& name, Checkpoint& checkpoint) {
  for (const auto& tensor : file.members("/parameters")) {
    const auto shape = file.shape(parameters_group + tensor);
    checkpoint.tensors.push_back({tensor, {shape.begin(), shape.end()},
                                  file.attribute<std::int64_t>(parameters_group + tensor, "offset")});
  }
  std::ranges::sort(checkpoint.tensors, {}, &NamedTensor::offset);
  const auto append = [&](std::vector<float>& flat, const std::string& dataset) {
    const auto values = file.read<float>(dataset);
    flat.insert(flat.end(), values.begin(), values.end());
  };
  for (const auto& tensor : checkpoint.tensors) {
    if (static_cast<std::size_t>(tensor.offset) != checkpoint.parameters.size())
      refuse(name, "its tensors leave a gap before " + tensor.name, damaged_advice);
    append(checkpoint.parameters, parameters_group + tensor.name);
    append(checkpoint.first_moment, first_moment_group + tensor.name);
    append(checkpoint.second_moment, second_moment_group + tensor.name);
    if (checkpoint.first_moment.size() != checkpoint.parameters.size() ||
        checkpoint.second_moment.size() != checkpoint.parameters.size())
      refuse(name, "the moments of " + tensor.name + " have another shape", damaged_advice);
  }
}

std::vector<OfferRecord> read_offers(const File& file, const std::string& group) {
  const auto site = file.read<std::uint32_t>(group + "/site");
  const auto serial = file.read<std::uint64_t>(group + "/serial");
  const auto steps = file.read<std::uint64_t>(group + "/steps");
  const auto tokens = file.read<std::uint64_t>(group + "/tokens");
  const auto weight = file.read<float>(group + "/weight");
  std::vector<OfferRecord> offers(site.size());
  for (std::size_t i = 0; i < offers.size(); ++i)
    offers[i] = {SiteId{site[i]}, serial.at(i), steps.at(i), tokens.at(i), weight.at(i)};
  return offers;
}

std::vector<std::pair<Version, Digest>> read_recent(const File& file, const std::string& group) {
  const auto versions = file.read<std::uint64_t>(group + "/version");
  const auto digests = file.read<std::uint8_t>(group + "/digest");
  std::vector<std::pair<Version, Digest>> recent(versions.size());
  for (std::size_t i = 0; i < recent.size(); ++i) {
    recent[i].first = versions[i];
    auto& bytes = recent[i].second.bytes;
    for (std::size_t b = 0; b < bytes.size(); ++b) bytes[b] = std::byte{digests.at(i * bytes.size() + b)};
  }
  return recent;
}

OwnWork read_own_work(const File& file, const std::string& group) {
  OwnWork work;
  each_work_attribute(work, reading_attributes(file, group));
  const auto serial = file.read<std::uint64_t>(group + "/serial");
  const auto follows = file.read<std::uint64_t>(group + "/follows");
  const auto steps = file.read<std::uint64_t>(group + "/mark_steps");
  const auto tokens = file.read<std::uint64_t>(group + "/mark_tokens");
  for (std::size_t i = 0; i < serial.size(); ++i)
    work.marks.push_back({serial[i], follows.at(i), steps.at(i), tokens.at(i),
                          read_values(file, group + "/gradient_" + std::to_string(i))});
  return work;
}

FragmentCheckpoint read_fragment(const File& file, const std::string& group) {
  FragmentCheckpoint fragment;
  each_fragment_attribute(fragment, reading_attributes(file, group));
  fragment.anchor_digest = Digest::from_hex(file.attribute<std::string>(group, "anchor_digest"));
  fragment.anchor = read_values(file, group + "/anchor");
  fragment.momentum = read_values(file, group + "/momentum");
  fragment.residual = read_values(file, group + "/residual");
  fragment.merged = read_offers(file, group + "/merged");
  fragment.recent = read_recent(file, group + "/recent");
  fragment.own_work = read_own_work(file, group + "/own_work");
  const std::string outstanding = group + "/outstanding";
  if (!file.has(outstanding)) return fragment;
  each_offer_attribute(fragment.outstanding.emplace(), reading_attributes(file, outstanding));
  fragment.outstanding->values = read_values(file, outstanding + "/values");
  return fragment;
}

void expect_format(const File& file, const std::filesystem::path& name) {
  if (!file.has_attribute("/", "format") || file.attribute<std::string>("/", "format") != checkpoint_format)
    refuse(name, "it is an HDF5 file, but no checkpoint", "check its name");
  const auto version = file.attribute<std::uint64_t>("/", "format_version");
  if (version != checkpoint_format_version)
    refuse(name, "it has format version " + std::to_string(version), "use the version of atoll that wrote it");
}

}  // namespace

void write(const Checkpoint& checkpoint, File& file) {
  file.write_attribute<std::string>("/", "format", checkpoint_format);
  file.write_attribute("/", "format_version", checkpoint_format_version);
  each_attribute(checkpoint, writing_attributes(file, "/"));
  file.create_group("/parameters");
  write_tensors(checkpoint, file);
  file.create_group("/fragments");
  for (std::size_t i = 0; i < checkpoint.fragments.size(); ++i)
    write_fragment(checkpoint.fragments[i], fragment_group(i), file);
}

Checkpoint read_checkpoint(const File& file, const std::filesystem::path& name) {
  expect_format(file, name);
  Checkpoint checkpoint;
  each_attribute(checkpoint, reading_attributes(file, "/"));
  read_tensors(file, name, checkpoint);
  const auto fragments = file.members("/fragments").size();
  for (std::size_t i = 0; i < fragments; ++i) checkpoint.fragments.push_back(read_fragment(file, fragment_group(i)));
  file.verify();
  return checkpoint;
}

}  // namespace Atoll::store
