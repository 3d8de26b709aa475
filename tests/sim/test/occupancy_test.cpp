// The truth that processes share about a simulated GPU: filled together, and given back by death.
#include "occupancy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "process.h"

namespace gpufence::sim {
namespace {

constexpr uint64_t kGiB = 1073741824;

// A machine of its own for each test, so that each has a file of its own.
Machine machine(const char* spec) {
  Machine m = *read_machine(spec);
  m.key = m.key.substr(0, 8) + std::to_string(getpid() % 90'000'000 + 10'000'000);
  return m;
}

std::string file_of(const Machine& m) {
  return private_directory() + "/gpufence-sim-" + std::to_string(geteuid()) + "-" + m.key;
}

TEST(Occupancy, FitsToTheByte) {
  const Machine m = machine("2x1GiB");
  in_child({}, [&] {
    Occupancy o(m);
    EXPECT_TRUE(o.shared());
    EXPECT_TRUE(o.reserve(0, kGiB - 1));
    EXPECT_FALSE(o.reserve(0, 2));
    EXPECT_TRUE(o.reserve(0, 1));
    EXPECT_FALSE(o.reserve(0, 1));
    EXPECT_EQ(o.used(0), 1073741824u);
    EXPECT_EQ(o.used(1), 0u);
    o.release(0, 5);
    EXPECT_EQ(o.used(0), 1073741819u);
  });
}

TEST(Occupancy, TwoProcessesFillOneGpuAndSigkillGivesItBack) {
  const Machine m = machine("1x16GiB");
  Signal filled;
  const pid_t first = start({}, [&] {
    Occupancy o(m);
    EXPECT_TRUE(o.reserve(0, 10 * kGiB));
    filled.send();
    pause();
  });
  filled.wait();
  in_child({}, [&] {
    Occupancy o(m);
    EXPECT_EQ(o.used(0), 10737418240u);
    EXPECT_FALSE(o.reserve(0, 7 * kGiB));
    EXPECT_TRUE(o.reserve(0, 6 * kGiB));
    const auto list = holders(m);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0].pid, first);
    EXPECT_EQ(list[0].bytes, std::vector<uint64_t>{10737418240u});
    EXPECT_EQ(list[1].pid, getpid());
    kill(first, SIGKILL);
    // Dead once the kernel took its memory down, of which the parent's wait is no condition.
    for (int i = 0; i < 2000 && o.used(0) != 6 * kGiB; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(o.used(0), 6442450944u);
    EXPECT_TRUE(o.reserve(0, 10 * kGiB));
    EXPECT_EQ(holders(m).size(), 1u);
  });
  EXPECT_TRUE(WIFSIGNALED(finish(first)));
  in_child({}, [&] {
    Occupancy o(m);
    EXPECT_EQ(o.used(0), 0u);
  });
}

TEST(Occupancy, AProcessThatDiedInsideTheLockIsNoObstacle) {
  const Machine m = machine("1x16GiB");
  for (int round = 0; round < 20; ++round) {
    Signal running;
    const pid_t victim = start({}, [&] {
      Occupancy o(m);
      running.send();
      while (true) {
        if (o.reserve(0, kGiB)) o.release(0, kGiB);
      }
    });
    running.wait();
    usleep(static_cast<useconds_t>(500 + 137 * round));
    kill(victim, SIGKILL);
    finish(victim);
    in_child({}, [&] {
      Occupancy o(m);
      EXPECT_TRUE(o.shared());
      EXPECT_TRUE(o.reserve(0, 16 * kGiB));
      EXPECT_EQ(o.used(0), 16 * kGiB);
    });
  }
}

TEST(Occupancy, ManyProcessesNeverHoldMoreThanTheGpu) {
  const Machine m = machine("1x1GiB");
  std::vector<pid_t> pids;
  for (int i = 0; i < 8; ++i)
    pids.push_back(start({}, [&] {
      Occupancy o(m);
      for (int step = 0; step < 3000; ++step) {
        if (!o.reserve(0, kGiB / 3)) continue;
        EXPECT_LE(o.used(0), kGiB);
        o.release(0, kGiB / 3);
      }
    }));
  for (pid_t pid : pids) EXPECT_EQ(finish(pid), 0);
  in_child({}, [&] {
    Occupancy o(m);
    EXPECT_EQ(o.used(0), 0u);
  });
}

TEST(Occupancy, AForkedChildDoesNotKeepItsParentAlive) {
  const Machine m = machine("1x1GiB");
  Signal forked, checked;
  const pid_t parent = start({}, [&] {
    Occupancy o(m);
    EXPECT_TRUE(o.reserve(0, kGiB));
    if (fork() == 0) {
      forked.send();
      checked.wait();
      _exit(0);
    }
    pause();
  });
  forked.wait();
  kill(parent, SIGKILL);
  finish(parent);
  in_child({}, [&] {
    Occupancy o(m);
    EXPECT_TRUE(o.reserve(0, kGiB));
  });
  checked.send();
}

TEST(Occupancy, ADamagedFileIsReplaced) {
  const Machine m = machine("1x1GiB");
  for (const char* damage : {"", "short", "garbage"}) {
    in_child({}, [&] { Occupancy o(m); });
    {
      struct stat s;
      ASSERT_EQ(stat(file_of(m).c_str(), &s), 0);
      std::ofstream file(file_of(m), std::ios::binary | std::ios::trunc);
      const std::string what = damage;
      file << (what == "garbage" ? std::string(static_cast<size_t>(s.st_size), '\x5a') : what);
    }
    const std::string said = stderr_of({}, [&] {
      Occupancy o(m);
      EXPECT_TRUE(o.shared()) << damage;
      EXPECT_TRUE(o.reserve(0, kGiB)) << damage;
    });
    EXPECT_EQ(said, "");
  }
}

TEST(Occupancy, DamagedNumbersBehindAGoodHeaderDoNotHangOrRefuse) {
  const Machine m = machine("1x1GiB");
  in_child({}, [&] { Occupancy o(m); });
  {
    struct stat s;
    ASSERT_EQ(stat(file_of(m).c_str(), &s), 0);
    std::fstream file(file_of(m), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(64);  // behind magic, counts and key: every lock, total, pid and number of bytes
    file << std::string(static_cast<size_t>(s.st_size) - 64, '\x77');
  }
  in_child({}, [&] {
    const auto before = std::chrono::steady_clock::now();
    Occupancy o(m);
    EXPECT_TRUE(o.reserve(0, kGiB));
    EXPECT_EQ(o.used(0), kGiB);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
  });
}

TEST(Occupancy, ForeignThingsInItsPlaceAreLeftAloneAndSaidOnce) {
  const Machine m = machine("1x1GiB");
  std::filesystem::create_directory(file_of(m));
  const std::string said = stderr_of({}, [&] {
    Occupancy o(m);
    EXPECT_FALSE(o.shared());
    EXPECT_TRUE(o.reserve(0, kGiB));
    EXPECT_FALSE(o.reserve(0, 1));
    EXPECT_EQ(o.used(0), kGiB);
  });
  EXPECT_EQ(said.find("gpufence: simulated GPUs: " + file_of(m)), 0u) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_TRUE(std::filesystem::is_directory(file_of(m)));
  std::filesystem::remove(file_of(m));
}

TEST(Occupancy, NoDirectoryMeansAlone) {
  const Machine m = machine("1x1GiB");
  const std::string said = stderr_of({{"GPUFENCE_SIM_DIR", "/nowhere"}}, [&] {
    Occupancy o(m);
    EXPECT_FALSE(o.shared());
    EXPECT_TRUE(o.reserve(0, kGiB));
  });
  EXPECT_NE(said.find("No such file or directory"), std::string::npos) << said;
}

TEST(Occupancy, AStoppedLockHolderIsWaitedForTwoSecondsAndThenDoneWithout) {
  const Machine m = machine("1x1GiB");
  Signal running;
  // Holds the lock word for good by writing it as a live process does.
  const pid_t holder = start({}, [&] {
    Occupancy o(m);
    EXPECT_TRUE(o.reserve(0, 1));
    const int fd = open(file_of(m).c_str(), O_RDWR);
    const uint64_t word = 0x10000 | 1;  // slot 0, another stamp than this process's own
    EXPECT_EQ(pwrite(fd, &word, sizeof word, 64), 8);
    running.send();
    pause();
  });
  running.wait();
  const std::string said = stderr_of({}, [&] {
    const auto before = std::chrono::steady_clock::now();
    Occupancy o(m);
    EXPECT_TRUE(o.reserve(0, kGiB));
    EXPECT_FALSE(o.shared());
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
  });
  EXPECT_NE(said.find("a process holds the lock and does not move"), std::string::npos) << said;
  kill(holder, SIGKILL);
  finish(holder);
}

TEST(Occupancy, ThreadsOfOneProcessShareItsSlot) {
  const Machine m = machine("1x1GiB");
  in_child({}, [&] {
    Occupancy o(m);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 5000; ++i)
          if (o.reserve(0, 1000)) o.release(0, 1000);
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(o.used(0), 0u);
  });
}

}  // namespace
}  // namespace gpufence::sim
