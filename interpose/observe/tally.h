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
  // What a shard counts of one GPU; zero at first.
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> launches{0}, copies{0}, threads{0};
  };
  static constexpr std::size_t kShards = 16;

  explicit Tally(std::size_t devices)
      : devices_(devices), own_(std::make_unique<Cell[]>(devices * kShards)), cells_(own_.get()) {}

  [[nodiscard]] std::size_t devices() const noexcept { return devices_; }

  // From now on counted there, in cells that outlive the process: devices × kShards of them, never given
  // back. Again for the same: what a thread still counted elsewhere meanwhile comes after.
  void keep_in(Cell* cells) noexcept {
    cells_.store(cells, std::memory_order_release);
    for (std::size_t i = 0; i < devices_ * kShards; ++i) {
      for (auto what : {&Cell::launches, &Cell::copies, &Cell::threads})
        (cells[i].*what).fetch_add((own_[i].*what).exchange(0));
    }
  }
  // In the child after fork: what was counted is the parent's.
  void forget_after_fork() noexcept {
    cells_.store(own_.get());
    for (std::size_t i = 0; i < devices_ * kShards; ++i) {
      for (auto what : {&Cell::launches, &Cell::copies, &Cell::threads}) (own_[i].*what).store(0);
    }
  }

  void launch(int device) noexcept { count(device, &Cell::launches); }
  void copy(int device) noexcept { count(device, &Cell::copies); }
  // The thread did something there that is neither.
  void touch(int device) noexcept {
    if (device >= 0 && static_cast<std::size_t>(device) < devices_) (void)shard_on(device);
  }

  [[nodiscard]] Work work(std::size_t device) const noexcept {
    Work sum;
    const Cell* now = cells_.load(std::memory_order_acquire);
    for (const Cell* cells : {static_cast<const Cell*>(own_.get()), now == own_.get() ? nullptr : now}) {
      for (std::size_t shard = 0; cells != nullptr && shard < kShards; ++shard) {
        const Cell& cell = cells[shard * devices_ + device];
        sum.launches += cell.launches.load(std::memory_order_relaxed);
        sum.copies += cell.copies.load(std::memory_order_relaxed);
        sum.threads += cell.threads.load(std::memory_order_relaxed);
      }
    }
    return sum;
  }

 private:
  static inline constinit thread_local TallyThread this_thread{};
  static inline constinit std::atomic<std::uint32_t> threads_seen{0};

  void count(int device, std::atomic<std::uint64_t> Cell::*what) noexcept {
    if (device < 0 || static_cast<std::size_t>(device) >= devices_) return;
    (shard_on(device).*what).fetch_add(1, std::memory_order_relaxed);
  }

  // This thread's cell of that GPU; at its first there the thread is counted.
  Cell& shard_on(int device) noexcept {
    const auto at = static_cast<std::size_t>(device);
    TallyThread& mine = this_thread;
    Cell* cells = cells_.load(std::memory_order_relaxed);
    const std::uint64_t bit = std::uint64_t{1} << (at % 64);
    if ((mine.worked_on & bit) == 0) [[unlikely]] {
      mine.worked_on |= bit;
      if (mine.shard == 0) mine.shard = 1 + threads_seen.fetch_add(1, std::memory_order_relaxed) % kShards;
      cells[(mine.shard - 1) * devices_ + at].threads.fetch_add(1, std::memory_order_relaxed);
    }
    return cells[(mine.shard - 1) * devices_ + at];
  }

  std::size_t devices_;
  std::unique_ptr<Cell[]> own_;
  std::atomic<Cell*> cells_;
};

}  // namespace gpufence::observe
