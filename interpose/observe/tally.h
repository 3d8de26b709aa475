// How much work each GPU got: launches, copies and the threads that made them, for the exit report. Counted
// in the calls themselves, so it is sharded by thread: a launch must not wait for another thread's cache
// line.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace gpufence::observe {

struct Work {
  std::uint64_t launches = 0, copies = 0, threads = 0;
};

struct TallyThread {
  std::uint64_t worked_on = 0;  // ordinals
  std::uint32_t shard = 0;      // from 1; 0: none yet
};

class Tally {
 public:
  explicit Tally(std::size_t devices)
      : devices_(devices),
        cells_(std::make_unique<Cell[]>(devices * kShards)),
        threads_(std::make_unique<std::atomic<std::uint64_t>[]>(devices)) {}

  void launch(int device) noexcept { count(device, &Cell::launches); }
  void copy(int device) noexcept { count(device, &Cell::copies); }

  [[nodiscard]] Work work(std::size_t device) const noexcept {
    Work sum;
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      const Cell& cell = cells_[shard * devices_ + device];
      sum.launches += cell.launches.load(std::memory_order_relaxed);
      sum.copies += cell.copies.load(std::memory_order_relaxed);
    }
    sum.threads = threads_[device].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> launches{0}, copies{0};
  };
  static constexpr std::size_t kShards = 16;

  static inline constinit thread_local TallyThread this_thread{};
  static inline constinit std::atomic<std::uint32_t> threads_seen{0};

  void count(int device, std::atomic<std::uint64_t> Cell::*what) noexcept {
    const auto at = static_cast<std::size_t>(device);
    if (device < 0 || at >= devices_) return;
    TallyThread& mine = this_thread;
    const std::uint64_t bit = std::uint64_t{1} << (at % 64);
    if ((mine.worked_on & bit) == 0) [[unlikely]] {
      mine.worked_on |= bit;
      if (mine.shard == 0) mine.shard = 1 + threads_seen.fetch_add(1, std::memory_order_relaxed) % kShards;
      threads_[at].fetch_add(1, std::memory_order_relaxed);
    }
    (cells_[(mine.shard - 1) * devices_ + at].*what).fetch_add(1, std::memory_order_relaxed);
  }

  std::size_t devices_;
  std::unique_ptr<Cell[]> cells_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> threads_;
};

}  // namespace gpufence::observe
