// The state of running code: launch, worker, block, warp. A warp holds splits: sets of lanes with a common
// place in the code. Lanes part at a branch and meet again where its paths meet (Record); a set that waits
// for others gives way to the next. Nothing of a warp lives on the host's stack, so that one host thread can
// run any number of them in turn.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "decode.h"
#include "ptx/run.h"

namespace gpufence::sim::ptx {

struct Block;
struct Worker;

// Memory that the host frees in a block: rows need 64-byte alignment.
struct AlignedFree {
  void operator()(std::byte* bytes) const;
};
using Bytes = std::unique_ptr<std::byte[], AlignedFree>;
Bytes aligned_bytes(size_t size);  // zeroed; null when the host has none

struct Frame {
  std::byte* registers = nullptr;  // Code::frame_bytes
  const Code* code = nullptr;
  uint32_t function = 0;
  uint32_t local_base = 0;  // bytes of a thread's local memory below this frame's
  uint32_t depth = 0;
  Frame* caller = nullptr;
  Bytes storage;
};

// Where lanes meet again: after a branch, or behind a call.
struct Record {
  const Op* at = nullptr;  // a branch: its join; a call: where it returns to
  uint32_t expected = 0, arrived = 0;
  Record* parent = nullptr;
  Frame* callee = nullptr;  // of a call; nullptr: a branch
  const CallSite* call = nullptr;
  uint32_t place = 0;  // in Warp::records
};

struct Split {
  enum class State : uint8_t { ready, at_sync, at_barrier };
  const Op* pc = nullptr;
  uint32_t active = 0;
  Frame* frame = nullptr;
  Record* record = nullptr;
  State state = State::ready;
  uint8_t barrier = 0;
  uint32_t lanes = 0;  // at_sync, at_barrier: those of `active` that execute the instruction
};

// The launch, resolved for one module: shared by all workers, read-only while they run.
struct LaunchState {
  const Launch* launch = nullptr;
  const Module* module = nullptr;
  const AccessMap* memory = nullptr;
  Region workspace;                      // of grid-wide barriers, ours; empty otherwise
  std::vector<uint32_t> shared_offsets;  // by global index
  uint32_t user_shared_bytes = 0;        // static and dynamic
  uint32_t shared_bytes = 0;             // these and, at the end, what is reserved
  uint32_t threads_per_block = 0, warps_per_block = 0;
  uint64_t blocks = 0;
  uint32_t resident_blocks = 0;  // that one worker may have live at once
  uint32_t first_blocks = 0;     // that it takes at its start
  std::vector<std::byte> params;
  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> stop{false};
  std::mutex fault_lock;
  Fault fault;
};

constexpr uint32_t kStackBytes = 256 << 10;  // of local memory a thread
constexpr uint32_t kMaxDepth = 4096;         // of calls
constexpr int32_t kFuel = 2048;              // backward branches and calls until a warp gives way
constexpr int32_t kPollCost = 32;  // what an atomic or a volatile load takes of it: such loops often wait
constexpr uint32_t kPatience = 6;  // turns of polling until lanes stop waiting for each other
constexpr uint32_t kLongPatience = 4096;  // the same without polling

struct Warp {
  enum class State : uint8_t { ready, blocked, done, faulted };

  // Of the split that runs.
  std::byte* registers = nullptr;
  uint32_t active = 0;
  int32_t fuel = kFuel;
  Frame* frame = nullptr;
  Record* record = nullptr;
  const Op* pc = nullptr;  // where to go on, while the warp does not run

  // The region hit last.
  uint64_t region_begin = 1, region_size = 0;
  bool region_writable = false;

  State state = State::done;
  uint32_t live = 0;   // lanes not exited
  uint32_t index = 0;  // in the block
  uint32_t turns = 0;  // times that it gave way since waiting lanes were last let go
  uint32_t polls = 0;  // looks at memory that others may change, since it last gave way
  Block* block = nullptr;
  Worker* worker = nullptr;
  const LaunchState* launch = nullptr;
  std::byte* shared = nullptr;
  uint32_t shared_bytes = 0;
  std::byte* local = nullptr;  // words of 4 bytes, each a row of 32 lanes
  uint32_t local_bytes = 0;    // a lane's, that may be used
  Bytes local_storage;
  uint32_t local_capacity = 0;
  const std::byte* params = nullptr;
  uint32_t param_bytes = 0;
  Frame entry;
  std::vector<Split> splits;  // all but the one that runs
  std::vector<Record*> records;
  alignas(64) uint32_t tid[3][kLanes] = {};
};

struct Barrier {
  uint32_t arrived = 0;  // threads
  uint32_t needed = 0;   // threads; 0: all that live
  uint32_t waiting = 0;  // splits parked at it
  uint32_t count = 0;    // of bar.red: threads whose predicate was true
  bool all = true, any = false;
};

struct Block {
  uint32_t ctaid[3] = {};
  uint32_t live = 0;  // threads
  uint32_t warps_done = 0;
  Bytes shared;
  std::vector<Warp> warps;
  Barrier barriers[16];
  bool active = false;
};

constexpr unsigned kStagedRows = 13;
struct Worker {
  LaunchState* state = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;               // resident ones
  std::vector<std::vector<std::unique_ptr<Frame>>> frames;  // free ones, by function
  std::vector<std::unique_ptr<Record>> spare_records;
  std::vector<Record*> free_records;
  // What a lookup takes beyond an Op's rows: staged by the Op before it (op_stage).
  alignas(64) uint32_t staged[kStagedRows][kLanes] = {};
};

// --- what handlers do to a warp (warp.cpp)
// ----------------------------------------------------------------------------

// Ends the launch. address and lane as far as they mean something.
const Op* fault(Warp& warp, const Op* op, Fault::Kind kind, unsigned lane, uint64_t address = 0,
                std::string_view more = {});
// Loads another split that can run; nullptr with state blocked or done.
const Op* next_split(Warp& warp);
// The active lanes part: taken go to op + jump, the others go on.
const Op* diverge(Warp& warp, const Op* op, uint32_t taken);
const Op* arrive(Warp& warp);                                 // at record->at
const Op* leave(Warp& warp, uint32_t lanes, const Op* next);  // lanes exit; the others go on at next
const Op* give_way(Warp& warp, const Op* next);               // out of fuel
const Op* park(Warp& warp, const Op* op, Split::State state, uint32_t lanes, uint8_t barrier = 0);
// Lets lanes that wait for others to meet them go on alone; false: none wait.
bool release_waiting(Warp& warp);
Record* new_record(Warp& warp, const Op* at, uint32_t expected);
void drop_record(Warp& warp, Record* record);
// Sets up a frame's literals for this launch.
void fill_constants(const LaunchState& state, Frame& frame, bool local_only);
Frame* new_frame(Warp& warp, uint32_t function);
void drop_frame(Warp& warp, Frame* frame);
// Results go to the caller, for these lanes.
void return_results(Record& record, uint32_t lanes);
bool complete_barrier(Block& block, uint8_t id);  // if all came: wakes them
const Region* find_region(Warp& warp, uint64_t address);
// Makes room for `bytes` of local memory a lane; false: host out of memory.
bool reserve_local(Warp& warp, uint32_t bytes);

// Any generic address, one lane, without alignment rules: for builtins. False: not reachable.
bool read_generic(Warp& warp, unsigned lane, uint64_t address, void* to, uint32_t bytes);
bool write_generic(Warp& warp, unsigned lane, uint64_t address, const void* from, uint32_t bytes);

// Whether the GPU may use these bytes. Inline wherever it is used: it is compiled for several instruction
// sets.
[[gnu::always_inline]] inline bool reach(Warp& warp, uint64_t address, uint64_t bytes, bool write) {
  uint64_t at = address - warp.region_begin;
  if (__builtin_expect(at >= warp.region_size || bytes > warp.region_size - at, 0)) {
    if (find_region(warp, address) == nullptr) return false;
    at = address - warp.region_begin;
    if (bytes > warp.region_size - at) return false;
  }
  return !write || warp.region_writable;
}

inline uint32_t exec_mask(const Warp& warp, const Op* op) {
  uint32_t guard;
  __builtin_memcpy(&guard, warp.registers + op->guard, sizeof guard);
  return warp.active & (guard ^ op->guard_xor);
}

template <class T>
T* row(const Warp& warp, uint32_t offset) {
  return static_cast<T*>(__builtin_assume_aligned(warp.registers + offset, sizeof(T) * 32 >= 64 ? 64 : 4));
}
inline uint32_t& predicate(const Warp& warp, uint32_t offset) {
  return *reinterpret_cast<uint32_t*>(warp.registers + offset);
}

}  // namespace gpufence::sim::ptx
