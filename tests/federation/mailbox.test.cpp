#include "atoll/federation/mailbox.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "atoll/core/error.hpp"
#include "atoll/federation/mailbox_memory.hpp"
#include "fake_mover.hpp"

namespace Atoll::federation {
namespace {

using test::FakeMover;

constexpr Geometry small{{4, 2}, {256, 20'000}};

/// Two mailboxes, alpha's for beta and beta's for alpha, and the two directions of a connector pair.
class MailboxTest : public ::testing::Test {
 protected:
  MailboxTest()
      : root_(std::filesystem::temp_directory_path() / ("atoll-mailbox-test-" + std::to_string(getpid()))),
        alpha_address_{root_, "islands", "alpha", "beta"},
        beta_address_{root_, "islands", "beta", "alpha"} {
    std::filesystem::remove_all(root_);
    start_alpha(1000);
    start_beta(2000);
    connect();
  }
  ~MailboxTest() override { std::filesystem::remove_all(root_); }

  void start_alpha(Incarnation incarnation) { alpha_.emplace(alpha_address_, small, incarnation); }
  void start_beta(Incarnation incarnation) { beta_.emplace(beta_address_, small, incarnation); }

  /// Connectors start (again): nothing of the earlier ones is remembered.
  void connect() {
    there_.emplace(alpha_address_, beta_address_);
    back_.emplace(beta_address_, alpha_address_);
    tell();
  }
  /// Statuses travel both ways until both sides know of each other.
  void tell() {
    for (int i = 0; i < 4; ++i) {
      now_ += Seconds(0.1);
      alpha_->beat(now_);
      beta_->beat(now_);
      static_cast<void>(beta_->collect(Lane::control)), static_cast<void>(beta_->collect(Lane::bulk));
      there_->show_status();
      back_->show_status();
    }
    alpha_->beat(now_);
    beta_->beat(now_);
  }
  static bool post(Mailbox& mailbox, const std::string& text, Lane lane = Lane::control) {
    const auto room = mailbox.reserve(lane);
    if (!room) return false;
    std::memcpy(room->data(), text.data(), text.size());
    mailbox.post(lane, text.size());
    return true;
  }
  static std::string peek(Mailbox& mailbox, Lane lane = Lane::control) {
    const auto image = mailbox.collect(lane);
    return image ? std::string(reinterpret_cast<const char*>(image->data()), image->size()) : "(none)";
  }
  static std::string take(Mailbox& mailbox, Lane lane = Lane::control) {
    const auto text = peek(mailbox, lane);
    if (text != "(none)") mailbox.release(lane);
    return text;
  }
  void move_all(Lane lane = Lane::control) {
    while (there_->move(lane)) {
    }
  }

  std::filesystem::path root_;
  MailboxAddress alpha_address_, beta_address_;
  std::optional<Mailbox> alpha_, beta_;
  std::optional<FakeMover> there_, back_;
  Seconds now_{100};
};

TEST_F(MailboxTest, LettersArriveWholeAndInOrder) {
  post(*alpha_, "one");
  post(*alpha_, "two");
  post(*alpha_, "bulk", Lane::bulk);
  move_all();
  move_all(Lane::bulk);
  EXPECT_EQ(peek(*beta_), "one");
  EXPECT_EQ(take(*beta_), "one") << "the same letter until release";
  EXPECT_EQ(take(*beta_), "two");
  EXPECT_EQ(take(*beta_), "(none)");
  EXPECT_EQ(take(*beta_, Lane::bulk), "bulk");
}

TEST_F(MailboxTest, AFullLaneTakesNoMoreUntilThePeerReleased) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(post(*alpha_, std::to_string(i)));
  EXPECT_FALSE(post(*alpha_, "too many"));
  move_all();
  EXPECT_FALSE(post(*alpha_, "moved is not released"));
  EXPECT_EQ(take(*beta_), "0");
  EXPECT_FALSE(post(*alpha_, "released but not yet heard of"));
  tell();
  EXPECT_TRUE(post(*alpha_, "4"));
  EXPECT_FALSE(post(*alpha_, "one was released, one was posted"));
  move_all();
  for (const char* text : {"1", "2", "3", "4", "(none)"}) EXPECT_EQ(take(*beta_), text);
}

TEST_F(MailboxTest, TheRingGoesRoundManyTimes) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(post(*alpha_, "letter " + std::to_string(i)));
    move_all();
    ASSERT_EQ(take(*beta_), "letter " + std::to_string(i));
    tell();
  }
  EXPECT_EQ(alpha_->link().letters_sent, 1000U);
  EXPECT_EQ(alpha_->link().letters_delivered, 1000U);
  EXPECT_EQ(beta_->link().letters_received, 1000U);
  EXPECT_EQ(beta_->link().payload_received, alpha_->link().payload_sent);
}

TEST_F(MailboxTest, NoPrefixOfALetterIsEverTaken) {
  const std::string text(97, 'x');
  post(*alpha_, text);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    there_->move(Lane::control, bytes);
    there_->move_header(Lane::control);  // worst order: the header came first
    beta_->beat(now_ += Seconds(2));     // past the pause between two looks at a torn letter
    ASSERT_EQ(peek(*beta_), "(none)") << bytes << " bytes of the image were there";
  }
  EXPECT_EQ(beta_->link().torn, text.size());
  there_->move(Lane::control);
  beta_->beat(now_ += Seconds(2));
  EXPECT_EQ(take(*beta_), text);
}

TEST_F(MailboxTest, ATornLetterIsNotChecksummedAtEveryLook) {
  post(*alpha_, "torn", Lane::bulk);
  there_->move(Lane::bulk, 1);
  there_->move_header(Lane::bulk);
  for (int i = 0; i < 1000; ++i) static_cast<void>(beta_->collect(Lane::bulk));
  EXPECT_EQ(beta_->link().torn, 1U);
}

TEST_F(MailboxTest, ALetterThatStaysTornAsksForANewSession) {
  post(*alpha_, "torn");
  there_->move(Lane::control, 1);
  there_->move_header(Lane::control);
  for (int i = 0; i < 100; ++i) {
    beta_->beat(now_ += Seconds(0.1));
    static_cast<void>(beta_->collect(Lane::control));
  }
  EXPECT_GT(MailboxMemory::open(beta_address_)->gateway().repair, 0U);
}

TEST_F(MailboxTest, EveryChangedBitOfASlotIsFound) {
  post(*alpha_, "sealed");
  move_all();
  const auto memory = MailboxMemory::open(beta_address_);
  const auto slot = memory->inbox_slot(Lane::control, sequence_base(1000) + 1);
  for (std::size_t byte = 0; byte < sizeof(SlotHeader) + 6; ++byte) {
    if (byte >= offsetof(SlotHeader, reserved) && byte < offsetof(SlotHeader, sequence_again)) continue;
    for (int bit = 0; bit < 8; ++bit) {
      slot[byte] ^= std::byte(1 << bit);
      beta_->beat(now_ += Seconds(2));
      ASSERT_EQ(peek(*beta_), "(none)") << "byte " << byte << " bit " << bit;
      slot[byte] ^= std::byte(1 << bit);
    }
  }
  beta_->beat(now_ += Seconds(2));
  EXPECT_EQ(take(*beta_), "sealed");
}

TEST_F(MailboxTest, ANewConnectorSendsOnceMoreWhatWasNotReleased) {
  for (const char* text : {"one", "two", "three"}) post(*alpha_, text);
  there_->move(Lane::control);
  EXPECT_EQ(take(*beta_), "one");
  there_->move(Lane::control, 2);  // killed in the middle of "two"; the news of "one" is lost too
  connect();
  move_all();
  EXPECT_EQ(take(*beta_), "two");
  EXPECT_EQ(take(*beta_), "three");
  EXPECT_EQ(take(*beta_), "(none)");
}

TEST_F(MailboxTest, ANewConnectorDoesNotDisturbALetterThatIsBeingRead) {
  post(*alpha_, "held");
  move_all();
  EXPECT_EQ(peek(*beta_), "held");
  connect();
  move_all();
  EXPECT_EQ(take(*beta_), "held");
  EXPECT_EQ(take(*beta_), "(none)") << "sent twice, taken once";
}

TEST_F(MailboxTest, ANewSenderStartsItsOwnNumbersAndIsUnderstood) {
  post(*alpha_, "old");
  move_all();
  EXPECT_EQ(take(*beta_), "old");
  start_alpha(3000);
  post(*alpha_, "new");
  connect();
  move_all();
  EXPECT_EQ(take(*beta_), "new");
  EXPECT_EQ(beta_->link().peer_incarnation, 3000U);
}

TEST_F(MailboxTest, LettersOfADeadSenderAreTakenBeforeItsSuccessorMayOverwriteThem) {
  post(*alpha_, "last words");
  move_all();
  EXPECT_EQ(peek(*beta_), "last words");  // held while the successor comes
  start_alpha(3000);
  for (int i = 0; i < 4; ++i) post(*alpha_, "new " + std::to_string(i));
  connect();
  EXPECT_EQ(there_->next(Lane::control), 0U) << "not before the letter in hand is released";
  EXPECT_EQ(take(*beta_), "last words");
  tell();
  move_all();
  EXPECT_EQ(take(*beta_), "new 0");
}

TEST_F(MailboxTest, ANewReceiverGetsWhatTheOldOneHadNotReleased) {
  for (const char* text : {"one", "two", "three"}) post(*alpha_, text);
  move_all();
  EXPECT_EQ(take(*beta_), "one");
  tell();
  EXPECT_EQ(peek(*beta_), "two");  // dies while it reads "two"
  start_beta(4000);
  connect();
  move_all();
  EXPECT_EQ(take(*beta_), "two");
  EXPECT_EQ(take(*beta_), "three");
  EXPECT_EQ(take(*beta_), "(none)");
}

TEST_F(MailboxTest, NumbersOfAnIncarnationLieAboveAllNumbersOfEarlierOnes) {
  post(*alpha_, "a");
  const auto memory = MailboxMemory::open(alpha_address_);
  EXPECT_EQ(memory->gateway().posted[0], (1000U << 8) + 1);
  // One letter a nanosecond for the whole life of the earlier incarnation would be needed to catch up.
  EXPECT_LT(sequence_base(1000) + 255, sequence_base(1001));
}

TEST_F(MailboxTest, APeerCannotAcknowledgeWhatWasNeverPosted) {
  auto lie = MailboxMemory::open(beta_address_);
  lie->gateway().consumed[0] = ~std::uint64_t{0};
  tell();
  EXPECT_EQ(alpha_->outstanding(Lane::control), 0U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(post(*alpha_, "x"));
  EXPECT_FALSE(post(*alpha_, "x"));
}

TEST_F(MailboxTest, AHeaderThatClaimsAHugeLetterIsNotBelieved) {
  const auto memory = MailboxMemory::open(beta_address_);
  const auto sequence = sequence_base(1000) + 1;
  write_header(memory->inbox_slot(Lane::control, sequence), {sequence, 0, std::uint64_t{1} << 63, 1, {}, sequence});
  EXPECT_EQ(peek(*beta_), "(none)");
  EXPECT_EQ(beta_->link().torn, 1U);
}

TEST_F(MailboxTest, AnEmptyAndAFullLetterFit) {
  const std::string full(256, 'f');
  post(*alpha_, "");
  post(*alpha_, full);
  move_all();
  EXPECT_EQ(take(*beta_), "");
  EXPECT_EQ(take(*beta_), full);
}

TEST_F(MailboxTest, APeerThatStopsBeatingIsNotAlive) {
  const auto memory = MailboxMemory::open(beta_address_);
  memory->connector().state = static_cast<std::uint64_t>(ConnectorState::up);
  ++memory->connector().beat;
  tell();
  EXPECT_TRUE(beta_->link().up);
  EXPECT_TRUE(beta_->link().peer_alive);
  for (int i = 0; i < 40; ++i) {
    ++memory->connector().beat;
    beta_->beat(now_ += Seconds(0.1));
  }
  EXPECT_TRUE(beta_->link().up) << "the connector still beats";
  EXPECT_FALSE(beta_->link().peer_alive);
  EXPECT_GT(beta_->link().peer_silence, Seconds(3));
  beta_->beat(now_ += Seconds(4));
  EXPECT_FALSE(beta_->link().up);
}

TEST_F(MailboxTest, AnIslandThatLivesKeepsItsMailbox) {
  const pid_t other = fork();
  if (other == 0) {
    try {
      Mailbox second(alpha_address_, small, 5000);
      _exit(1);
    } catch (const ConfigError& error) {
      _exit(std::string(error.what()).find("has an island on this host already") == std::string::npos ? 2 : 0);
    }
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(MailboxTest, FilesThatAreNoMailboxAreRefused) {
  EXPECT_FALSE(MailboxMemory::open({root_, "islands", "alpha", "nobody"}));
  std::ofstream(alpha_address_.file()) << "short";
  EXPECT_THROW(static_cast<void>(MailboxMemory::open(alpha_address_)), ConfigError);
  std::ofstream(alpha_address_.file()) << std::string(100'000, 'z');
  EXPECT_THROW(static_cast<void>(MailboxMemory::open(alpha_address_)), ConfigError);
}

TEST_F(MailboxTest, OnlyAClosedMailboxThatWasNotReplacedIsRemoved) {
  const auto first = MailboxMemory::open(alpha_address_);
  first->remove_closed();
  EXPECT_TRUE(std::filesystem::exists(alpha_address_.file())) << "not closed";
  alpha_->close();
  start_alpha(3000);
  first->remove_closed();
  EXPECT_TRUE(std::filesystem::exists(alpha_address_.file())) << "replaced by a later incarnation";
  alpha_->close();
  MailboxMemory::open(alpha_address_)->remove_closed();
  EXPECT_FALSE(std::filesystem::exists(root_ / "islands" / "alpha"));
  EXPECT_TRUE(std::filesystem::exists(beta_address_.file())) << "another site's";
}

TEST_F(MailboxTest, AllHeadersAreBackedAndNothingIsLeftAside) {
  struct stat facts {};
  ASSERT_EQ(stat(alpha_address_.file().c_str(), &facts), 0);
  const std::size_t headers = 2 * (small.slots[0] + small.slots[1]);
  EXPECT_GE(static_cast<std::size_t>(facts.st_blocks) * 512, (4 + headers) * 4096);
  EXPECT_LT(facts.st_blocks * 512, facts.st_size) << "images are backed when they are written";
  // The name that the next one is written under is taken by a folder.
  std::filesystem::create_directory(alpha_address_.file().string() + ".new");
  EXPECT_THROW(start_alpha(3000), SystemError);
  EXPECT_FALSE(MailboxMemory::open(alpha_address_)->replaced());
}

TEST_F(MailboxTest, AMailboxLargerThanTheMemoryIsRefusedBeforeItHurts) {
  const MailboxAddress address{root_, "islands", "gamma", "beta"};
  EXPECT_THROW(Mailbox(address, {{4, 4}, {256, std::uint64_t{1} << 50}}, 1), ConfigError);
}

}  // namespace
}  // namespace Atoll::federation
