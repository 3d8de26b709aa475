// Runs one grid of a decoded module on host threads. Device memory is host memory: a generic or global
// address IS a host pointer, checked against an AccessMap before every use, so that a kernel can reach only
// what its GPU may. Shared, local and parameter windows lie where no host pointer can.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/module.h"
#include "ptx/texture.h"

namespace gpufence::sim::ptx {

// Generic addresses of the windows. Bits 56 to 63 are never set in a host pointer of user space.
constexpr uint64_t kSharedWindow = uint64_t{0x01} << 56;
constexpr uint64_t kLocalWindow = uint64_t{0x02} << 56;
constexpr uint64_t kParamWindow = uint64_t{0x03} << 56;     // kernel parameters, read-only
constexpr uint64_t kFunctionWindow = uint64_t{0x04} << 56;  // function_address(i) = this + 16 × (i + 1)
constexpr uint64_t kWindowMask = uint64_t{0xff} << 56;

struct Region {
  uint64_t begin = 0, end = 0;  // bytes [begin, end)
  bool writable = true;
};

// What one GPU may touch during one launch: its own live allocations, peers' where enabled, managed, pinned
// and registered host memory, the module's globals, the device heap. Immutable; build it once and share it
// between launches as long as nothing changed. Regions need not be sorted, and may touch but not overlap.
class AccessMap {
 public:
  AccessMap() = default;
  explicit AccessMap(std::vector<Region> regions);
  // The region that holds address, or nullptr.
  [[nodiscard]] const Region* find(uint64_t address) const;
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }

 private:
  std::vector<Region> regions_;  // sorted by begin
};

// Where a kernel's effects go that are neither memory nor a fault. Called from several threads at once; must
// not call back into the launch.
class Sinks {
 public:
  virtual ~Sinks() = default;
  // What one device-side printf of one thread wrote, already formatted.
  virtual void print(std::string_view text) = 0;
  // Device-side malloc: 16-byte aligned memory inside the launch's AccessMap; 0 when the heap is full.
  virtual uint64_t heap_allocate(uint64_t bytes) = 0;
  // Device-side free of a non-null address; false: it was not allocated (the kernel faults).
  virtual bool heap_free(uint64_t address) = 0;
  // cudaGraphSetConditional; false: no such handle (the kernel faults).
  virtual bool set_condition(uint64_t handle, uint32_t value) {
    (void)handle;
    (void)value;
    return false;
  }
};

// Told of every block that ended, by the thread that ran it.
class BlockWatcher {
 public:
  virtual ~BlockWatcher() = default;
  virtual void block_ended() = 0;
};

// The launch's identity and the device that it believes to run on: what special registers answer.
struct DeviceTraits {
  uint32_t multiprocessors = 1;                // %nsmid
  uint32_t max_warps_per_multiprocessor = 64;  // %nwarpid; also bounds how many blocks are live at once
  uint32_t max_blocks_per_multiprocessor = 32;
  uint32_t shared_bytes_per_multiprocessor = 100 * 1024;
};

struct Launch {
  const Module* module = nullptr;          // alive until run() returned
  const Function* function = nullptr;      // an entry of it
  std::array<uint32_t, 3> grid{1, 1, 1};   // blocks
  std::array<uint32_t, 3> block{1, 1, 1};  // threads; at most 1024 in all
  std::array<uint32_t, 3> cluster{1, 1,
                                  1};  // blocks; more than one is told to the kernel by %cluster_*, no more
  uint32_t dynamic_shared_bytes = 0;
  const void* params =
      nullptr;  // function->param_bytes bytes, laid out as Function::params say; read before return
  bool cooperative =
      false;  // all blocks live at once, and %envreg1/2 point to a grid workspace that run() owns
  std::vector<uint64_t> global_addresses;  // by index of Module::globals
  const AccessMap* memory = nullptr;
  const Objects* objects = nullptr;  // nullptr: no texture and no surface
  Sinks* sinks = nullptr;
  BlockWatcher* watcher = nullptr;  // may be nullptr
  DeviceTraits device;
  uint64_t grid_id = 0;       // %gridid
  unsigned host_threads = 0;  // at most so many, the caller's among them; 0: as many as the host has cores
  const std::atomic<bool>* cancel =
      nullptr;  // becoming true ends the launch, soon, with Fault::Kind::cancelled
};

// Why a launch ended. Anything but none leaves memory as it was at that moment; the other blocks end soon
// after.
struct Fault {
  enum class Kind {
    none,
    illegal_address,      // CUDA_ERROR_ILLEGAL_ADDRESS
    misaligned_address,   // CUDA_ERROR_MISALIGNED_ADDRESS
    illegal_instruction,  // CUDA_ERROR_ILLEGAL_INSTRUCTION
    invalid_pc,           // CUDA_ERROR_INVALID_PC: a call through a pointer to no function
    trap,                 // CUDA_ERROR_LAUNCH_FAILED: trap, and brkpt without a debugger
    assertion,            // CUDA_ERROR_ASSERT; its line went to Sinks::print
    stack_overflow,       // CUDA_ERROR_HARDWARE_STACK_ERROR: local memory of a thread exhausted by recursion
    invalid_configuration,  // the Launch itself is impossible; nothing ran
    unsupported,            // GF601; nothing ran, unless it is a lookup that does not fit its texture
    deadlock,               // every thread waits for one that cannot come
    out_of_memory,          // the host has no memory for the blocks' state
    cancelled,
  };
  Kind kind = Kind::none;
  uint64_t address = 0;  // of the two address faults
  std::array<uint32_t, 3> block{}, thread{};
  std::string text;  // "illegal address 0x… read by ld.global.f32, kernel foo, line 42 of the PTX"

  explicit operator bool() const { return kind != Kind::none; }
};

// Runs the whole grid; returns when every block ended or one faulted. May be called from any thread, several
// at once.
[[nodiscard]] Fault run(const Launch& launch);

// How many such blocks one multiprocessor of that kind holds at once; 0: none fits. Also what bounds a
// cooperative grid (times multiprocessors).
[[nodiscard]] uint32_t blocks_per_multiprocessor(const Function& function, uint32_t threads_per_block,
                                                 uint32_t dynamic_shared_bytes, const DeviceTraits& device);

}  // namespace gpufence::sim::ptx
