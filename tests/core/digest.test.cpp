#include <gtest/gtest.h>

#include "atoll/core/error.hpp"
#include "atoll/core/quantities.hpp"

namespace Atoll {
namespace {

TEST(Digest, ReadsBackItsOwnText) {
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) digest.bytes[i] = std::byte(17 * i);
  EXPECT_EQ(digest.hex(), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(Digest::from_hex(digest.hex()), digest);
}

TEST(Digest, RefusesTextOfAnotherKind) {
  EXPECT_THROW((void)Digest::from_hex("0011"), Error);
  EXPECT_THROW((void)Digest::from_hex("00112233445566778899aabbccddeefg"), Error);
}

TEST(ConfigError, ReadsProblemWhyAdvice) {
  EXPECT_STREQ(ConfigError("problem", "why", "what to do").what(), "problem (why) what to do");
}

}  // namespace
}  // namespace Atoll
