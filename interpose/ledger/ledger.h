// Who holds how much on which GPU: reserve → commit | cancel, and release. A reservation is made before the
// driver is asked, so that two threads or processes can't both pass the check and both allocate; at the
// return of every call the sum held is at most the cap. This is the ledger of one process; what it books is
// booked in the books of its scopes too (scope_book.h). Rows are GPUs, known by UUID; an ordinal means
// another card in another view. Nothing throws: the callers are hooks in other people's programs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ledger/scope_book.h"

namespace gpufence::ledger {

struct Holding {
  std::uint32_t row = 0;
  std::uint64_t bytes = 0;  // as requested
  const void* context = nullptr;
  std::uint64_t epoch = 0;     // set by commit: tells what a context held before it was destroyed
  const void* site = nullptr;  // the program's address that asked for it
};

struct Balance {
  std::uint64_t held = 0, peak = 0;             // bytes
  std::uint64_t allocations = 0, refusals = 0;  // calls
};

// What a scope may hold. Bytes.
struct Limits {
  std::vector<std::uint64_t> row;    // by row
  std::uint64_t total = UINT64_MAX;  // on all GPUs together
};

// What came of a reservation.
struct Booked {
  enum class Answer {
    booked,
    over_own,   // this process's own caps say no
    over,       // those of the scope at `scope`
    no_answer,  // the scope's books can't be had: somebody stopped while he held them
  };
  Answer answer = Answer::booked;
  std::size_t scope = 0;  // as they were shared with
  [[nodiscard]] bool ok() const { return answer == Answer::booked; }
};

class Ledger {
 public:
  // The counters of a GPU.
  struct alignas(64) Row {
    std::atomic<std::uint64_t> held{0}, peak{0}, allocations{0}, refusals{0};
  };
  // `rows`: where they are counted, one a GPU and all zero, if not in memory of the ledger's own. They
  // outlive it.
  explicit Ledger(std::vector<std::string> uuids, Row* rows = nullptr);

  [[nodiscard]] std::size_t rows() const { return uuids_.size(); }
  [[nodiscard]] const std::string& uuid(std::size_t row) const { return uuids_[row]; }

  // From now on everything is booked there too. Before the first reservation; in the same order in every
  // process.
  void share(std::unique_ptr<ScopeBook> book, Limits limits);
  [[nodiscard]] std::size_t scopes() const noexcept { return scopes_.size(); }
  [[nodiscard]] ScopeBook& scope(std::size_t at) const noexcept { return *scopes_[at].book; }
  [[nodiscard]] const Limits& limits(std::size_t at) const noexcept { return scopes_[at].limits; }

  // Books `bytes` in this process if admit(held) says so, and in all scopes; or nowhere. The dead of a scope
  // are looked for before it says no.
  template <class Admit>
  [[nodiscard]] Booked book(std::uint32_t row, std::uint64_t bytes, Admit admit) noexcept {
    if (!reserve(row, bytes, admit)) return {Booked::Answer::over_own, 0};
    return scopes_.empty() ? Booked{} : book_in_scopes(row, bytes);
  }

  // In this process alone: books `bytes` if admit(held) says so; `held` is what the row holds at that
  // instant, and the two are one step.
  template <class Admit>
  [[nodiscard]] bool reserve(std::uint32_t row, std::uint64_t bytes, Admit admit) noexcept {
    std::atomic<std::uint64_t>& held = rows_[row].held;
    std::uint64_t now = held.load(std::memory_order_relaxed);
    do {
      if (bytes > UINT64_MAX - now || !admit(now)) return false;
    } while (!held.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
    return true;
  }

  // Books what is held already, whatever the caps say.
  void force(std::uint32_t row, std::uint64_t bytes) noexcept;

  // The driver refused: what was booked goes back.
  void cancel(std::uint32_t row, std::uint64_t bytes) noexcept { release_everywhere(row, bytes); }

  // The driver gave memory that no address stands for.
  void count_allocation(std::uint32_t row) noexcept;

  // A call of the program came back refused.
  void count_refusal(std::uint32_t row) noexcept {
    rows_[row].refusals.fetch_add(1, std::memory_order_relaxed);
  }

  // The driver gave `address`. A holding that still stood there belonged to a destroyed context and is
  // released. False: out of host memory; the caller frees the address again and cancels.
  [[nodiscard]] bool commit(std::uint64_t address, Holding holding) noexcept;

  // The same without counting: of memory that is booked as a part of something larger.
  [[nodiscard]] bool remember(std::uint64_t address, Holding holding) noexcept;

  // A free takes the holding out first, since another thread may get the same address at once; if the driver
  // refuses the free, put_back; else release.
  [[nodiscard]] std::optional<Holding> take(std::uint64_t address) noexcept;
  // What is committed at exactly this address.
  [[nodiscard]] std::optional<Holding> find(std::uint64_t address) noexcept;
  void put_back(std::uint64_t address, const Holding& holding) noexcept;
  void release(const Holding& holding) noexcept { release_everywhere(holding.row, holding.bytes); }

  // Everything committed later has a larger epoch.
  [[nodiscard]] std::uint64_t mark() noexcept { return epoch_.fetch_add(1, std::memory_order_relaxed); }
  // Releases what `context` held at that mark: after the driver destroyed it. Returns the bytes.
  std::uint64_t release_context(const void* context, std::uint64_t mark) noexcept;

  [[nodiscard]] Balance balance(std::size_t row) const noexcept;
  // Of that, what is held now.
  [[nodiscard]] std::uint64_t held(std::size_t row) const noexcept {
    return rows_[row].held.load(std::memory_order_relaxed);
  }
  // Releases of more than was held; each is a fault of ours (GF503) and the row is then taken as empty.
  [[nodiscard]] std::uint64_t underflows() const noexcept;

  // In the child after fork: CUDA is dead there and the parent's threads, which may hold locks, are gone.
  void forget_after_fork() noexcept;

 private:
  // One part of the address table: open addressing with backward-shift deletion, so that there are no
  // tombstones to collect. 48 bytes an entry, at most three quarters full.
  struct Entry {
    std::uint64_t address = 0;  // 0: free
    Holding holding;
  };
  struct alignas(64) Shard {
    std::mutex lock;
    std::unique_ptr<Entry[]> entries;
    std::size_t capacity = 0, used = 0;
  };
  static constexpr std::size_t kShards = 64;
  struct Shared {
    std::unique_ptr<ScopeBook> book;
    Limits limits;
  };

  static void raise_peak(Row& row, std::uint64_t held) noexcept;
  void give_back(std::uint32_t row, std::uint64_t bytes) noexcept;
  void release_everywhere(std::uint32_t row, std::uint64_t bytes) noexcept {
    for (const Shared& shared : scopes_) shared.book->release(row, bytes);
    give_back(row, bytes);
  }
  [[nodiscard]] Booked book_in_scopes(std::uint32_t row, std::uint64_t bytes) noexcept;
  Shard& shard_of(std::uint64_t address) noexcept;
  static std::size_t home(const Shard& shard, std::uint64_t address) noexcept;
  static std::size_t find(const Shard& shard, std::uint64_t address) noexcept;
  static bool grow(Shard& shard) noexcept;
  static void erase(Shard& shard, std::size_t at) noexcept;
  bool insert(std::uint64_t address, const Holding& holding) noexcept;

  std::vector<std::string> uuids_;
  std::unique_ptr<Row[]> own_;
  Row* rows_;
  std::vector<Shared> scopes_;
  std::array<Shard, kShards> shards_;
  std::atomic<std::uint64_t> epoch_{1};
  std::atomic<std::uint64_t> underflows_{0};
};

}  // namespace gpufence::ledger
