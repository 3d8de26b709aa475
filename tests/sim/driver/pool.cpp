// See pool.h.
#include "pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "access.h"
#include "capture.h"
#include "graph_memory.h"
#include "shared_file.h"

namespace gpufence::sim {
namespace {

// Leaked, as all state that exit handlers reach. Lock order: this lock, then one pool's.
struct Pools {
  std::mutex lock;
  Handles<Pool> handles;
  std::vector<Pool*> all;             // the destroyed ones too while they hold memory
  std::map<uintptr_t, Pool*> arenas;  // by their first address
  // By GPU (nullptr: the host's) and kind of memory.
  using Place = std::pair<const Device*, CUmemAllocationType>;
  std::map<Place, Pool*> defaults, current;
};
Pools& pools() {
  static auto* made = new Pools;
  return *made;
}

std::atomic<uint64_t> changes{0};
std::atomic<uint64_t> next_id{1};
std::atomic<int> with_memory{0};  // pools that hold segments

constexpr uint64_t kHostArena = uint64_t{64} << 30;  // addresses, not memory
constexpr char kMagic[8] = {'g', 'p', 'f', 's', 'p', 'o', 'o', 'l'};

// Behind the memory of a pool that can be shared, in the same file: how another process knows what it is
// given.
struct Label {
  char magic[8];
  uint64_t bytes, id, host_index;
  CUmemPoolProps props;
};
// An allocation in such a pool, as it travels in CUmemPoolPtrExportData.
struct Exported {
  char magic[8];
  uint64_t pool_id, offset, bytes;
};
static_assert(sizeof(Exported) <= sizeof(CUmemPoolPtrExportData));

// ---- Segments; all under the pool's lock ----

// A gap of the arena, 0 if there is none.
uintptr_t gap_in_arena(const Pool& pool, uint64_t bytes) {
  uintptr_t at = pool.arena;
  for (const auto& [address, segment] : pool.segments) {
    if (address - at >= bytes) return at;
    at = address + segment.bytes;
  }
  return pool.arena + pool.arena_bytes - at >= bytes ? at : 0;
}

bool add_segment(Pool& pool, uint64_t bytes) {
  const uint64_t most = pool.props.maxSize == 0 ? UINT64_MAX : up_to(pool.props.maxSize, Pool::kSmallStep);
  if (bytes > most - std::min(most, pool.reserved)) return false;
  if (pool.device != nullptr && !reserve(*pool.device, bytes)) return false;
  Pool::Segment segment;
  segment.bytes = bytes;
  uintptr_t address = 0;
  if (pool.arena != 0) {
    address = gap_in_arena(pool, bytes);
  } else {
    std::lock_guard<std::mutex> held(pool.device->lock);
    segment.block = pool.device->heap.allocate(bytes, pool.device->gpu->memory_bytes);
    if (segment.block != nullptr) {
      segment.block->pool = &pool;
      segment.block->context = nullptr;
      address = segment.block->address;
    }
  }
  if (address == 0) {
    if (pool.device != nullptr) driver().occupancy.release(pool.device->host_index, bytes);
    return false;
  }
  segment.free[address] = {bytes, {}};
  if (pool.segments.empty()) ++with_memory;
  pool.segments[address] = std::move(segment);
  pool.reserved += bytes;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  ++changes;
  return true;
}

bool grow(Pool& pool, uint64_t bytes) {
  return add_segment(pool, up_to(bytes, Pool::kStep)) || add_segment(pool, up_to(bytes, Pool::kSmallStep));
}

std::map<uintptr_t, Pool::Segment>::iterator drop(Pool& pool,
                                                  std::map<uintptr_t, Pool::Segment>::iterator segment) {
  const uint64_t bytes = segment->second.bytes;
  if (segment->second.block != nullptr) {
    std::lock_guard<std::mutex> held(pool.device->lock);
    segment->second.block->pool = nullptr;
    pool.device->heap.free(segment->second.block);
  } else if (!pool.imported) {
    madvise(reinterpret_cast<void*>(segment->first), bytes, MADV_REMOVE);
  }
  if (pool.device != nullptr) driver().occupancy.release(pool.device->host_index, bytes);
  pool.reserved -= bytes;
  const auto next = pool.segments.erase(segment);
  if (pool.segments.empty()) --with_memory;
  ++changes;
  return next;
}

bool unused(const Pool::Segment& segment) {
  uint64_t bytes = 0;
  for (const auto& [address, piece] : segment.free) {
    if (!piece.after.done()) return false;
    bytes += piece.bytes;
  }
  return bytes == segment.bytes;
}

// Gives back what is unused, as long as `keep` bytes stay.
void give_back(Pool& pool, uint64_t keep) {
  for (auto segment = pool.segments.begin(); segment != pool.segments.end();)
    segment =
        pool.reserved - std::min(pool.reserved, segment->second.bytes) >= keep && unused(segment->second)
            ? drop(pool, segment)
            : std::next(segment);
}

// A destroyed pool is gone with its last allocation.
void bury(Pool& pool) {
  if (pool.destroyed && pool.allocations.empty()) give_back(pool, 0);
}

// ---- Pieces; all under the pool's lock ----

// Joins neighbours that can be waited for as one.
void join(Pool::Segment& segment) {
  for (auto piece = segment.free.begin(); piece != segment.free.end();) {
    const auto next = std::next(piece);
    if (next == segment.free.end()) return;
    Pool::Free &lower = piece->second, &upper = next->second;
    const bool touch = piece->first + lower.bytes == next->first;
    const bool one = lower.after.queue == upper.after.queue;
    if (!touch || (!one && !(lower.after.done() && upper.after.done()))) {
      piece = next;
      continue;
    }
    lower.bytes += upper.bytes;
    if (lower.after.queue == nullptr || (one && upper.after.number > lower.after.number))
      lower.after = upper.after;
    segment.free.erase(next);
  }
}

// Whether memory freed there may be used next in that stream.
bool usable(const Pool& pool, const Stream& stream, const Ticket& after) {
  if (after.queue == nullptr || after.queue == stream.queue) return true;
  if (pool.opportunistic != 0 && after.done()) return true;
  return pool.follow_events != 0 && ordered_behind(stream, after);
}

struct Place {
  Pool::Segment* segment = nullptr;
  uintptr_t address = 0;
};

template <class Suits>
Place first_that(Pool& pool, uint64_t bytes, Suits suits) {
  for (auto& [base, segment] : pool.segments)
    for (const auto& [address, piece] : segment.free)
      if (piece.bytes >= bytes && suits(piece)) return {&segment, address};
  return {};
}

Ticket take(Pool& pool, const Place& place, uint64_t bytes, uint64_t taken) {
  const auto piece = place.segment->free.find(place.address);
  const Pool::Free was = piece->second;
  place.segment->free.erase(piece);
  if (was.bytes > taken) place.segment->free[place.address + taken] = {was.bytes - taken, was.after};
  pool.allocations[place.address] = {bytes, taken, next_id++};
  pool.used += taken;
  pool.used_high = std::max(pool.used_high, pool.used);
  return was.after;
}

CUresult allocate_from(Pool& pool, Stream& stream, uint64_t bytes, CUdeviceptr* out) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (pool.imported) return CUDA_ERROR_NOT_SUPPORTED;
  if (pool.device != nullptr) {
    const uint64_t fail_at = pool.device->gpu->fail_alloc_at;
    if (fail_at != 0 && ++pool.device->allocations == fail_at) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const uint64_t taken = up_to(bytes, Pool::kPiece);
  Ticket wait_first;
  {
    std::lock_guard<std::mutex> held(pool.lock);
    const auto now = [&](const Pool::Free& piece) { return usable(pool, stream, piece.after); };
    Place place = first_that(pool, taken, now);
    if (place.segment == nullptr) {
      for (auto& [base, segment] : pool.segments) join(segment);
      place = first_that(pool, taken, now);
    }
    if (place.segment == nullptr && grow(pool, taken)) place = first_that(pool, taken, now);
    if (place.segment == nullptr) {
      give_back(pool, 0);  // what is unused, but in pieces too small
      if (grow(pool, taken)) place = first_that(pool, taken, now);
    }
    if (place.segment == nullptr && pool.internal_dependencies != 0) {
      place = first_that(pool, taken, [](const Pool::Free&) { return true; });
      if (place.segment != nullptr) wait_first = place.segment->free[place.address].after;
    }
    if (place.segment == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    take(pool, place, bytes, taken);
    *out = place.address;
  }
  if (wait_first.queue != nullptr) wait_for(stream, wait_first);
  return CUDA_SUCCESS;
}

// ---- Pools ----

Pool* pool_of(CUmemoryPool handle) {
  return pools().handles.check(handle);
}

CUresult device_of(const CUmemLocation& location, CUmemAllocationType type, Device** out) {
  *out = nullptr;
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *out = driver().device(location.id);
      return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_NONE:
      return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// A mapping of the file, whose descriptor the pool keeps; or of none.
bool map_arena(Pool& pool, int file, uint64_t bytes) {
  void* at = file >= 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)
                       : reserve_lazily(bytes, false);
  if (at == MAP_FAILED || at == nullptr) return false;
  madvise(at, bytes, MADV_DONTFORK);
  madvise(at, bytes, MADV_DONTDUMP);
  pool.arena = reinterpret_cast<uintptr_t>(at);
  pool.arena_bytes = bytes;
  pool.arena_file = file;
  return true;
}

bool make_shareable(Pool& pool) {
  const uint64_t bytes = up_to(pool.device->gpu->memory_bytes, page_bytes());
  if (getrandom(&pool.arena_id, sizeof pool.arena_id, 0) != sizeof pool.arena_id) return false;
  Label label{{}, bytes, pool.arena_id, pool.device->host_index, pool.props};
  memcpy(label.magic, kMagic, sizeof kMagic);
  const int file = memfd_create("gpufence-sim-pool", MFD_CLOEXEC);
  if (file < 0) return false;
  if (ftruncate(file, static_cast<off_t>(bytes + page_bytes())) == 0 &&
      pwrite(file, &label, sizeof label, static_cast<off_t>(bytes)) == sizeof label &&
      map_arena(pool, file, bytes))
    return true;
  close(file);
  return false;
}

Pool* add_pool(Device* device, const CUmemPoolProps& props) {
  Pool* pool = pools().handles.take();
  if (pool == nullptr) return nullptr;
  pool->device = device;
  pool->props = props;
  const bool shareable = props.handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (shareable ? !make_shareable(*pool) : device == nullptr && !map_arena(*pool, -1, kHostArena))
    return nullptr;
  return pool;
}

// Under pools().lock.
void list(Pool* pool) {
  pools().all.push_back(pool);
  if (pool->arena != 0) pools().arenas[pool->arena] = pool;
  pools().handles.publish(pool);
}

CUresult create(CUmemoryPool* out, const CUmemPoolProps* props) {
  if (out == nullptr || props == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && props->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED)
    return CUDA_ERROR_INVALID_VALUE;
  if (props->win32SecurityAttributes != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::any_of(std::begin(props->reserved), std::end(props->reserved),
                  [](unsigned char c) { return c != 0; }))
    return CUDA_ERROR_INVALID_VALUE;
  if ((props->usage & ~CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (props->usage != 0) return CUDA_ERROR_NOT_SUPPORTED;
  Device* device = nullptr;
  if (const CUresult bad = device_of(props->location, props->allocType, &device); bad != CUDA_SUCCESS)
    return bad;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    if (device == nullptr || props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
      return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes == CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  }
  Pool* pool = add_pool(device, *props);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> held(pools().lock);
  list(pool);
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

// Made when it is first asked for.
Pool* default_pool(Device* device, CUmemAllocationType type) {
  std::lock_guard<std::mutex> held(pools().lock);
  Pool*& known = pools().defaults[{device, type}];
  if (known != nullptr) return known;
  CUmemPoolProps props{};
  props.allocType = type;
  props.location = device != nullptr ? CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal}
                                     : CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0};
  Pool* pool = add_pool(device, props);
  if (pool == nullptr) return nullptr;
  pool->is_default = true;
  list(pool);
  return known = pool;
}

Pool* current_pool(Device* device, CUmemAllocationType type) {
  {
    std::lock_guard<std::mutex> held(pools().lock);
    const auto set = pools().current.find({device, type});
    if (set != pools().current.end() && set->second != nullptr) return set->second;
  }
  return default_pool(device, type);
}

CUresult set_current(Device* device, CUmemAllocationType type, CUmemoryPool handle) {
  Pool* pool = pool_of(handle);
  if (pool == nullptr || pool->imported || pool->device != device || pool->props.allocType != type)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(pools().lock);
  pools().current[{device, type}] = pool;
  return CUDA_SUCCESS;
}

CUresult hand_out(CUmemoryPool* out, Pool* pool) {
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

template <class Body>
CUresult with_pool(const char* name, CUmemoryPool handle, Body&& body) {
  return initialised(name, [&] {
    Pool* pool = pool_of(handle);
    return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*pool);
  });
}

CUresult destroy(Pool& pool) {
  if (pool.is_default || !pools().handles.retire(&pool)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(pools().lock);
  for (auto& [place, current] : pools().current)
    if (current == &pool) current = nullptr;
  std::lock_guard<std::mutex> held_pool(pool.lock);
  pool.destroyed = true;
  bury(pool);
  return CUDA_SUCCESS;
}

CUresult get_attribute(Pool& pool, CUmemPool_attribute which, void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(pool.lock);
  const auto store = [&](auto told) {
    memcpy(value, &told, sizeof told);
    return CUDA_SUCCESS;
  };
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return store(pool.follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return store(pool.opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return store(pool.internal_dependencies);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return store(cuuint64_t{pool.threshold});
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return store(cuuint64_t{pool.reserved});
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return store(cuuint64_t{pool.reserved_high});
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return store(cuuint64_t{pool.used});
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return store(cuuint64_t{pool.used_high});
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(Pool& pool, CUmemPool_attribute which, const void* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(pool.lock);
  const auto flag = [&](int& into) {
    memcpy(&into, value, sizeof into);
    return CUDA_SUCCESS;
  };
  cuuint64_t bytes = 0;
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return flag(pool.follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return flag(pool.opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return flag(pool.internal_dependencies);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      memcpy(&bytes, value, sizeof bytes);
      pool.threshold = bytes;
      return CUDA_SUCCESS;
    // "It is illegal to set this attribute to a non-zero value."
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      memcpy(&bytes, value, sizeof bytes);
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool.used_high : pool.reserved_high) =
          which == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool.used : pool.reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_access(Pool& pool, const CUmemAccessDesc* map, size_t count) {
  if (map == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  // All or nothing.
  for (size_t i = 0; i < count; ++i) {
    const Device* device = driver().device(map[i].location.id);
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || device == nullptr || !is_access(map[i].flags))
      return CUDA_ERROR_INVALID_VALUE;
    if (device == pool.device ? map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                              : pool.device != nullptr && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                                    !can_access_peer(*device, *pool.device))
      return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard<std::mutex> held(pool.lock);
  for (size_t i = 0; i < count; ++i) pool.access[driver().device(map[i].location.id)] = map[i].flags;
  ++changes;
  return CUDA_SUCCESS;
}

// Under the pool's lock.
CUmemAccess_flags access_from(const Pool& pool, const Device* device) {
  if (device == pool.device || pool.managed()) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto set = pool.access.find(device);
  return set != pool.access.end() ? set->second : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult export_pool(Pool& pool, void* out, CUmemAllocationHandleType type, unsigned long long flags) {
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      pool.props.handleTypes != type || pool.imported)
    return CUDA_ERROR_INVALID_VALUE;
  return give_descriptor(pool.arena_file, out);
}

CUresult import_pool(CUmemoryPool* out, void* handle, CUmemAllocationHandleType type,
                     unsigned long long flags) {
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  int given = -1;
  Label label{};
  if (!read_label(handle, kMagic, &given, &label)) return CUDA_ERROR_INVALID_VALUE;
  Device* device = visible_at(label.host_index);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Pool* pool = pools().handles.take();
  const int file = fcntl(given, F_DUPFD_CLOEXEC, 3);
  if (pool == nullptr || file < 0 || !map_arena(*pool, file, label.bytes)) {
    if (file >= 0) close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pool->device = device;
  pool->props = label.props;
  pool->props.location.id = device->ordinal;
  pool->imported = true;
  pool->arena_id = label.id;
  std::lock_guard<std::mutex> held(pools().lock);
  list(pool);
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

CUresult export_pointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  Pool* pool = pool_of_arena(address);
  if (out == nullptr || pool == nullptr || pool->props.handleTypes == CU_MEM_HANDLE_TYPE_NONE ||
      pool->imported)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(pool->lock);
  const auto found = pool->allocations.find(address);
  if (found == pool->allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  Exported data{{}, pool->arena_id, address - pool->arena, found->second.bytes};
  memcpy(data.magic, kMagic, sizeof kMagic);
  *out = {};
  memcpy(out, &data, sizeof data);
  return CUDA_SUCCESS;
}

CUresult import_pointer(CUdeviceptr* out, Pool& pool, const CUmemPoolPtrExportData* given) {
  if (out == nullptr || given == nullptr || !pool.imported) return CUDA_ERROR_INVALID_VALUE;
  Exported data{};
  memcpy(&data, given, sizeof data);
  if (memcmp(data.magic, kMagic, sizeof kMagic) != 0 || data.pool_id != pool.arena_id || data.bytes == 0 ||
      data.offset >= pool.arena_bytes || data.bytes > pool.arena_bytes - data.offset)
    return CUDA_ERROR_INVALID_VALUE;
  const uintptr_t address = pool.arena + data.offset;
  std::lock_guard<std::mutex> held(pool.lock);
  pool.allocations[address] = {data.bytes, up_to(data.bytes, Pool::kPiece), next_id++};
  ++changes;
  *out = address;
  return CUDA_SUCCESS;
}

enum class Null { legacy, per_thread };

template <class Body>
CUresult with_stream(const char* name, Null null, CUstream handle, Body&& body) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(handle, null == Null::per_thread, current, &stream, InCapture::captured);
    return found != CUDA_SUCCESS ? found : body(*stream);
  });
}

CUresult allocate_async(const char* name, Null null, CUdeviceptr* out, size_t bytes, CUstream handle) {
  return with_stream(name, null, handle, [&](Stream& stream) {
    Pool* pool = current_pool(stream.context->device, CU_MEM_ALLOCATION_TYPE_PINNED);
    // "The memory pool's properties are used to set the node's creation parameters"
    // (cuMemAllocFromPoolAsync).
    if (pool != nullptr && is_capturing(stream)) return capture_alloc(stream, pool->props, bytes, out);
    return pool != nullptr ? allocate_from(*pool, stream, bytes, out) : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult allocate_from_async(const char* name, Null null, CUdeviceptr* out, size_t bytes, CUmemoryPool from,
                             CUstream handle) {
  return with_stream(name, null, handle, [&](Stream& stream) {
    Pool* pool = pool_of(from);
    if (pool != nullptr && is_capturing(stream)) return capture_alloc(stream, pool->props, bytes, out);
    return pool != nullptr ? allocate_from(*pool, stream, bytes, out) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult free_async(const char* name, Null null, CUdeviceptr address, CUstream handle) {
  return with_stream(name, null, handle, [&](Stream& stream) {
    if (address == 0) return CUDA_SUCCESS;
    if (is_capturing(stream)) return capture_free(stream, address);
    Found found;
    if (!find(address, found) || found.base != address) return CUDA_ERROR_INVALID_VALUE;
    if (found.graph) {
      // What the stream has to do until here still has it.
      auto kept = std::make_shared<RunningMemory>(GraphMemories{graph_memory_at(address)});
      if (!free_graph_memory(address)) return CUDA_ERROR_INVALID_VALUE;
      enqueue_short(stream, [kept] { return CUDA_SUCCESS; });
      return CUDA_SUCCESS;
    }
    if (found.pool != nullptr)
      return free_in(*found.pool, address, idle(stream) ? Ticket{} : mark(stream)->ticket)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    if (found.host || found.mapped) return CUDA_ERROR_INVALID_VALUE;
    // Memory of cuMemAlloc: given back in the stream's order.
    enqueue_short(stream, [device = found.device, address] {
      free_block(*device, address);
      return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
  });
}

}  // namespace

bool find_in(Pool& pool, uintptr_t address, Found& found) {
  std::lock_guard<std::mutex> held(pool.lock);
  auto at = pool.allocations.upper_bound(address);
  if (at == pool.allocations.begin()) return false;
  --at;
  if (address - at->first >= at->second.bytes) return false;
  found = {};
  found.device = pool.device != nullptr ? pool.device : driver().visible.front();
  found.base = at->first;
  found.bytes = at->second.bytes;
  found.id = buffer_id(at->second.id, kOfPools);
  found.managed = pool.managed();
  found.host = pool.device == nullptr && !pool.managed();
  found.pool = &pool;
  found.handle_types = pool.props.handleTypes;
  return true;
}

Pool* pool_of_arena(uintptr_t address) {
  if (pools().handles.none()) return nullptr;
  std::lock_guard<std::mutex> held(pools().lock);
  auto at = pools().arenas.upper_bound(address);
  if (at == pools().arenas.begin()) return nullptr;
  --at;
  return address - at->first < at->second->arena_bytes ? at->second : nullptr;
}

bool free_in(Pool& pool, uintptr_t address, const Ticket& after) {
  std::lock_guard<std::mutex> held(pool.lock);
  const auto found = pool.allocations.find(address);
  if (found == pool.allocations.end()) return false;
  const uint64_t taken = found->second.taken;
  pool.allocations.erase(found);
  if (pool.imported) {
    auto& leaving = pool.leaving;
    leaving.erase(std::remove_if(leaving.begin(), leaving.end(),
                                 [](const auto& piece) { return piece.second.after.done(); }),
                  leaving.end());
    if (!after.done()) leaving.push_back({address, {taken, after}});
    ++changes;
    return true;
  }
  pool.used -= taken;
  Pool::Segment& segment = std::prev(pool.segments.upper_bound(address))->second;
  segment.free[address] = {taken, after};
  join(segment);
  bury(pool);
  return true;
}

void add_pool_regions(Context& context, std::vector<ptx::Region>& regions) {
  if (pools().handles.none()) return;
  std::lock_guard<std::mutex> held(pools().lock);
  for (Pool* pool : pools().all) {
    std::lock_guard<std::mutex> held_pool(pool->lock);
    const CUmemAccess_flags access = access_from(*pool, context.device);
    if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
    const bool writes = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (pool->imported) {
      for (const auto& [address, allocation] : pool->allocations)
        regions.push_back({address, address + allocation.taken, writes});
      for (const auto& [address, piece] : pool->leaving)
        if (!piece.after.done()) regions.push_back({address, address + piece.bytes, writes});
    }
    // Whole segments, as a card protects pages: memory that a pool holds is mapped, freed or not.
    for (const auto& [address, segment] : pool->segments)
      regions.push_back({address, address + segment.bytes, writes});
  }
}

bool may_touch(Pool& pool, const Context& context) {
  std::lock_guard<std::mutex> held(pool.lock);
  return access_from(pool, context.device) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

uint64_t pool_changes() {
  return changes.load();
}

void trim_pools_after_synchronise() {
  if (with_memory.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard<std::mutex> held(pools().lock);
  for (Pool* pool : pools().all) {
    std::lock_guard<std::mutex> held_pool(pool->lock);
    // Their end has been seen: nothing of them need be waited for.
    for (auto& [base, segment] : pool->segments) {
      for (auto& [address, piece] : segment.free)
        if (piece.after.done()) piece.after = {};
      join(segment);
    }
    if (pool->destroyed)
      bury(*pool);
    else if (pool->reserved > pool->threshold)
      give_back(*pool, pool->threshold);
  }
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate_async(__func__, Null::legacy, out, bytes, stream);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate_async(__func__, Null::per_thread, out, bytes, stream);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return allocate_from_async(__func__, Null::legacy, out, bytes, pool, stream);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return allocate_from_async(__func__, Null::per_thread, out, bytes, pool, stream);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return free_async(__func__, Null::legacy, address, stream);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return free_async(__func__, Null::per_thread, address, stream);
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  return initialised(__func__, [&] { return create(out, props); });
}
CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return with_pool(__func__, handle, destroy);
}
CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  return with_pool(__func__, handle, [&](Pool& pool) {
    std::lock_guard<std::mutex> held(pool.lock);
    give_back(pool, keep);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  return with_pool(__func__, handle, [&](Pool& pool) { return get_attribute(pool, which, value); });
}
CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void* value) {
  return with_pool(__func__, handle, [&](Pool& pool) { return set_attribute(pool, which, value); });
}
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map, size_t count) {
  return with_pool(__func__, handle, [&](Pool& pool) { return set_access(pool, map, count); });
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  return with_pool(__func__, handle, [&](Pool& pool) {
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> held(pool.lock);
    if (location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
      *flags = pool.device == nullptr || pool.managed() ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                        : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    }
    const Device* device = driver().device(location->id);
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = access_from(pool, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  return with_pool(__func__, handle, [&](Pool& pool) { return export_pool(pool, out, type, flags); });
}
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* handle, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  return initialised(__func__, [&] { return import_pool(out, handle, type, flags); });
}
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  return initialised(__func__, [&] { return export_pointer(out, address); });
}
CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle, CUmemPoolPtrExportData* data) {
  return with_pool(__func__, handle, [&](Pool& pool) { return import_pointer(out, pool, data); });
}

// ---- Which pool a GPU allocates from ----

namespace {

template <class Body>
CUresult with_device(const char* name, CUdevice ordinal, Body&& body) {
  return initialised(name, [&] {
    Device* device = driver().device(ordinal);
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(*device);
  });
}

template <class Body>
CUresult with_place(const char* name, const CUmemLocation* location, CUmemAllocationType type, Body&& body) {
  return initialised(name, [&] {
    if (location == nullptr ||
        (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
      return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    const CUresult bad = device_of(*location, type, &device);
    return bad != CUDA_SUCCESS ? bad : body(device);
  });
}

}  // namespace

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice ordinal) {
  return with_device(__func__, ordinal, [&](Device& device) {
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE
                          : hand_out(out, default_pool(&device, CU_MEM_ALLOCATION_TYPE_PINNED));
  });
}
CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice ordinal) {
  return with_device(__func__, ordinal, [&](Device& device) {
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE
                          : hand_out(out, current_pool(&device, CU_MEM_ALLOCATION_TYPE_PINNED));
  });
}
CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  return with_device(__func__, ordinal, [&](Device& device) {
    return set_current(&device, CU_MEM_ALLOCATION_TYPE_PINNED, handle);
  });
}
CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return with_place(__func__, location, type, [&](Device* device) {
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE : hand_out(out, default_pool(device, type));
  });
}
CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return with_place(__func__, location, type, [&](Device* device) {
    return out == nullptr ? CUDA_ERROR_INVALID_VALUE : hand_out(out, current_pool(device, type));
  });
}
CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool handle) {
  return with_place(__func__, location, type,
                    [&](Device* device) { return set_current(device, type, handle); });
}
