// The layout of a scope's file: a header, then slots, one a process. Only processes of one machine share it,
// and of one version of gpufence; another version refuses it. Readers beside scope_book.cpp: `gpufence ps`,
// and tests.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpufence::ledger {

inline constexpr std::size_t kBookRows = 64;     // GPUs a file knows, MIG slices among them
inline constexpr std::size_t kBookSlots = 4096;  // processes of a scope at once

inline constexpr char kMagic[16] = "gpufence ledger";
inline constexpr std::uint32_t kVersion = 1;

struct Slot {
  std::atomic<std::uint32_t> used;
  std::atomic<std::uint32_t>
      generation;  // counts its owners, so that a reaper does not take a new one for a dead one
  std::atomic<std::int32_t> pid;  // in its own PID namespace
  std::int32_t unused;
  std::atomic<std::uint64_t> pid_namespace;
  char name[40];
  std::atomic<std::uint64_t> bytes[kBookRows];
};

struct Header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t header_bytes, slot_bytes, rows;
  char boot[40];  // a file that outlived its machine's start holds locks of processes that are no more
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> slots;       // that the file has room for
  std::atomic<std::uint32_t> highest;     // no slot from here on was ever used
  std::atomic<std::uint32_t> owner_slot;  // who had the mutex last
  std::atomic<std::uint32_t> turns;       // how often somebody got it
  std::atomic<std::uint32_t> row_count;
  std::atomic<std::int64_t> reaped_ms;  // CLOCK_MONOTONIC, when somebody last looked for the dead
  std::atomic<std::uint64_t> total;     // over all rows, bytes
  struct Row {
    char uuid[56];
    std::atomic<std::uint64_t> bytes;
  } row[kBookRows];
};

inline constexpr std::uint32_t kFirstSlots = 32;
inline constexpr std::uint64_t kPage = 4096;
// Beyond any file: the byte whose lock says that a slot's process lives.
inline constexpr off_t kLocks = off_t{1} << 40;
inline constexpr std::uint64_t kSlotsAt = 2 * kPage;
static_assert(sizeof(Header) <= kSlotsAt);

[[nodiscard]] constexpr std::uint64_t file_bytes(std::uint64_t slots) {
  return (kSlotsAt + slots * sizeof(Slot) + kPage - 1) / kPage * kPage;
}

}  // namespace gpufence::ledger
