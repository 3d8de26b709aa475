// Memory of cuMemCreate in the books: it goes when its last handle and its last mapping went, in whatever order, and
// numbers that come back stand for what they stand for now.
#include "ledger/mapped.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace gpufence::ledger {
namespace {

constexpr std::uint64_t kHandle = 7, kAddress = 0x10000000, kBytes = 0x200000;

Holding of(std::uint64_t bytes) {
  return {0, bytes, nullptr, 0, nullptr};
}
std::uint64_t bytes_of(const std::optional<Holding>& gone) {
  return gone ? gone->bytes : 0;
}
// What a release gives back, the driver consenting.
std::uint64_t release(Mapped& mapped, std::uint64_t handle) {
  const auto memory = mapped.releasing(handle);
  return memory != nullptr ? bytes_of(mapped.released(memory)) : 0;
}
std::uint64_t unmap(Mapped& mapped, std::uint64_t address, std::uint64_t bytes) {
  std::uint64_t sum = 0;
  for (const Mapped::Place& place : mapped.unmapping(address, bytes)) sum += bytes_of(mapped.unmapped(place));
  return sum;
}

TEST(Mapped, GoesWithItsHandleIfItIsNotMapped) {
  Mapped mapped;
  ASSERT_TRUE(mapped.created(kHandle, of(kBytes)));
  EXPECT_EQ(release(mapped, kHandle), kBytes);
  EXPECT_EQ(release(mapped, kHandle), 0u);
}

TEST(Mapped, GoesWithItsLastMappingOrItsLastHandle) {
  Mapped mapped;
  ASSERT_TRUE(mapped.created(kHandle, of(kBytes)));
  mapped.mapped(kHandle, kAddress, kBytes);
  mapped.mapped(kHandle, kAddress + kBytes, kBytes);
  EXPECT_EQ(release(mapped, kHandle), 0u);
  EXPECT_EQ(unmap(mapped, kAddress, kBytes), 0u);
  EXPECT_EQ(unmap(mapped, kAddress + kBytes, kBytes), kBytes);

  ASSERT_TRUE(mapped.created(kHandle, of(kBytes)));
  mapped.mapped(kHandle, kAddress, kBytes);
  EXPECT_EQ(unmap(mapped, kAddress, kBytes), 0u);
  EXPECT_EQ(release(mapped, kHandle), kBytes);
}

TEST(Mapped, IsHeldByAHandleThatWasAskedForAgain) {
  Mapped mapped;
  ASSERT_TRUE(mapped.created(kHandle, of(kBytes)));
  mapped.mapped(kHandle, kAddress, kBytes);
  mapped.retained(kHandle, kAddress + 4096);
  EXPECT_EQ(release(mapped, kHandle), 0u);
  EXPECT_EQ(unmap(mapped, kAddress, kBytes), 0u);
  EXPECT_EQ(release(mapped, kHandle), kBytes);
}

// The driver hands the number of released memory to other memory while the first is still mapped.
TEST(Mapped, TellsMemoryOfOneNumberApart) {
  Mapped mapped;
  ASSERT_TRUE(mapped.created(kHandle, of(100)));
  mapped.mapped(kHandle, kAddress, kBytes);
  EXPECT_EQ(release(mapped, kHandle), 0u);
  ASSERT_TRUE(mapped.created(kHandle, of(30)));
  EXPECT_EQ(release(mapped, kHandle), 30u);
  EXPECT_EQ(unmap(mapped, kAddress, kBytes), 100u);
}

TEST(Mapped, StaysAsItWasWhereTheDriverRefused) {
  Mapped mapped;
  ASSERT_TRUE(mapped.created(kHandle, of(kBytes)));
  mapped.mapped(kHandle, kAddress, kBytes);
  mapped.not_unmapped(mapped.unmapping(kAddress, kBytes));
  mapped.not_released(kHandle, mapped.releasing(kHandle));
  EXPECT_EQ(unmap(mapped, kAddress, kBytes), 0u);
  EXPECT_EQ(release(mapped, kHandle), kBytes);
}

TEST(Mapped, OfOthersIsLeftAlone) {
  Mapped mapped;
  EXPECT_EQ(mapped.releasing(99), nullptr);
  mapped.mapped(99, kAddress, kBytes);
  EXPECT_TRUE(mapped.unmapping(kAddress, kBytes).empty());
  mapped.retained(99, kAddress);
}

TEST(Mapped, IsGivenBackOnceByManyThreads) {
  Mapped mapped;
  std::atomic<std::uint64_t> back{0};
  constexpr std::uint64_t kEach = 2000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::uint64_t handle = t * kEach + i + 1, address = (handle << 32);
        if (!mapped.created(handle, of(1))) return;
        mapped.mapped(handle, address, kBytes);
        back += release(mapped, handle);
        back += unmap(mapped, address, kBytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(back.load(), 4 * kEach);
}

}  // namespace
}  // namespace gpufence::ledger
