// The ledger of one process: never over, never below zero, right under threads.
#include "ledger/ledger.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>

using gpufence::ledger::Holding;
using gpufence::ledger::Ledger;

namespace {

const auto kAny = [](std::uint64_t) { return true; };
auto at_most(std::uint64_t cap, std::uint64_t bytes) {
  return [=](std::uint64_t held) { return held + bytes <= cap; };
}

}  // namespace

TEST(Ledger, AReservationCountsBeforeItIsCommitted) {
  Ledger ledger({"GPU-a"});
  EXPECT_TRUE(ledger.reserve(0, 700, at_most(1000, 700)));
  EXPECT_FALSE(ledger.reserve(0, 400, at_most(1000, 400)));
  EXPECT_EQ(ledger.balance(0).held, 700u);
  EXPECT_EQ(ledger.balance(0).refusals, 0u);
  ledger.count_refusal(0);
  EXPECT_EQ(ledger.balance(0).refusals, 1u);
  ledger.cancel(0, 700);
  EXPECT_EQ(ledger.balance(0).held, 0u);
}

TEST(Ledger, ThePeakIsOfWhatTheDriverGave) {
  Ledger ledger({"GPU-a"});
  ASSERT_TRUE(ledger.reserve(0, 900, kAny));
  ledger.cancel(0, 900);  // the card was full
  EXPECT_EQ(ledger.balance(0).peak, 0u);
  ASSERT_TRUE(ledger.reserve(0, 300, kAny));
  ASSERT_TRUE(ledger.commit(0x1000, {0, 300, nullptr, 0}));
  ledger.release(*ledger.take(0x1000));
  EXPECT_EQ(ledger.balance(0).held, 0u);
  EXPECT_EQ(ledger.balance(0).peak, 300u);
}

TEST(Ledger, AFreeTakesTheHoldingOutAndAFailedFreePutsItBack) {
  Ledger ledger({"GPU-a", "GPU-b"});
  ASSERT_TRUE(ledger.reserve(1, 300, kAny));
  ASSERT_TRUE(ledger.commit(0x1000, {1, 300, nullptr, 0}));
  const auto holding = ledger.take(0x1000);
  ASSERT_TRUE(holding);
  EXPECT_EQ(holding->bytes, 300u);
  EXPECT_FALSE(ledger.take(0x1000));
  ledger.put_back(0x1000, *holding);
  EXPECT_EQ(ledger.balance(1).held, 300u);
  ledger.release(*ledger.take(0x1000));
  EXPECT_EQ(ledger.balance(1).held, 0u);
  EXPECT_EQ(ledger.balance(0).held, 0u);
  EXPECT_EQ(ledger.underflows(), 0u);
}

TEST(Ledger, AnUnknownAddressIsNobodys) {
  Ledger ledger({"GPU-a"});
  EXPECT_FALSE(ledger.take(0x1000));
}

TEST(Ledger, ReleasingMoreThanIsHeldSaturatesAndIsCounted) {
  Ledger ledger({"GPU-a"});
  ASSERT_TRUE(ledger.reserve(0, 100, kAny));
  ledger.cancel(0, 101);
  EXPECT_EQ(ledger.balance(0).held, 0u);
  EXPECT_EQ(ledger.underflows(), 1u);
}

TEST(Ledger, ADestroyedContextGivesBackWhatItHeldAtThatMark) {
  Ledger ledger({"GPU-a"});
  int mine = 0, other = 0;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(ledger.reserve(0, 10, kAny));
    ASSERT_TRUE(ledger.commit(i << 12, {0, 10, i % 2 == 0 ? &mine : &other, 0}));
  }
  const std::uint64_t mark = ledger.mark();
  // Allocated while the driver destroys: at an address of the old context, and at a new one.
  ASSERT_TRUE(ledger.reserve(0, 7, kAny));
  ASSERT_TRUE(ledger.commit(std::uint64_t{2} << 12, {0, 7, &mine, 0}));
  EXPECT_EQ(ledger.release_context(&mine, mark), 499u * 10);
  EXPECT_EQ(ledger.balance(0).held, 500u * 10 + 7);
  EXPECT_TRUE(ledger.take(std::uint64_t{2} << 12));
  EXPECT_FALSE(ledger.take(std::uint64_t{4} << 12));
  EXPECT_TRUE(ledger.take(std::uint64_t{3} << 12));
}

TEST(Ledger, AHundredThousandRandomStepsAgreeWithAMap) {
  Ledger ledger({"GPU-a"});
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(20261130);
  std::uint64_t held = 0;
  for (int step = 0; step < 100000; ++step) {
    const std::uint64_t address = (random() % 5000 + 1) * 512;
    const auto found = model.find(address);
    const auto holding = ledger.take(address);
    ASSERT_EQ(holding.has_value(), found != model.end());
    if (holding) {
      ASSERT_EQ(holding->bytes, found->second);
      ledger.release(*holding);
      held -= found->second;
      model.erase(found);
    } else {
      const std::uint64_t bytes = random() % 1000;
      ASSERT_TRUE(ledger.reserve(0, bytes, kAny));
      ASSERT_TRUE(ledger.commit(address, {0, bytes, nullptr, 0}));
      held += bytes;
      model.emplace(address, bytes);
    }
    ASSERT_EQ(ledger.balance(0).held, held);
  }
}

TEST(Ledger, EightThreadsNeverExceedTheCapAndLeaveNothing) {
  constexpr std::uint64_t kCap = 10'000;
  Ledger ledger({"GPU-a"});
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 8; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937_64 random(id);
      for (int i = 0; i < 5000; ++i) {
        const std::uint64_t bytes = random() % 4000,
                            address = ((id * 5000 + static_cast<std::uint64_t>(i)) + 1) * 256;
        if (!ledger.reserve(0, bytes, at_most(kCap, bytes))) continue;
        if (ledger.balance(0).held > kCap) over = true;
        if (!ledger.commit(address, {0, bytes, nullptr, 0})) over = true;
        const auto holding = ledger.take(address);
        if (holding)
          ledger.release(*holding);
        else
          over = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over);
  EXPECT_EQ(ledger.balance(0).held, 0u);
  EXPECT_LE(ledger.balance(0).peak, kCap);
  EXPECT_EQ(ledger.underflows(), 0u);
}

TEST(Ledger, AForkedChildHoldsNothingAndIsNotStoppedByAParentsLock) {
  Ledger ledger({"GPU-a"});
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      if (ledger.reserve(0, 8, kAny) && ledger.commit((i % 64 + 1) * 256, {0, 8, nullptr, 0})) {
        if (const auto holding = ledger.take((i % 64 + 1) * 256)) ledger.release(*holding);
      }
    }
  });
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      ledger.forget_after_fork();
      const bool clean = ledger.balance(0).held == 0 && !ledger.take(256) && ledger.reserve(0, 5, kAny) &&
                         ledger.commit(256, {0, 5, nullptr, 0}) && ledger.take(256).has_value();
      _exit(clean ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}
