#include "atoll/federation/record_keeper.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

namespace Atoll::federation {
namespace {

constexpr std::pair<KeepLetters, std::string_view> names[] = {
    {KeepLetters::none, "none"}, {KeepLetters::commits, "commits"}, {KeepLetters::all, "all"}};

}  // namespace

std::string name_of(KeepLetters letters) {
  return std::string(std::ranges::find(names, letters, &std::pair<KeepLetters, std::string_view>::first)->second);
}

std::optional<KeepLetters> keep_letters_named(std::string_view name) {
  for (const auto& [letters, known] : names)
    if (known == name) return letters;
  return std::nullopt;
}

std::uint64_t kept_bytes_per_round(KeepLetters letters, std::uint64_t parameters, std::size_t sites) {
  if (letters == KeepLetters::none) return 0;
  return parameters * sizeof(float) * (letters == KeepLetters::all ? 1 + sites : 1);
}

// The offers first: a commit that is there has all that it was made of.
void RecordKeeper::keep(const Record& record) noexcept try {
  if (which_ == KeepLetters::none) return;
  if (which_ == KeepLetters::all)
    for (const auto& offer : record.offers) keep(offer);
  keep(record.letter);
} catch (const std::exception& error) {  // out of memory, and then even the log line is too much
  std::cerr << "atoll: a letter is not kept (" << error.what() << ") a replay will end there\n";
}

void RecordKeeper::keep(const store::Letter& letter) {
  std::vector<LogField> fields{{"kind", std::string(store::name_of(letter.kind))},
                               {"fragment", std::uint64_t{letter.fragment.value}},
                               {"version", letter.version},
                               {"site", sites_.at(letter.site.value)},
                               {"serial", letter.serial},
                               {"anchor", letter.anchor.hex()}};
  try {
    const auto kept = folder_.keep(letter);
    fields.insert(fields.end(), {{"file", kept.file}, {"bytes", kept.bytes}, {"digest", kept.digest.hex()}});
    log_.write("kept", std::move(fields));
  } catch (const Error& error) {
    fields.push_back({"reason", std::string(error.what())});
    log_.write("not_kept", std::move(fields));
    if (!std::exchange(said_, true))
      std::cerr << "atoll: " << error.what() << "; training goes on, and the log notes each letter that is not kept\n";
  }
}

}  // namespace Atoll::federation
