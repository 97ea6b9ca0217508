#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/core/quantities.hpp"
#include "atoll/store/error.hpp"

namespace Atoll::store {

/// fp32 values of one fragment, shared between the protocol, the letters on their way and the trainer; never changed.
using Values = std::shared_ptr<const std::vector<float>>;

enum class LetterKind : std::uint32_t {
  status = 1,  ///< "this is where I am": versions, digests, tokens; sent often, small
  offer = 2,   ///< one site's pseudo-gradient of one fragment
  commit = 3,  ///< the merged pseudo-gradient that makes version v - 1 into v
  snapshot_request = 4,
  snapshot = 5,  ///< anchor and outer optimizer's state of one fragment
  leave = 6,     ///< an orderly farewell
  refusal = 7,   ///< an offer was unfit to be merged: its site shall give up what it holds
};
[[nodiscard]] std::string_view name_of(LetterKind kind);

/// An offer as a commit or a snapshot names it.
struct OfferRecord {
  SiteId site;
  std::uint64_t serial = 0;  ///< grows with every offer of a site, also over restarts
  std::uint64_t steps = 0;   ///< inner steps that the offer holds
  std::uint64_t tokens = 0;  ///< tokens that the offer holds
  float weight = 0;          ///< share in the merge; those of a commit sum to 1, to less where one was late
  bool operator==(const OfferRecord&) const = default;
};

/// Where a site stands with one fragment.
struct FragmentStatus {
  Version version = 0;
  Digest anchor;                    ///< digest of the anchor and the outer optimizer's state
  std::uint64_t tokens_merged = 0;  ///< tokens merged into the anchor since version 0: the weight of its history
  /// The digest that the sender's line has at the version where it believes the receiver to be; 0 and nothing: unknown.
  Version receiver_version = 0;
  Digest receiver_anchor;
  bool operator==(const FragmentStatus&) const = default;
};

/// What travels between sites. Which fields matter depends on `kind`; the others keep their defaults and still travel.
/// The byte form is an HDF5 file image, described in src/store/LETTER.md.
struct Letter {
  LetterKind kind = LetterKind::status;
  std::string federation;       ///< its name
  Digest configuration;         ///< of everything that all sites must agree on
  SiteId site;                  ///< the sender
  Incarnation incarnation = 0;  ///< of the sender's island

  FragmentId fragment;              ///< all but status and leave
  Version version = 0;              ///< offer: base version; commit, snapshot: the version it leads to
  Digest parent;                    ///< offer: digest of the base; commit: digest before
  Digest anchor;                    ///< commit, snapshot: digest of the new anchor and optimizer state
  std::uint64_t serial = 0;         ///< offer, refusal
  std::uint64_t follows = 0;        ///< offer: newest serial of this site that the base holds
  std::uint64_t steps = 0;          ///< offer: inner steps since the base
  std::uint64_t tokens = 0;         ///< offer: tokens since the base; commit, snapshot: tokens merged since version 0
  std::vector<OfferRecord> offers;  ///< commit: what was merged; snapshot: the newest merged offer of each site
  std::vector<FragmentStatus> fragments;  ///< status: one per fragment
  std::uint64_t inner_step = 0;           ///< status: the sender's own step count; offer: steps whose work it holds
  std::uint64_t step_micros = 0;          ///< status: mean time of its inner steps [us]; 0: not known
  bool finished = false;                  ///< status: the sender has nothing left to train
  bool ready = false;                     ///< status: the sender may be steward: it has begun, and takes over no model
  bool joining = false;                   ///< status: the sender is taking over a model, and can give none

  Values values;    ///< offer, commit: pseudo-gradient; snapshot: anchor
  Values momentum;  ///< snapshot: the outer optimizer's state, slot after slot
};

/// The bytes are no letter that this program takes. what() says why; `reason()` is one word for counters.
class LetterRefused : public Error {
 public:
  LetterRefused(std::string reason, const std::string& detail);
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

/// Upper bound of the image of a letter with so many values (both datasets together), offers and fragments [bytes].
[[nodiscard]] std::size_t image_bound(std::size_t values, std::size_t offers, std::size_t fragments);

/// Writes the letter as an HDF5 file image straight into `memory`; returns the image's size [bytes].
/// Equal letters give equal bytes. Local; any thread (HDF5 is entered under one lock).
/// @throws Error  `memory` is too small
std::size_t encode(const Letter& letter, std::span<std::byte> memory);

/// Reads an image back; `image` is only read and may be dropped afterwards.
/// The caller has checked the image's checksum before (HDF5 is not made for hostile bytes); this checks the rest:
/// kinds, types, shapes, sizes, no links, no plugins.
/// @throws LetterRefused
[[nodiscard]] Letter decode(std::span<const std::byte> image);

}  // namespace Atoll::store
