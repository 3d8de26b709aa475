#include "hooks/stores.h"

#include <algorithm>
#include <new>
#include <utility>

namespace gpufence::hooks {
namespace {

USES(cuMemPoolGetAttribute);
USES(cuDeviceGetGraphMemAttribute);

// What a store grows by, at least, on the simulated machine; no document says it of a card. Booked before the
// driver is asked, so that no other process sees more than the cap even for a moment; should a card take
// more, settle() finds it.
constexpr std::uint64_t kStep = std::uint64_t{32} << 20;

}  // namespace

Store::Reading Store::read() const noexcept {
  Reading reading;
  if (gone_) return reading;
  cuuint64_t reserved = 0, used = 0;
  if (pool_ != nullptr) {
    reading.known =
        real<&::cuMemPoolGetAttribute>(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
            CUDA_SUCCESS &&
        real<&::cuMemPoolGetAttribute>(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS;
  } else {
    const auto device = static_cast<CUdevice>(row_);
    reading.known = real<&::cuDeviceGetGraphMemAttribute>(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                                          &reserved) == CUDA_SUCCESS &&
                    real<&::cuDeviceGetGraphMemAttribute>(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                                                          &used) == CUDA_SUCCESS;
  }
  if (reading.known) {
    reading.reserved = reserved;
    reading.used = std::min<std::uint64_t>(used, reserved);
  }
  return reading;
}

void Store::release_down_to(Visible& seen, std::uint64_t reserved) noexcept {
  if (reserved >= charged_) return;
  seen.ledger->cancel(row_, charged_ - reserved);
  charged_ = reserved;
}

Store::Prepared Store::prepare(Visible& seen, std::uint64_t bytes) noexcept {
  const auto ask = [&](bool last) {
    const Reading now = read();
    if (now.known) release_down_to(seen, now.reserved);
    const std::uint64_t spare = now.reserved - now.used;
    std::uint64_t more = bytes > spare ? bytes - spare : 0;
    if (more > UINT64_MAX - kStep)
      more = UINT64_MAX;
    else
      more = (more + kStep - 1) / kStep * kStep;
    const Place place{&seen, row_, nullptr};
    const ledger::Booked booked = last ? reserve(place, more) : reserve_unseen(place, more);
    if (booked.ok()) charged_ += more;
    return Prepared{booked, more, now.reserved};
  };
  if (const Prepared prepared = ask(false); prepared.booked.ok()) return prepared;
  // Spare memory that is in pieces too small does not help: it goes back before anything is refused.
  if (pool_ != nullptr) real<&::cuMemPoolTrimTo>(pool_, 0);
  return ask(true);
}

ledger::Booked Store::settle(Visible& seen, bool allocated) noexcept {
  const Reading now = read();
  if (!now.known) return {};
  if (now.reserved <= charged_) {
    release_down_to(seen, now.reserved);
  } else {
    // The driver takes whole steps. What does not fit any more goes back, and the program is told so.
    const std::uint64_t more = now.reserved - charged_;
    const ledger::Booked booked = reserve({&seen, row_, nullptr}, more);
    if (!booked.ok()) return booked;
    charged_ = now.reserved;
  }
  if (allocated) seen.ledger->count_allocation(row_);
  return {};
}

// What was taken back may still be reserved: trimmed, and what even then is there counts, limits or not.
void Store::shrink(Visible& seen) noexcept {
  if (pool_ != nullptr) real<&::cuMemPoolTrimTo>(pool_, 0);
  const Reading now = read();
  if (!now.known) return;
  release_down_to(seen, now.reserved);
  if (now.reserved > charged_) {
    seen.ledger->force(row_, now.reserved - charged_);
    charged_ = now.reserved;
  }
}

void Store::look(Visible& seen) noexcept {
  if (is_mine()) return;
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock() || charged_ == 0) return;
  if (gone_) {
    if (allocations_.load(std::memory_order_relaxed) <= 0) release_down_to(seen, 0);
    return;
  }
  const Reading now = read();
  if (now.known) release_down_to(seen, now.reserved);
}

bool Store::reclaim(Visible& seen) noexcept {
  if (is_mine()) return false;
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock() || charged_ == 0 || gone_) return false;
  const std::uint64_t before = charged_;
  if (pool_ != nullptr) {
    real<&::cuMemPoolTrimTo>(pool_, 0);
  } else {
    real<&::cuDeviceGraphMemTrim>(static_cast<CUdevice>(row_));
    trimmed();
  }
  const Reading now = read();
  if (now.known) release_down_to(seen, now.reserved);
  return charged_ < before;
}

bool Store::gone(Visible& seen) noexcept {
  const Inside inside(*this);
  gone_ = true;
  if (allocations_.load(std::memory_order_relaxed) > 0) return false;
  release_down_to(seen, 0);
  return true;
}

void note_freed(const ledger::Holding& holding) noexcept {
  if (Store* store = Store::of(holding)) store->one_less();
}

Stores& Stores::get() noexcept {
  alignas(Stores) static unsigned char room[sizeof(Stores)];
  static Stores* const stores = new (room) Stores;
  return *stores;
}

Store* Stores::of_pool(CUmemoryPool pool) noexcept {
  const std::shared_lock guard(lock_);
  const auto found = pools_.find(pool);
  return found != pools_.end() ? found->second.get() : nullptr;
}

Store* Stores::add_pool(CUmemoryPool pool, std::uint32_t row) noexcept {
  try {
    const std::unique_lock guard(lock_);
    std::unique_ptr<Store>& store = pools_[pool];
    if (store == nullptr) store = std::make_unique<Store>(row, pool);
    any_.store(true, std::memory_order_relaxed);
    return store.get();
  } catch (...) {
    return nullptr;
  }
}

void Stores::remove_pool(CUmemoryPool pool, bool keep) noexcept {
  const std::unique_lock guard(lock_);
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return;
  std::unique_ptr<Store> store = std::move(found->second);
  pools_.erase(found);
  try {
    if (keep) destroyed_.push_back(std::move(store));
  } catch (...) {
  }
  (void)store.release();  // another thread may be in it, though it should not
}

Store* Stores::of_graphs(std::uint32_t row) noexcept {
  {
    const std::shared_lock guard(lock_);
    const auto found = graphs_.find(row);
    if (found != graphs_.end()) return found->second.get();
  }
  try {
    const std::unique_lock guard(lock_);
    std::unique_ptr<Store>& store = graphs_[row];
    if (store == nullptr) store = std::make_unique<Store>(row, nullptr);
    any_.store(true, std::memory_order_relaxed);
    return store.get();
  } catch (...) {
    return nullptr;
  }
}

template <class Visit>
void Stores::each(Visit visit) noexcept {
  Visible* seen = visible();
  if (seen == nullptr || !any_.load(std::memory_order_relaxed)) return;
  const std::shared_lock guard(lock_);
  for (const auto& [pool, store] : pools_) visit(*seen, *store);
  for (const auto& [row, store] : graphs_) visit(*seen, *store);
  for (const auto& store : destroyed_) visit(*seen, *store);
}

void Stores::look() noexcept {
  dirty_.store(false, std::memory_order_relaxed);
  each([](Visible& seen, Store& store) { store.look(seen); });
}

bool Stores::reclaim(std::uint32_t row) noexcept {
  bool any = false;
  each([&](Visible& seen, Store& store) {
    if (store.row() == row && store.reclaim(seen)) any = true;
  });
  return any;
}

void Stores::forget_after_fork() noexcept {
  new (&lock_) std::shared_mutex;
  // Not freed: the parent's threads may have been amid a change of them.
  new (&pools_) decltype(pools_);
  new (&graphs_) decltype(graphs_);
  new (&destroyed_) decltype(destroyed_);
  any_.store(false);
}

}  // namespace gpufence::hooks
