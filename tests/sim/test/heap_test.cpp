// The allocator under the simulated GPU memory.
#include "heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

namespace gpufence::sim {
namespace {

constexpr uint64_t kMiB = 1048576, kGiB = 1073741824;

TEST(Heap, BlocksAreAlignedAndApart) {
  Heap heap(nullptr);
  Block *a = heap.allocate(1, kGiB), *b = heap.allocate(513, kGiB), *c = heap.allocate(512, kGiB);
  EXPECT_EQ(a->address % 512, 0u);
  EXPECT_EQ(b->address - a->address, 512u);
  EXPECT_EQ(c->address - b->address, 1024u);
  EXPECT_EQ(b->bytes, 513u);
}

TEST(Heap, InteriorAddressesFindTheirBlockAndOthersNone) {
  Heap heap(nullptr);
  Block* a = heap.allocate(100000, kGiB);
  Block* b = heap.allocate(700, kGiB);
  EXPECT_EQ(heap.at(a->address), a);
  EXPECT_EQ(heap.at(a->address + 512), nullptr);
  EXPECT_EQ(heap.containing(a->address + 99999), a);
  EXPECT_EQ(heap.containing(a->address + 100000), nullptr);
  EXPECT_EQ(heap.containing(b->address + 699), b);
  EXPECT_EQ(heap.containing(b->address + 700), nullptr);
  EXPECT_EQ(heap.containing(12345), nullptr);
  const uintptr_t was = a->address;
  heap.free(a);
  EXPECT_EQ(heap.at(was), nullptr);
  EXPECT_EQ(heap.containing(was + 1), nullptr);
}

TEST(Heap, TheWholeRoomIsOneBlockAgainAfterFrees) {
  Heap heap(nullptr);
  std::vector<Block*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(heap.allocate(kMiB, 64 * kMiB));
  const uintptr_t first = blocks[0]->address;
  for (size_t i = 0; i < 64; i += 2) heap.free(blocks[i]);
  for (size_t i = 1; i < 64; i += 2) heap.free(blocks[i]);
  EXPECT_EQ(heap.allocate(64 * kMiB, 64 * kMiB)->address, first);
}

TEST(Heap, FragmentedRoomGetsMoreAddresses) {
  Heap heap(nullptr);
  std::vector<Block*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(heap.allocate(kMiB, 64 * kMiB));
  for (size_t i = 0; i < 64; i += 2) heap.free(blocks[i]);
  Block* whole = heap.allocate(32 * kMiB, 64 * kMiB);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(heap.containing(whole->address + 32 * kMiB - 1), whole);
}

TEST(Heap, ThirtyTwoBitAddressesForTheFirstAbi) {
  Heap heap(nullptr, true);
  Block* block = heap.allocate(1000, 16 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_LT(block->address, uint64_t{1} << 32);
}

TEST(Heap, AddressesBelongToTheirOwner) {
  int one, other;
  Heap first(&one), second(&other);
  const uintptr_t a = first.allocate(10, kMiB)->address, b = second.allocate(10, kMiB)->address;
  EXPECT_EQ(owner_of(a), &one);
  EXPECT_EQ(owner_of(b + 5), &other);
  EXPECT_EQ(owner_of(reinterpret_cast<uintptr_t>(&one)), nullptr);
}

TEST(Heap, EightTimes80GiBReserveNothing) {
  for (int gpu = 0; gpu < 8; ++gpu) {
    Heap heap(nullptr);
    Block* block = heap.allocate(80 * kGiB, 80 * kGiB);
    ASSERT_NE(block, nullptr);
    auto* memory = reinterpret_cast<char*>(block->address);
    memory[0] = 1;
    memory[80 * kGiB - 1] = 2;
    EXPECT_EQ(memory[80 * kGiB - 1], 2);
    heap.free(block);
  }
}

TEST(Heap, FreedPagesGoBackToTheHost) {
  Heap heap(nullptr);
  Block* block = heap.allocate(32 * kMiB, kGiB);
  const uintptr_t at = block->address;
  memset(reinterpret_cast<void*>(at), 7, 32 * kMiB);
  heap.free(block);
  std::vector<unsigned char> resident(32 * kMiB / 4096);
  ASSERT_EQ(mincore(reinterpret_cast<void*>(at), 32 * kMiB, resident.data()), 0);
  EXPECT_LE(std::count_if(resident.begin(), resident.end(), [](unsigned char c) { return c & 1; }), 2);
}

TEST(Heap, SizesThatRoundingWouldWrapAreRefused) {
  for (const bool below_4gib : {false, true}) {
    Heap heap(nullptr, below_4gib);
    for (int used = 0; used < 2; ++used) {
      for (const uint64_t bytes : {0xffff'ffff'ffff'ffff, 0xffff'ffff'ffff'ff9c, 0xffff'ffff'ffff'fe01,
                                   0xffff'ffff'ffff'fe00, 0xffff'ffff'ffe0'0000, 0x8000'0000'0000'0000})
        EXPECT_EQ(heap.allocate(bytes, kMiB), nullptr) << bytes;
      EXPECT_NE(heap.allocate(1000, kMiB), nullptr);
    }
  }
}

TEST(Heap, ARandomWalkNeverOverlapsAndAlwaysFinds) {
  Heap heap(nullptr);
  std::mt19937 random(7);
  std::map<uintptr_t, Block*> live;
  for (int step = 0; step < 200'000; ++step) {
    if (live.size() < 2000 && random() % 5 < 3) {
      const uint64_t bytes = 1 + random() % (random() % 50 == 0 ? 4 * kMiB : 20'000);
      Block* block = heap.allocate(bytes, 64 * kMiB);
      ASSERT_NE(block, nullptr);
      auto next = live.lower_bound(block->address);
      if (next != live.end()) {
        ASSERT_LE(block->address + bytes, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second->bytes, block->address);
      }
      live[block->address] = block;
    } else if (!live.empty()) {
      auto it =
          live.lower_bound(live.begin()->first + random() % (live.rbegin()->first - live.begin()->first + 1));
      ASSERT_EQ(heap.at(it->first), it->second);
      ASSERT_EQ(heap.containing(it->first + it->second->bytes / 2), it->second);
      heap.free(it->second);
      live.erase(it);
    }
  }
}

}  // namespace
}  // namespace gpufence::sim
