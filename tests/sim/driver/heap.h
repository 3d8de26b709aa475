// The memory of one simulated GPU in one process: host memory, reserved lazily, at addresses that belong to
// this GPU alone. Pure allocation: it knows neither contexts nor totals nor other processes (occupancy.h
// counts), and it is not thread-safe (the device's lock is held around it). Allocation, free and look-up by
// any interior address take constant time however many blocks live. Its bookkeeping lies outside the memory
// it hands out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace gpufence::sim {

struct Context;
struct Pool;

struct Block {
  uintptr_t address = 0;
  uint64_t bytes = 0;     // as asked for
  uint64_t granules = 0;  // as taken
  uint64_t dirty = 0;     // of a free block: granules that may hold pages of the host's memory
  bool live = false;
  bool managed = false;
  uint64_t resident = 0;  // bytes that count against the GPU; of managed memory the rest lies on the host
  uint64_t id = 0;        // CU_POINTER_ATTRIBUTE_BUFFER_ID
  uint32_t exported = 0;  // its place among what other processes may open (ipc.cpp), from 1; 0: none
  Pool* pool = nullptr;   // whose segment it is, instead of a context's; set by the driver
  Context* context = nullptr;  // whose it is; set, with the links below, by the driver
  Block* context_next = nullptr;
  Block* context_prev = nullptr;
  // Neighbours in address order, and in the list of free blocks of one size class.
  Block* above = nullptr;
  Block* below = nullptr;
  Block* free_next = nullptr;
  Block* free_prev = nullptr;
  uint32_t range = 0;
};

// Which part of which file an address of a heap is.
struct Backing {
  int file = -1;        // this process's descriptor; the program may have closed it
  uint64_t inode = 0;   // of the file, so that this can be found out
  uint64_t bytes = 0;   // of the memory in the file, from its start
  uint64_t offset = 0;  // of the address
  uintptr_t base = 0;   // where the file's memory lies
};

class Heap {
 public:
  static constexpr uint64_t kGranule = 512;  // bytes; CUDA promises 256
  // Bytes that no block has: a process's whole addresses, which is more than any GPU of a machine and what
  // managed memory may take beyond it.
  static constexpr uint64_t kTooMuch = uint64_t{1} << 47;

  // owner: what owner_of() answers for addresses of this heap. below_4gib: for CUDA's first ABI, whose device
  // pointers have 32 bits.
  explicit Heap(void* owner, bool below_4gib = false) : owner_(owner), below_4gib_(below_4gib) {}
  Heap(const Heap&) = delete;

  // The first allocation reserves `room` bytes of addresses; more only when fragmentation or need asks for
  // it. nullptr: the host has no addresses left, or never had so many.
  Block* allocate(uint64_t bytes, uint64_t room);
  void free(Block* block);
  Block* at(uintptr_t address);          // the live block that starts there
  Block* containing(uintptr_t address);  // the live block that covers it
  Backing backing_of(const Block& block) const;

 private:
  // One mapping. `starts` has a bit for each granule where a block starts, under five levels of summary, so
  // that the start at or below an address is found in a few words.
  struct Range {
    uintptr_t base;
    uint64_t granules;
    Block** blocks;  // by start granule
    std::vector<uint64_t*> starts;
    int file;  // kept open, as other processes are shown parts of it
    uint64_t inode;
  };

  bool add_range(uint64_t bytes);
  void mark(Range& range, uint64_t granule, Block* block);
  void unmark(Range& range, uint64_t granule);
  Block* start_at_or_below(Range& range, uint64_t granule);
  Range* range_of(uintptr_t address);
  Block* take_block();
  void put_free(Block* block);
  void take_free(Block* block);
  Block* find_free(uint64_t granules);
  void give_pages_back(Block* block);

  static constexpr int kSplit = 16;  // size classes a power of two
  static constexpr int kClasses = 64 * kSplit;

  void* owner_;
  bool below_4gib_;
  std::vector<Range> ranges_;
  std::deque<Block> storage_;
  Block* spare_ = nullptr;
  Block* classes_[kClasses] = {};
  uint64_t nonempty_[kClasses / 64] = {};
  uint64_t next_id_ = 1;
};

// The least multiple of `step` that is not less; the greatest there is where that would be beyond 2^64.
constexpr uint64_t up_to(uint64_t bytes, uint64_t step) {
  return bytes > UINT64_MAX - step ? UINT64_MAX / step * step : (bytes + step - 1) / step * step;
}

// The owner of the heap that has this address, nullptr if none has. Takes no lock.
void* owner_of(uintptr_t address);

// Host memory that costs nothing until it is touched, and that no child of fork inherits; nullptr if there
// are no addresses. `below_4gib` as above. `file`: gets the descriptor of the file behind it, for the caller
// to close; else that is closed.
void* reserve_lazily(uint64_t bytes, bool below_4gib, int* file = nullptr);

// The same, but inherited by children (copied), for bookkeeping that points into malloc's memory: what a leak
// checker does not see in a child it would call leaked there. tell_leak_checker() names a part of it that
// holds such pointers.
void* reserve_for_handles(uint64_t bytes);
void tell_leak_checker(const void* begin, size_t bytes);

}  // namespace gpufence::sim
