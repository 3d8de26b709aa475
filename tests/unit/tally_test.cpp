// What each GPU was given to do, counted by many threads and moved to where it outlives the process.
#include "observe/tally.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using gpufence::observe::Tally;
using gpufence::observe::Work;

TEST(Tally, CountsEachGpuAndItsThreadsOnce) {
  Tally tally(2);
  std::thread([&] {
    for (int i = 0; i < 5; ++i) tally.launch(0);
    tally.copy(0);
    tally.copy(1);
    tally.launch(2);  // no GPU of ours
    tally.launch(-1);
  }).join();
  const Work zero = tally.work(0), one = tally.work(1);
  EXPECT_EQ(zero.launches, 5u);
  EXPECT_EQ(zero.copies, 1u);
  EXPECT_EQ(zero.threads, 1u);
  EXPECT_EQ(one.launches, 0u);
  EXPECT_EQ(one.copies, 1u);
  EXPECT_EQ(one.threads, 1u);
}

TEST(Tally, LosesNothingWhenItMoves) {
  constexpr unsigned kThreads = 8, kEach = 20000;
  Tally tally(2);
  std::vector<Tally::Cell> kept(2 * Tally::kShards);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (unsigned n = 0; n < kEach; ++n) tally.launch(static_cast<int>(n % 2));
    });
  }
  tally.keep_in(kept.data());
  for (std::thread& thread : threads) thread.join();
  tally.keep_in(kept.data());
  std::uint64_t launches = 0, there = 0;
  for (std::size_t gpu = 0; gpu < 2; ++gpu) {
    launches += tally.work(gpu).launches;
    EXPECT_EQ(tally.work(gpu).threads, kThreads);
  }
  for (const Tally::Cell& cell : kept) there += cell.launches;
  EXPECT_EQ(launches, kThreads * kEach);
  EXPECT_EQ(there, kThreads * kEach);
}

TEST(Tally, OfAForkedChildBeginsAnew) {
  Tally tally(1);
  std::vector<Tally::Cell> kept(Tally::kShards);
  tally.launch(0);
  tally.keep_in(kept.data());
  tally.forget_after_fork();
  EXPECT_EQ(tally.work(0).launches, 0u);
  tally.launch(0);
  EXPECT_EQ(tally.work(0).launches, 1u);
  std::uint64_t parents = 0;
  for (const Tally::Cell& cell : kept) parents += cell.launches;
  EXPECT_EQ(parents, 1u);
}
