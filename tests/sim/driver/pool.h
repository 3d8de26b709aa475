// Memory pools: the stream-ordered allocator (cuMemAllocAsync and its family). A pool takes memory from its
// GPU in segments and hands out pieces of them; what is freed in a stream can be used again by whatever comes
// behind the free.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "queue.h"

namespace gpufence::sim {

namespace ptx {
struct Region;
}  // namespace ptx

struct Pool {
  // A segment grows to a multiple of this, so that a pool of small pieces asks its GPU seldom; where the GPU
  // has not so much left, to one of the second.
  static constexpr uint64_t kStep = uint64_t{32} << 20, kSmallStep = uint64_t{2} << 20;
  static constexpr uint64_t kPiece = 512;  // bytes; as cuMemAlloc

  struct Free {
    uint64_t bytes = 0;
    Ticket after;  // of the work before the free; none: nothing to wait for
  };
  struct Segment {
    uint64_t bytes = 0;
    Block* block = nullptr;  // of the GPU's heap; nullptr: part of the arena
    std::map<uintptr_t, Free> free;
  };
  struct Allocation {
    uint64_t bytes = 0;  // as asked for
    uint64_t taken = 0;
    uint64_t id = 0;
  };

  std::atomic<uint32_t> live{0};  // of Handles
  Device* device = nullptr;       // whose memory it is; nullptr: the host's
  CUmemPoolProps props{};
  bool is_default = false, imported = false;

  std::mutex lock;  // of all below; before a device's lock
  bool destroyed = false;
  uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;
  std::map<uintptr_t, Segment> segments;
  std::map<uintptr_t, Allocation> allocations;
  std::vector<std::pair<uintptr_t, Free>>
      leaving;  // of imported pools: freed, and work before that still has it
  std::map<const Device*, CUmemAccess_flags> access;  // of other GPUs than its own
  // Addresses of its own, for memory that other processes may map or that is no GPU's.
  uintptr_t arena = 0;
  uint64_t arena_bytes = 0;
  int arena_file = -1;
  uint64_t arena_id = 0;  // random; what exported pointers name it by

  [[nodiscard]] bool managed() const { return props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED; }
};

// The allocation of a pool that covers the address, as find() tells it. `pool`: whose segment the address
// lies in.
bool find_in(Pool& pool, uintptr_t address, Found& found);
// The pool whose arena covers the address, or nullptr.
Pool* pool_of_arena(uintptr_t address);
// Gives back an allocation of a pool that starts there. `after`: what has to be done before the memory is
// used again.
bool free_in(Pool& pool, uintptr_t address, const Ticket& after);

bool may_touch(Pool& pool, const Context& context);
// The parts of pools that the context may touch. What changes with pool_changes().
void add_pool_regions(Context& context, std::vector<ptx::Region>& regions);
uint64_t pool_changes();

// The host has seen work end ("on the next call to stream, event or context synchronize"): pools give back
// what they hold above their thresholds.
void trim_pools_after_synchronise();

}  // namespace gpufence::sim
