#pragma once

#include <cstdint>

#include "atoll/core/quantities.hpp"

namespace Atoll::data {

/// Which sequence of the training part is read next: deterministic, disjoint between sites and ranks by construction.
///
/// The training part is cut into sequences of context + 1 tokens that overlap by one. Sequence s belongs to site s %
/// sites; within a site and a pass over the data the order is a permutation from the seed; step, micro-batch and rank
/// pick consecutive places of it. A cursor is one number, the sequences that the site has used so far, so a checkpoint
/// stores just that. Local, pure.
class BatchOrder {
 public:
  /// @throws ConfigError  the site would have no sequence at all
  BatchOrder(std::uint64_t training_tokens, std::int64_t context, SiteId site, std::uint32_t sites, std::uint64_t seed);

  /// First token of the sequence at place `cursor` of this site's endless order [tokens].
  [[nodiscard]] std::uint64_t first_token(std::uint64_t cursor) const;
  /// Sequences of this site in one pass over the data.
  [[nodiscard]] std::uint64_t sequences() const noexcept { return sequences_; }

 private:
  std::int64_t context_;
  SiteId site_;
  std::uint32_t sites_;
  std::uint64_t seed_;
  std::uint64_t sequences_;
};

}  // namespace Atoll::data
