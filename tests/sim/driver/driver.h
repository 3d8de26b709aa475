// What the driver knows: devices, contexts, and the gate that every export passes. One Driver a process, made
// by cuInit and leaked on purpose: programs and the CUDA runtime call the driver from exit handlers, after
// static destructors (facts of CUDA 13.0: cuLibraryUnload, cuDevicePrimaryCtxRelease).
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "cuda_abi.h"
#include "handles.h"
#include "heap.h"
#include "machine.h"
#include "occupancy.h"

namespace gpufence::sim {

namespace ptx {
class AccessMap;
}  // namespace ptx

struct Device;
struct Context;
class Admission;       // admission.h
struct Queue;          // queue.h
struct StreamCapture;  // capture.h
struct CapturedEvent;  // capture.h

// Of what a context may touch (access.h).
struct AccessVersion {
  uint64_t peer_changes = 0;
  uint64_t memory_changes = 0;
  bool operator==(const AccessVersion&) const = default;
};

// Of streams and kernels; numbers outside are clamped (cuStreamCreateWithPriority).
constexpr int kLeastPriority = 0, kGreatestPriority = -5;
constexpr int clamped_priority(int priority) {
  return priority > kLeastPriority      ? kLeastPriority
         : priority < kGreatestPriority ? kGreatestPriority
                                        : priority;
}

// What cuStreamSetAttribute keeps beside the priority; under `lock`.
struct StreamAttributes {
  std::mutex lock;
  CUaccessPolicyWindow window{};
  CUsynchronizationPolicy policy = CU_SYNC_POLICY_AUTO;
  std::optional<CUlaunchMemSyncDomainMap> domains;  // none: domain 0, and another for remote kernels
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
};

// A created stream (in Driver::streams), or one of a context's default streams, which have no handle of their
// own.
struct Stream {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  unsigned flags = 0;
  std::atomic<int> priority{0};
  StreamAttributes attributes;
  unsigned long long id = 0;
  Queue* queue = nullptr;                        // its work; outlives the stream until the work is done
  uint64_t lease = 0;                            // of the queue
  std::atomic<StreamCapture*> capture{nullptr};  // not nullptr: it captures (capture.h)
};

struct Context {
  std::atomic<uint32_t> live{0};    // of Handles; a primary context keeps its handle for good
  std::atomic<bool> active{false};  // false: destroyed, or a primary context that nobody retains
  Device* device = nullptr;
  bool primary = false;
  std::atomic<unsigned> flags{0};
  unsigned long long id = 0;
  unsigned api_version = 3020;
  std::atomic<unsigned> attached{1};  // cuCtxAttach, cuCtxDetach
  std::atomic<size_t> limits[CU_LIMIT_MAX] = {};
  // Kernels that use the heap, or printf, were launched: their limits stand from then on.
  std::atomic<bool> heap_launched{false}, printf_launched{false};
  std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<int> shared_config{CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE};
  Block* blocks = nullptr;  // its device memory; under the device's lock

  // The first fault of its work: every call that touches the context answers it until the context is
  // destroyed, or reset if it is a primary one ("sticky").
  std::atomic<CUresult> fault{CUDA_SUCCESS};
  // True: what still runs is to end soon (a fault, or the context's end). For ptx::Launch::cancel.
  std::atomic<bool> cancel{false};
  std::atomic<bool> overdue{false};  // its work was waited for long enough, in vain

  std::shared_ptr<Admission> admission;  // of kernels that compete for the GPU

  std::mutex order;  // of submissions to the legacy stream and to the blocking ones
  std::vector<Queue*>
      queues;            // of all its streams, the destroyed ones too while they hold work; under `order`
  size_t sweep_at = 64;  // when `queues` is next searched for those
  std::atomic<unsigned> blocking_captures{0};  // of its blocking streams, which bar the legacy stream
  Stream legacy;
  // Of no program: behind all work there is (cuCtxRecordEvent), and before all that comes (cuCtxWaitEvent),
  // up to that number.
  Stream gathering, barrier;
  std::atomic<uint64_t> held_until{0};
  std::map<pthread_t, std::unique_ptr<Stream>> per_thread;  // under `order`

  std::vector<Context*> peers;              // whose memory it may touch; under Driver::peer_lock
  uint64_t peer_changes = 0;                // the same
  std::atomic<uint64_t> memory_changes{0};  // allocations and frees
  std::atomic<uint64_t> managed_blocks{0};
  std::mutex access_lock;
  std::shared_ptr<const ptx::AccessMap> access;  // of access_of(), under access_lock
  AccessVersion access_made_at;
};

struct Mark;        // queue.h
class SharedEvent;  // ipc.h
struct Event {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  unsigned flags = 0;
  std::mutex lock;
  std::shared_ptr<Mark> mark;           // of its last record; nullptr: never recorded; under `lock`
  std::shared_ptr<SharedEvent> shared;  // instead of it, where other processes may see the event; the same
  std::shared_ptr<const CapturedEvent> captured;  // instead, of a record in a capture; the same
};

struct Device {
  const Gpu* gpu = nullptr;
  size_t host_index = 0;  // of its unit (machine.h)
  int ordinal = -1;       // -1: not visible

  std::mutex lock;  // heaps and the contexts' block lists
  Heap heap{this};
  Heap low_heap{this, true};
  Heap graph_heap{this};                 // addresses of graphs' allocations (graph_memory.h)
  std::atomic<uint64_t> allocations{0};  // counted for fail_alloc_at
  std::atomic<uint64_t> calls{0};        // counted for lost_at
  std::atomic<bool> lost{false};

  std::mutex primary_lock;
  Context* primary = nullptr;
  unsigned primary_refs = 0;
  std::atomic<unsigned> primary_flags{0};
};

// Page-locked host memory: allocated here, or the program's own and registered.
struct HostRange {
  size_t bytes;
  unsigned flags;
  bool registered;
  Context* context;
  uint64_t id;  // of the buffer, in this process for ever
};

struct Driver {
  explicit Driver(const Machine& m) : machine(m), occupancy(m) {}
  const Machine& machine;
  Occupancy occupancy;
  std::vector<Device*> host;     // by unit
  std::vector<Device*> visible;  // by ordinal
  Handles<Context> contexts;
  Handles<Stream> streams;
  Handles<Event> events;
  std::mutex host_lock;
  std::map<uintptr_t, HostRange> host_ranges;
  std::set<uint64_t> sync_memops;  // buffers with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS; an id is never used again
  std::atomic<uint64_t> host_changes{0};
  std::atomic<uint64_t> managed_changes{0};
  std::mutex peer_lock;
  std::atomic<unsigned long long> next_id{1};  // contexts, streams

  Device* device(CUdevice ordinal) const {
    return ordinal >= 0 && static_cast<size_t>(ordinal) < visible.size()
               ? visible[static_cast<size_t>(ordinal)]
               : nullptr;
  }
};

// The driver of this process; only after ready() said yes.
Driver& driver();
// False before cuInit succeeded, and in a child forked after it did.
bool ready();
CUresult initialise();

// The context on top of the calling thread's stack, or nullptr.
Context* current_context();

// code: what modules and kernels need for themselves; the fault fail_alloc_at does not count it.
enum class Kind { device, managed, below_4gib, code };
// In context.cpp: contexts; nullptr out of memory.
Context* activate(Device& device, Context* again, unsigned flags, unsigned api_version);
void deactivate(Context& context);  // its memory, streams and events go
// In memory.cpp.
// What an address is to CUDA, copied under the locks.
struct Found {
  Device* device = nullptr;
  uintptr_t base = 0;
  uint64_t bytes = 0;
  uint64_t id = 0;
  bool managed = false;
  Context* context = nullptr;
  bool host = false;
  bool registered = false;
  unsigned host_flags = 0;
  Pool* pool = nullptr;  // of an allocation from a memory pool, which has no context
  bool mapped = false;   // by cuMemMap; has no context either
  bool graph = false;    // a graph's allocation node's; has no context either
  CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;
  uint64_t beyond = 0;  // mapped behind it without a gap, bytes
  uintptr_t range = 0;  // of mapped memory: the reservation that it stands in
  uint64_t range_bytes = 0;
  bool imported = false;  // another process's, by cuIpcOpenMemHandle; `context` is who opened it
};
bool find(uintptr_t address, Found& found);
// CU_POINTER_ATTRIBUTE_BUFFER_ID, which no other allocation of the process ever has: a number counted at the
// place where the memory is kept, a unit (machine.h) or one of those behind them.
constexpr unsigned kOfHost = kMaxUnits, kOfMappings = kMaxUnits + 1, kOfPools = kMaxUnits + 2,
                   kOfImports = kMaxUnits + 3;
constexpr uint64_t buffer_id(uint64_t number, size_t place) {
  return number << 10 | place << 1;
}
// All work of all contexts, as before memory goes that is in reach of every GPU.
void synchronise_all();
CUresult allocate(Context& context, uint64_t bytes, Kind kind, Block** out);
// Counts bytes on the GPU; where there is no room, managed memory of this process makes some by moving to the
// host. False if that is not enough.
bool reserve(Device& device, uint64_t bytes);
// Managed memory moves, as far as there is room: `count` of the bytes of the allocation that covers the
// address, to the GPU that it counts against, or away from that; nullptr: to the host.
void migrate(uintptr_t address, uint64_t count, const Device* to);
// Which of the device's heaps has the address; under its lock.
Heap& heap_of(Device& device, uintptr_t address);
// The block that starts there, allocated by this process on that device; others are left alone.
bool free_block(Device& device, uintptr_t address);
// In managed.cpp: an allocation, by Found::id, is gone.
void forget_advice(uint64_t id);
// In device.cpp: what cuDeviceGetAttribute answers; 0 for an attribute that there is not.
int device_attribute(const Device& device, CUdevice_attribute which);
void free_all(Context& context);
void free_host_of(Context& context);
void destroy_streams_of(Context& context);
// In peers.cpp: whether the machine lets the one reach the other's memory.
bool can_access_peer(const Device& device, const Device& peer);
void forget_peers_of(Context& context);
// In stream.cpp: what a stream handle means to a call made in `current`. NULL is the legacy default stream,
// or in the _ptsz and _ptds twins (per_thread) the calling thread's. CUDA_ERROR_INVALID_HANDLE for none; the
// fault of the stream's context if that is dead.
// What becomes of the call while that stream captures:
enum class InCapture {
  refused,   // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid
  captured,  // the caller looks at is_capturing() and adds a node
  ignored,   // the call only asks who the stream is
};
// The legacy stream while a blocking one captures: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, unless it is ignored.
CUresult stream_of(CUstream handle, bool per_thread, Context& current, Stream** out,
                   InCapture in_capture = InCapture::refused);
// Of the stream's work so far. "hEvent and hStream must be from the same context": CUDA_ERROR_INVALID_HANDLE.
CUresult record_event(CUevent handle, Stream& stream);
// `shared`: what other processes see of it, or nullptr.
CUresult create_event(Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared, CUevent* out);

// ---- The gate ----
// Each export is one of these round its body. They answer what every CUDA call answers when there is no
// driver, no context, or a destroyed one, and write the call down if GPUFENCE_SIM_CALLS asks for it.

extern constinit std::atomic<int> recording;  // 0 not yet looked up, 1 off, 2 on, or some call is slow
void write_call(const char* name, CUresult result);
// For exports without behaviour: records, says GF601 once a function, answers CUDA_ERROR_NOT_SUPPORTED. An
// int, because defaults.cpp can't see cuda.h.
int unsupported(const char* name, std::atomic<bool>& said);

// True on a worker while it runs a program's host function, in which CUDA calls are not permitted.
extern constinit thread_local bool in_host_function;

inline CUresult recorded(const char* name, CUresult result) {
  if (__builtin_expect(recording.load(std::memory_order_relaxed) != 1, 0)) write_call(name, result);
  return result;
}

template <class Body>
CUresult always(const char* name, Body&& body) {
  return recorded(name, body());
}

template <class Body>
CUresult initialised(const char* name, Body&& body) {
  if (!ready()) return recorded(name, CUDA_ERROR_NOT_INITIALIZED);
  if (__builtin_expect(in_host_function, 0)) return recorded(name, CUDA_ERROR_NOT_PERMITTED);
  return recorded(name, body());
}

// What a call that touches this context answers instead of doing anything; CUDA_SUCCESS: it may.
inline CUresult refusal(const Context& context) {
  if (!context.active.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context.fault.load(std::memory_order_acquire);
}

// What a lost GPU's contexts answer, and whoever wants a new one there. cuda.h has no code for it but
// "requested CUDA device is unavailable at the current time".
constexpr CUresult kLost = CUDA_ERROR_DEVICE_UNAVAILABLE;
// Counts a call on a GPU that is to be lost; true: it is.
bool lose(Device& device);
inline bool is_lost(Device& device) {
  return __builtin_expect(device.gpu->lost_at != 0, 0) && lose(device);
}

template <class Body>
CUresult in_context(const char* name, Body&& body) {
  return initialised(name, [&] {
    Context* context = current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (is_lost(*context->device)) return kLost;
    const CUresult refused = refusal(*context);
    return refused != CUDA_SUCCESS ? refused : body(*context);
  });
}

// Captures that run in this process (capture.h).
extern constinit std::atomic<unsigned> captures_running;
// What a call that no stream capture would see answers ("potentially unsafe",
// cuThreadExchangeStreamCaptureMode): CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a capture prohibits it,
// which is invalid from then on.
CUresult refusal_of_captures();
inline CUresult unsafe_refusal() {
  return __builtin_expect(captures_running.load(std::memory_order_acquire) == 0, 1) ? CUDA_SUCCESS
                                                                                    : refusal_of_captures();
}

// As in_context, for such a call.
template <class Body>
CUresult in_context_unsafe(const char* name, Body&& body) {
  return in_context(name, [&](Context& context) {
    const CUresult refused = unsafe_refusal();
    return refused != CUDA_SUCCESS ? refused : body(context);
  });
}

// For what only reads who the context is: cuda.h says that a fault fails "any further CUDA work".
template <class Body>
CUresult in_context_even_faulted(const char* name, Body&& body) {
  return initialised(name, [&] {
    Context* context = current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->active.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return body(*context);
  });
}

}  // namespace gpufence::sim
