// Device and page-locked host memory: allocation, free, what an address is. Every byte is counted in the
// shared occupancy before the heap hands it out, so that out of memory comes at the byte, whoever holds the
// rest.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

#include "access.h"
#include "code.h"
#include "driver.h"
#include "graph_memory.h"
#include "ipc.h"
#include "pool.h"
#include "queue.h"
#include "vmm.h"

namespace gpufence::sim {
namespace {

// What launches may touch has changed.
void count_change(Context& context, const Block& block, int managed_more) {
  ++context.memory_changes;
  if (!block.managed) return;
  context.managed_blocks += static_cast<uint64_t>(managed_more);
  ++driver().managed_changes;
}

uint64_t id_of(const Device& device, const Block& block) {
  return buffer_id(block.id, device.host_index);
}

uint64_t next_host_id() {
  static uint64_t next = 1;  // under host_lock
  return buffer_id(next++, kOfHost);
}

// The bytes of `most` that there was room for.
uint64_t reserve_what_fits(Device& device, uint64_t most) {
  Occupancy& occupancy = driver().occupancy;
  for (uint64_t bytes = most; bytes != 0;) {
    if (occupancy.reserve(device.host_index, bytes)) return bytes;
    const uint64_t used = occupancy.used(device.host_index), all = device.gpu->memory_bytes;
    bytes = std::min(bytes - 1, all - std::min(all, used));  // others may take it meanwhile
  }
  return 0;
}

}  // namespace

bool reserve(Device& device, uint64_t bytes) {
  Occupancy& occupancy = driver().occupancy;
  if (occupancy.reserve(device.host_index, bytes)) return true;
  if (bytes > device.gpu->memory_bytes) return false;
  std::lock_guard<std::mutex> held(device.lock);
  const auto each_managed = [&](auto visit) {
    driver().contexts.each_live([&](Context* context) {
      if (context->device != &device || context->managed_blocks == 0) return;
      for (Block* block = context->blocks; block != nullptr; block = block->context_next)
        if (block->managed && block->resident != 0) visit(*block);
    });
  };
  // What can't be had moves nothing.
  uint64_t movable = 0;
  each_managed([&](const Block& block) { movable += block.resident; });
  const uint64_t used = occupancy.used(device.host_index);
  if (used - std::min(used, movable) > device.gpu->memory_bytes - bytes) return false;
  bool done = false;
  each_managed([&](Block& block) {
    if (done) return;
    occupancy.release(device.host_index, block.resident);
    block.resident = 0;
    done = occupancy.reserve(device.host_index, bytes);
  });
  return done;
}

void migrate(uintptr_t address, uint64_t count, const Device* to) {
  auto* home = static_cast<Device*>(owner_of(address));
  if (home == nullptr) return;
  std::lock_guard<std::mutex> held(home->lock);
  Block* block = home->heap.containing(address);
  if (block == nullptr || !block->managed) return;
  if (to == home) {
    block->resident += reserve_what_fits(*home, std::min(count, block->bytes - block->resident));
  } else {
    const uint64_t leaving = std::min(count, block->resident);
    driver().occupancy.release(home->host_index, leaving);
    block->resident -= leaving;
  }
}

CUresult allocate(Context& context, uint64_t bytes, Kind kind, Block** out) {
  Device& device = *context.device;
  const Gpu& gpu = *device.gpu;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (kind != Kind::code && gpu.fail_alloc_at != 0 && ++device.allocations == gpu.fail_alloc_at)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes >= Heap::kTooMuch) return CUDA_ERROR_OUT_OF_MEMORY;  // takes nothing from others meanwhile
  // "Managed memory can be oversubscribed" (cuMemAllocManaged's devices with concurrentManagedAccess).
  const uint64_t resident = kind == Kind::managed ? reserve_what_fits(device, bytes) : bytes;
  if (kind != Kind::managed && !reserve(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  {
    std::lock_guard<std::mutex> held(device.lock);
    constexpr uint64_t kLowRoom = uint64_t{64} << 20;
    Block* block = kind == Kind::below_4gib
                       ? device.low_heap.allocate(bytes, std::min(kLowRoom, gpu.memory_bytes))
                       : device.heap.allocate(bytes, gpu.memory_bytes);
    if (block != nullptr && !context.active) {  // destroyed by another thread meanwhile
      (kind == Kind::below_4gib ? device.low_heap : device.heap).free(block);
      result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if (block != nullptr) {
      block->managed = kind == Kind::managed;
      block->resident = resident;
      block->context = &context;
      block->context_prev = nullptr;
      block->context_next = context.blocks;
      if (context.blocks != nullptr) context.blocks->context_prev = block;
      context.blocks = block;
      count_change(context, *block, 1);
      *out = block;
      return CUDA_SUCCESS;
    }
  }
  driver().occupancy.release(device.host_index, resident);
  return result;
}

Heap& heap_of(Device& device, uintptr_t address) {
  return address < (uintptr_t{1} << 32) && device.low_heap.containing(address) != nullptr ? device.low_heap
                                                                                          : device.heap;
}

namespace {

CUresult free_memory(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  Found found;
  // Mapped memory is unmapped and released instead.
  if (!find(pointer, found) || found.mapped || found.imported || (found.host && found.pool == nullptr) ||
      found.base != pointer)
    return CUDA_ERROR_INVALID_VALUE;
  if (found.graph) return free_graph_memory(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  // "The driver assumes that all accesses to the memory are already complete" (CUDA C++ programming guide,
  // "Stream Ordered Memory Allocator").
  if (found.pool != nullptr)
    return free_in(*found.pool, pointer, {}) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  // "May perform implicit synchronization" (cuMemFree): work that is under way still has the memory.
  synchronise(*found.context);
  if (const CUresult refused = refusal(*found.context); refused != CUDA_SUCCESS) return refused;
  return free_block(*found.device, pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

bool free_block(Device& device, uintptr_t address) {
  uint64_t bytes = 0;
  {
    std::lock_guard<std::mutex> held(device.lock);
    Heap& heap = heap_of(device, address);
    Block* block = heap.at(address);
    if (block == nullptr) return false;
    bytes = block->resident;
    count_change(*block->context, *block, -1);
    if (block->managed) forget_advice(id_of(device, *block));
    if (block->exported != 0) withdraw(heap.backing_of(*block), *block);
    if (block->context_prev != nullptr) block->context_prev->context_next = block->context_next;
    if (block->context_next != nullptr) block->context_next->context_prev = block->context_prev;
    if (block->context->blocks == block) block->context->blocks = block->context_next;
    heap.free(block);
  }
  driver().occupancy.release(device.host_index, bytes);
  return true;
}

bool find(uintptr_t address, Found& found) {
  if (auto* device = static_cast<Device*>(owner_of(address))) {
    std::unique_lock<std::mutex> held(device->lock);
    Block* block = heap_of(*device, address).containing(address);
    if (block == nullptr) {
      held.unlock();
      return find_graph_memory(address, found);
    }
    if (Pool* pool = block->pool; pool != nullptr) {
      held.unlock();
      return find_in(*pool, address, found);
    }
    found = {device,
             block->address,
             block->bytes,
             id_of(*device, *block),
             block->managed,
             block->context,
             false,
             false,
             0};
    return true;
  }
  if (Pool* pool = pool_of_arena(address); pool != nullptr) return find_in(*pool, address, found);
  if (find_mapped(address, found) || find_imported(address, found)) return true;
  std::lock_guard<std::mutex> held(driver().host_lock);
  auto it = driver().host_ranges.upper_bound(address);
  if (it == driver().host_ranges.begin()) return false;
  --it;
  if (address - it->first >= it->second.bytes) return false;
  found = {it->second.context->device, it->first, it->second.bytes,      it->second.id,   false,
           it->second.context,         true,      it->second.registered, it->second.flags};
  return true;
}

void free_all(Context& context) {
  Device& device = *context.device;
  uint64_t bytes = 0;
  {
    std::lock_guard<std::mutex> held(device.lock);
    for (Block *block = context.blocks, *next; block != nullptr; block = next) {
      next = block->context_next;
      bytes += block->resident;
      count_change(context, *block, -1);
      if (block->managed) forget_advice(id_of(device, *block));
      Heap& heap = heap_of(device, block->address);
      if (block->exported != 0) withdraw(heap.backing_of(*block), *block);
      heap.free(block);
    }
    context.blocks = nullptr;
  }
  driver().occupancy.release(device.host_index, bytes);
}

// Page-locked memory is in reach of every GPU.
void synchronise_all() {
  driver().contexts.each_live([](Context* context) {
    if (context->active) synchronise(*context);
  });
}

void free_host_of(Context& context) {
  std::lock_guard<std::mutex> held(driver().host_lock);
  for (auto it = driver().host_ranges.begin(); it != driver().host_ranges.end();) {
    if (it->second.context != &context) {
      ++it;
      continue;
    }
    if (!it->second.registered) munmap(reinterpret_cast<void*>(it->first), it->second.bytes);
    it = driver().host_ranges.erase(it);
  }
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

template <class Pointer>
CUresult allocate_into(Context& context, Pointer* out, uint64_t bytes, Kind kind) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Block* block = nullptr;
  const CUresult result = allocate(context, bytes, kind, &block);
  if (result == CUDA_SUCCESS) *out = static_cast<Pointer>(block->address);
  return result;
}

template <class Pointer, class Size>
CUresult allocate_pitched(Context& context, Pointer* out, Size* pitch, uint64_t width, uint64_t height,
                          unsigned element, Kind kind) {
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t row = (width + Heap::kGranule - 1) / Heap::kGranule * Heap::kGranule;
  if (row < width || row > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (height > UINT64_MAX / row) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate_into(context, out, row * height, kind);
  if (result == CUDA_SUCCESS) *pitch = static_cast<Size>(row);
  return result;
}

template <class Size>
CUresult memory_info(Context& context, Size* free, Size* total) {
  constexpr uint64_t kMost = static_cast<Size>(~Size{0});
  const uint64_t all = context.device->gpu->memory_bytes;
  settle_lent_memory();
  const uint64_t used = driver().occupancy.used(context.device->host_index);
  if (free != nullptr) *free = static_cast<Size>(std::min(all - std::min(all, used), kMost));
  if (total != nullptr) *total = static_cast<Size>(std::min(all, kMost));
  return CUDA_SUCCESS;
}

CUresult host_allocate(Context& context, void** out, uint64_t bytes, unsigned flags) {
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> held(driver().host_lock);
  driver().host_ranges[reinterpret_cast<uintptr_t>(memory)] = {bytes, flags, false, &context, next_host_id()};
  ++driver().host_changes;
  *out = memory;
  return CUDA_SUCCESS;
}

enum class Pages { missing, read_only, writable };

// What the process may do with that memory, throughout.
Pages pages_of(uintptr_t address, uint64_t bytes) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return Pages::writable;  // nobody to ask
  const uintptr_t end = address + bytes;
  Pages all = Pages::writable;
  char line[512], rights[8];
  uintptr_t from = 0, to = 0;
  while (address < end && fgets(line, sizeof line, maps) != nullptr) {
    if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || to <= address) continue;
    if (from > address || rights[0] != 'r') break;
    if (rights[1] != 'w') all = Pages::read_only;
    address = to;
  }
  fclose(maps);
  return address >= end ? all : Pages::missing;
}

CUresult host_register(Context& context, void* memory, uint64_t bytes, unsigned flags) {
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (memory == nullptr || bytes == 0 || address + bytes < address || (flags & ~kKnown) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) {
    say_once(
        "the simulator has no I/O memory (CU_MEMHOSTREGISTER_IOMEMORY): it answered "
        "CUDA_ERROR_NOT_SUPPORTED; "
        "register memory of the host");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  // A GPU's addresses are none of the host's; and pages that are not there cannot be locked, nor for writing
  // those that may only be read (CU_MEMHOSTREGISTER_READ_ONLY "is required" for them).
  Found found;
  if (find(address, found) && !found.host) return CUDA_ERROR_INVALID_VALUE;
  const Pages pages = pages_of(address, bytes);
  if (pages == Pages::missing || (pages == Pages::read_only && (flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0))
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(driver().host_lock);
  auto next = driver().host_ranges.lower_bound(address);
  if (next != driver().host_ranges.end() && next->first < address + bytes)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (next != driver().host_ranges.begin()) {
    auto before = std::prev(next);
    if (address - before->first < before->second.bytes) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  driver().host_ranges[address] = {bytes, flags, true, &context, next_host_id()};
  ++driver().host_changes;
  return CUDA_SUCCESS;
}

template <class Pointer>
CUresult host_device_pointer(Pointer* out, void* memory, unsigned flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Found found;
  if (!find(reinterpret_cast<uintptr_t>(memory), found) || !found.host) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  *out = static_cast<Pointer>(address);
  return *out == address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <class Pointer, class Size>
CUresult address_range(Pointer* base, Size* bytes, uintptr_t pointer) {
  Found found;
  if (!find(pointer, found) || found.host) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = static_cast<Pointer>(found.base);
  if (bytes != nullptr) *bytes = static_cast<Size>(found.bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  return in_context_unsafe(
      __func__, [&](Context& context) { return allocate_into(context, out, bytes, Kind::device); });
}

CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned int bytes) {
  return in_context_unsafe(
      __func__, [&](Context& context) { return allocate_into(context, out, bytes, Kind::below_4gib); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  return in_context_unsafe(__func__, [&](Context& context) {
    return allocate_pitched(context, out, pitch, width, height, element, Kind::device);
  });
}

CUresult cuMemAllocPitch(CUdeviceptr_v1* out, unsigned int* pitch, unsigned int width, unsigned int height,
                         unsigned int element) {
  return in_context_unsafe(__func__, [&](Context& context) {
    return allocate_pitched(context, out, pitch, width, height, element, Kind::below_4gib);
  });
}

// Lives on the GPU of the current context from the first moment, as far as that has room; the host reads and
// writes it in place.
CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  return in_context_unsafe(__func__, [&](Context& context) {
    const unsigned attach = flags & ~static_cast<unsigned>(CU_MEM_ATTACH_SINGLE);
    if (attach != CU_MEM_ATTACH_GLOBAL && attach != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    return allocate_into(context, out, bytes, Kind::managed);
  });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return in_context_unsafe(__func__, [&](Context&) { return free_memory(pointer); });
}

CUresult cuMemFree(CUdeviceptr_v1 pointer) {
  return in_context_unsafe(__func__, [&](Context&) { return free_memory(pointer); });
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context(__func__, [&](Context& context) { return memory_info(context, free, total); });
}

CUresult cuMemGetInfo(unsigned int* free, unsigned int* total) {
  return in_context(__func__, [&](Context& context) { return memory_info(context, free, total); });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  return in_context(__func__, [&](Context&) { return address_range(base, bytes, pointer); });
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1* base, unsigned int* bytes, CUdeviceptr_v1 pointer) {
  return in_context(__func__, [&](Context&) { return address_range(base, bytes, pointer); });
}

// ---- Page-locked host memory ----

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return in_context_unsafe(__func__, [&](Context& context) { return host_allocate(context, out, bytes, 0); });
}

CUresult cuMemAllocHost(void** out, unsigned int bytes) {
  return in_context_unsafe(__func__, [&](Context& context) { return host_allocate(context, out, bytes, 0); });
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return in_context_unsafe(__func__,
                           [&](Context& context) { return host_allocate(context, out, bytes, flags); });
}

CUresult cuMemFreeHost(void* memory) {
  return in_context_unsafe(__func__, [&](Context&) {
    if (memory == nullptr) return CUDA_SUCCESS;
    synchronise_all();
    std::lock_guard<std::mutex> held(driver().host_lock);
    auto it = driver().host_ranges.find(reinterpret_cast<uintptr_t>(memory));
    if (it == driver().host_ranges.end() || it->second.registered) return CUDA_ERROR_INVALID_VALUE;
    munmap(memory, it->second.bytes);
    driver().host_ranges.erase(it);
    ++driver().host_changes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned int flags) {
  return in_context_unsafe(__func__,
                           [&](Context& context) { return host_register(context, memory, bytes, flags); });
}

CUresult cuMemHostRegister(void* memory, size_t bytes, unsigned int flags) {
  return in_context_unsafe(__func__,
                           [&](Context& context) { return host_register(context, memory, bytes, flags); });
}

CUresult cuMemHostUnregister(void* memory) {
  return in_context_unsafe(__func__, [&](Context&) {
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    synchronise_all();
    std::lock_guard<std::mutex> held(driver().host_lock);
    auto it = driver().host_ranges.find(reinterpret_cast<uintptr_t>(memory));
    if (it == driver().host_ranges.end() || !it->second.registered)
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    driver().host_ranges.erase(it);
    ++driver().host_changes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* memory, unsigned int flags) {
  return in_context(__func__, [&](Context&) { return host_device_pointer(out, memory, flags); });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1* out, void* memory, unsigned int flags) {
  return in_context(__func__, [&](Context&) { return host_device_pointer(out, memory, flags); });
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* memory) {
  return in_context(__func__, [&](Context&) {
    Found found;
    if (flags == nullptr || !find(reinterpret_cast<uintptr_t>(memory), found) || !found.host ||
        found.registered)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = found.host_flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}

// ---- What a pointer is ----

namespace {

CUresult pointer_attribute(void* data, CUpointer_attribute which, uintptr_t pointer, const Found& found) {
  auto store = [&](auto value) {
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  // clang-format off
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return store(reinterpret_cast<CUcontext>(found.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return store(static_cast<unsigned>(found.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return store(static_cast<CUdeviceptr>(pointer));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!found.host && !found.managed) return CUDA_ERROR_INVALID_VALUE;
      return store(reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return CUDA_ERROR_NOT_SUPPORTED;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: {
      std::lock_guard<std::mutex> held(driver().host_lock);
      return store(static_cast<unsigned>(driver().sync_memops.count(found.id)));
    }
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return store(static_cast<unsigned long long>(found.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return store(static_cast<unsigned>(found.managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return store(found.device->ordinal);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return store(static_cast<unsigned>(exportable(found)));
    // "The mappable address range": of mapped memory that is the reservation.
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return store(static_cast<CUdeviceptr>(found.mapped ? found.range : found.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return store(static_cast<size_t>(found.mapped ? found.range_bytes : found.bytes));
    case CU_POINTER_ATTRIBUTE_MAPPED: return store(1u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return store(static_cast<unsigned long long>(found.handle_types));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return store(0u);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return store(static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return store(reinterpret_cast<CUmemoryPool>(found.pool));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return store(static_cast<size_t>(found.bytes));
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return store(static_cast<CUdeviceptr>(found.base));
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return store(static_cast<unsigned long long>(found.id));
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return store(0u);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  // clang-format on
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr pointer) {
  return initialised(__func__, [&] {
    Found found;
    if (data == nullptr || !find(pointer, found)) return CUDA_ERROR_INVALID_VALUE;
    // "If there exists no device pointer value through which kernels running in the current CUcontext may
    // access ptr then CUDA_ERROR_INVALID_VALUE is returned."
    Context* current = current_context();
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && current != nullptr && !may_touch(*current, pointer))
      return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(data, which, pointer, found);
  });
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* which, void** data,
                                CUdeviceptr pointer) {
  return initialised(__func__, [&] {
    if (which == nullptr || data == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    Found found;
    const bool known = find(pointer, found);
    for (unsigned i = 0; i < count; ++i) {
      if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      if (known && pointer_attribute(data[i], which[i], pointer, found) == CUDA_SUCCESS) continue;
      // Unlike the single call this one succeeds for an unknown pointer, with zeros: a device ordinal of -2
      // (CU_DEVICE_INVALID), everything else NULL or 0.
      switch (which[i]) {
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          *static_cast<int*>(data[i]) = CU_DEVICE_INVALID;
          break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
          *static_cast<unsigned*>(data[i]) = 0;
          break;
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
          break;
        default:
          *static_cast<uint64_t*>(data[i]) = 0;
      }
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr pointer) {
  return initialised(__func__, [&] {
    Found found;
    if (value == nullptr || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !find(pointer, found))
      return CUDA_ERROR_INVALID_VALUE;
    // Copies that this would change are those between devices, which no program can tell from slow ones.
    std::lock_guard<std::mutex> held(driver().host_lock);
    if (*static_cast<const unsigned*>(value) != 0)
      driver().sync_memops.insert(found.id);
    else
      driver().sync_memops.erase(found.id);
    return CUDA_SUCCESS;
  });
}
