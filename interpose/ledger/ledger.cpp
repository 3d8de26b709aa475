// See ledger.h. The address table is sharded by address, so that threads that allocate at once seldom meet; a
// shard is a flat table, because a list walked on every free is what makes the peers slow.
#include "ledger/ledger.h"

#include <new>
#include <utility>

namespace gpufence::ledger {
namespace {

// Allocations are 256-byte aligned at least: the low bits carry nothing.
std::uint64_t mix(std::uint64_t address) {
  return (address >> 8) * 0x9E3779B97F4A7C15ULL;
}

}  // namespace

Ledger::Ledger(std::vector<std::string> uuids, Row* rows) : uuids_(std::move(uuids)), rows_(rows) {
  if (rows_ != nullptr) return;
  own_ = std::make_unique<Row[]>(uuids_.size());
  rows_ = own_.get();
}

void Ledger::raise_peak(Row& row, std::uint64_t held) noexcept {
  std::uint64_t peak = row.peak.load(std::memory_order_relaxed);
  while (held > peak && !row.peak.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
  }
}

void Ledger::give_back(std::uint32_t row, std::uint64_t bytes) noexcept {
  std::atomic<std::uint64_t>& held = rows_[row].held;
  std::uint64_t now = held.load(std::memory_order_relaxed);
  while (!held.compare_exchange_weak(now, now >= bytes ? now - bytes : 0, std::memory_order_relaxed)) {
  }
  if (now < bytes) underflows_.fetch_add(1, std::memory_order_relaxed);
}

void Ledger::share(std::unique_ptr<ScopeBook> book, Limits limits) {
  scopes_.push_back({std::move(book), std::move(limits)});
}

Booked Ledger::book_in_scopes(std::uint32_t row, std::uint64_t bytes) noexcept {
  using Answer = ScopeBook::Answer;
  for (std::size_t at = 0; at < scopes_.size(); ++at) {
    const Shared& shared = scopes_[at];
    const auto ask = [&] {
      return shared.book->reserve(row, bytes, shared.limits.row[row], shared.limits.total);
    };
    Answer answer = ask();
    if (answer == Answer::over && shared.book->reap() > 0) answer = ask();
    if (answer == Answer::booked) continue;
    for (std::size_t done = 0; done < at; ++done) scopes_[done].book->release(row, bytes);
    give_back(row, bytes);
    return {answer == Answer::over ? Booked::Answer::over : Booked::Answer::no_answer, at};
  }
  return {};
}

std::uint64_t Ledger::underflows() const noexcept {
  std::uint64_t all = underflows_.load(std::memory_order_relaxed);
  for (const Shared& shared : scopes_) all += shared.book->underflows();
  return all;
}

Ledger::Shard& Ledger::shard_of(std::uint64_t address) noexcept {
  return shards_[mix(address) >> 58];
}

std::size_t Ledger::home(const Shard& shard, std::uint64_t address) noexcept {
  return (mix(address) >> 20) & (shard.capacity - 1);
}

std::size_t Ledger::find(const Shard& shard, std::uint64_t address) noexcept {
  std::size_t at = home(shard, address);
  while (shard.entries[at].address != 0 && shard.entries[at].address != address)
    at = (at + 1) & (shard.capacity - 1);
  return at;
}

bool Ledger::grow(Shard& shard) noexcept {
  const std::size_t capacity = shard.capacity == 0 ? 16 : 2 * shard.capacity;
  std::unique_ptr<Entry[]> entries(new (std::nothrow) Entry[capacity]);
  if (entries == nullptr) return false;
  std::swap(shard.entries, entries);
  const std::size_t old = std::exchange(shard.capacity, capacity);
  for (std::size_t i = 0; i < old; ++i) {
    if (entries[i].address != 0) shard.entries[find(shard, entries[i].address)] = entries[i];
  }
  return true;
}

void Ledger::erase(Shard& shard, std::size_t at) noexcept {
  const std::size_t mask = shard.capacity - 1;
  std::size_t hole = at;
  for (std::size_t next = (hole + 1) & mask; shard.entries[next].address != 0; next = (next + 1) & mask) {
    // An entry may fill the hole unless its home lies behind it.
    if (((next - home(shard, shard.entries[next].address)) & mask) >= ((next - hole) & mask)) {
      shard.entries[hole] = shard.entries[next];
      hole = next;
    }
  }
  shard.entries[hole] = Entry{};
  --shard.used;
}

bool Ledger::insert(std::uint64_t address, const Holding& holding) noexcept {
  Shard& shard = shard_of(address);
  std::optional<Holding> stale;
  {
    const std::lock_guard guard(shard.lock);
    if (4 * (shard.used + 1) > 3 * shard.capacity && !grow(shard)) return false;
    Entry& entry = shard.entries[find(shard, address)];
    if (entry.address != 0) {
      stale = entry.holding;
    } else {
      ++shard.used;
    }
    entry = {address, holding};
  }
  if (stale) release(*stale);
  return true;
}

bool Ledger::commit(std::uint64_t address, Holding holding) noexcept {
  holding.epoch = epoch_.load(std::memory_order_relaxed);
  if (!insert(address, holding)) return false;
  count_allocation(holding.row);
  return true;
}

bool Ledger::remember(std::uint64_t address, Holding holding) noexcept {
  holding.epoch = epoch_.load(std::memory_order_relaxed);
  return insert(address, holding);
}

void Ledger::force(std::uint32_t row, std::uint64_t bytes) noexcept {
  rows_[row].held.fetch_add(bytes, std::memory_order_relaxed);
  for (const Shared& shared : scopes_) (void)shared.book->reserve(row, bytes, UINT64_MAX, UINT64_MAX);
}

// Here, not where it was reserved: what the driver then refuses was never held.
void Ledger::count_allocation(std::uint32_t row) noexcept {
  rows_[row].allocations.fetch_add(1, std::memory_order_relaxed);
  raise_peak(rows_[row], rows_[row].held.load(std::memory_order_relaxed));
}

void Ledger::put_back(std::uint64_t address, const Holding& holding) noexcept {
  // The entry's place was just freed in this shard; only a table that another thread filled meanwhile can be
  // full.
  if (!insert(address, holding)) release(holding);
}

std::optional<Holding> Ledger::find(std::uint64_t address) noexcept {
  Shard& shard = shard_of(address);
  const std::lock_guard guard(shard.lock);
  if (shard.used == 0) return std::nullopt;
  const std::size_t at = find(shard, address);
  if (shard.entries[at].address == 0) return std::nullopt;
  return shard.entries[at].holding;
}

std::optional<Holding> Ledger::take(std::uint64_t address) noexcept {
  Shard& shard = shard_of(address);
  const std::lock_guard guard(shard.lock);
  if (shard.used == 0) return std::nullopt;
  const std::size_t at = find(shard, address);
  if (shard.entries[at].address == 0) return std::nullopt;
  const Holding holding = shard.entries[at].holding;
  erase(shard, at);
  return holding;
}

std::uint64_t Ledger::release_context(const void* context, std::uint64_t mark) noexcept {
  std::uint64_t bytes = 0;
  for (Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    for (std::size_t at = 0; at < shard.capacity;) {
      const Entry& entry = shard.entries[at];
      if (entry.address != 0 && entry.holding.context == context && entry.holding.epoch <= mark) {
        bytes += entry.holding.bytes;
        release_everywhere(entry.holding.row, entry.holding.bytes);
        erase(shard, at);  // another entry may have moved here: look at this place again
      } else {
        ++at;
      }
    }
  }
  return bytes;
}

Balance Ledger::balance(std::size_t row) const noexcept {
  const Row& from = rows_[row];
  return {from.held.load(std::memory_order_relaxed), from.peak.load(std::memory_order_relaxed),
          from.allocations.load(std::memory_order_relaxed), from.refusals.load(std::memory_order_relaxed)};
}

void Ledger::forget_after_fork() noexcept {
  // Their mappings stayed with the parent; the objects go unused.
  for (Shared& shared : scopes_) (void)shared.book.release();
  scopes_.clear();
  for (Shard& shard : shards_) {
    new (&shard.lock) std::mutex;
    // Not freed: the parent's thread may have been amid a change of it.
    (void)shard.entries.release();
    shard.capacity = shard.used = 0;
  }
  // What was given from outside is the parent's.
  if (own_ == nullptr) {
    own_.reset(new (std::nothrow) Row[uuids_.size()]);
    if (own_ == nullptr) return;
    rows_ = own_.get();
  }
  for (std::size_t row = 0; row < uuids_.size(); ++row) rows_[row].held.store(0, std::memory_order_relaxed);
}

}  // namespace gpufence::ledger
