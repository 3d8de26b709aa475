// Memory that the driver keeps in store for a program: its pools, and what it holds for the graphs of a GPU.
// What counts is what such a store has reserved, which the driver tells; it grows within allocations and
// launches, and shrinks where the driver sees fit, at synchronising calls and trims.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "hooks/charge.h"

namespace gpufence::hooks {

class Store {
 public:
  Store(std::uint32_t row, CUmemoryPool pool) : row_(row), pool_(pool) {}  // pool null: of graphs
  [[nodiscard]] std::uint32_t row() const { return row_; }

  // Books what `bytes` more may make the store grow, calls, and settles to what the driver then says. `undo`
  // takes back what the call gave, where the store grew more than there was room for; false: it can't be
  // taken back, and counts.
  template <class Call, class Undo>
  CUresult grown(Visible& seen, std::uint64_t bytes, const observe::Call& made, Call call,
                 Undo undo) noexcept {
    const Inside inside(*this);
    const Prepared before = prepare(seen, bytes);
    if (!before.booked.ok()) return refuse({&seen, row_, nullptr}, bytes, before.booked, made, before.more);
    const CUresult result = call();
    const ledger::Booked booked = settle(seen, result == CUDA_SUCCESS);
    if (booked.ok()) return result;
    const std::uint64_t after = read().reserved;
    const bool undone = undo();
    shrink(seen);
    if (!undone) return result;
    return refuse({&seen, row_, nullptr}, bytes, booked, made,
                  after > before.reserved ? after - before.reserved : 0);
  }

  // Gives back what the driver has let go since. Never waits for who is in the store.
  void look(Visible& seen) noexcept;
  // Trims it to what is used, and gives that back. True if anything was.
  bool reclaim(Visible& seen) noexcept;
  // An allocation of the pool came or went. Whose store a holding's memory is of, or null.
  void one_more() noexcept { allocations_.fetch_add(1, std::memory_order_relaxed); }
  void one_less() noexcept { allocations_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] const void* tag() const noexcept { return reinterpret_cast<const char*>(this) + 1; }
  [[nodiscard]] static Store* of(const ledger::Holding& holding) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(holding.context);
    return (bits & 1) != 0 ? reinterpret_cast<Store*>(bits - 1) : nullptr;
  }
  // The pool was destroyed: the driver keeps it until the last of its allocations is freed, and tells no more
  // of it. True if nothing is left to wait for.
  bool gone(Visible& seen) noexcept;
  // How often it was trimmed.
  [[nodiscard]] unsigned trims() const noexcept { return trims_.load(std::memory_order_relaxed); }
  void trimmed() noexcept { trims_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // The store's lock, and who has it: a refusal within looks into all stores, this one too.
  class Inside {
   public:
    explicit Inside(Store& store) : store_(store), guard_(store.lock_) {
      store_.owner_.store(pthread_self(), std::memory_order_relaxed);
    }
    Inside(const Inside&) = delete;
    ~Inside() { store_.owner_.store(pthread_t{}, std::memory_order_relaxed); }

   private:
    Store& store_;
    std::lock_guard<std::mutex> guard_;
  };
  [[nodiscard]] bool is_mine() const noexcept {
    return owner_.load(std::memory_order_relaxed) == pthread_self();
  }

  struct Reading {
    bool known = false;
    std::uint64_t reserved = 0, used = 0;
  };
  [[nodiscard]] Reading read() const noexcept;
  struct Prepared {
    ledger::Booked booked;
    std::uint64_t more = 0;      // that was asked of the books
    std::uint64_t reserved = 0;  // by the driver, before the call
  };
  [[nodiscard]] Prepared prepare(Visible& seen, std::uint64_t bytes) noexcept;
  [[nodiscard]] ledger::Booked settle(Visible& seen, bool allocated) noexcept;
  void shrink(Visible& seen) noexcept;
  void release_down_to(Visible& seen, std::uint64_t reserved) noexcept;

  const std::uint32_t row_;
  const CUmemoryPool pool_;
  std::mutex lock_;
  std::uint64_t charged_ = 0;
  std::atomic<unsigned> trims_{0};
  std::atomic<std::int64_t> allocations_{0};
  bool gone_ = false;
  std::atomic<pthread_t> owner_{};
};

// In the child after fork.
void forget_executables_after_fork() noexcept;

// All of this process's. Leaked, as threads may still be in them while it exits.
class Stores {
 public:
  static Stores& get() noexcept;

  // Null: no store of this view's (of the host, imported, or out of host memory).
  Store* of_pool(CUmemoryPool pool) noexcept;
  Store* add_pool(CUmemoryPool pool, std::uint32_t row) noexcept;
  void remove_pool(CUmemoryPool pool, bool keep) noexcept;
  Store* of_graphs(std::uint32_t row) noexcept;

  // Something was freed into a store: the next synchronising call looks what came of it.
  void freed() noexcept {
    if (any_.load(std::memory_order_relaxed)) dirty_.store(true, std::memory_order_relaxed);
  }
  void synchronised() noexcept {
    if (dirty_.load(std::memory_order_relaxed)) [[unlikely]]
      look();
  }
  void look() noexcept;
  // Before a refusal on that row: what lies there unused is given back. True if anything was.
  bool reclaim(std::uint32_t row) noexcept;

  void forget_after_fork() noexcept;

 private:
  template <class Visit>
  void each(Visit visit) noexcept;

  std::atomic<bool> any_{false}, dirty_{false};
  std::shared_mutex lock_;
  std::map<CUmemoryPool, std::unique_ptr<Store>> pools_;
  std::vector<std::unique_ptr<Store>> destroyed_;  // pools with allocations that are still to be freed
  std::map<std::uint32_t, std::unique_ptr<Store>> graphs_;
};

}  // namespace gpufence::hooks
