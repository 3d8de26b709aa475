// See graph_memory.h.
#include "graph_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "graph.h"
#include "pool.h"
#include "ptx/run.h"

namespace gpufence::sim {
namespace {

// What a GPU has set aside for graphs, bytes. `used` is behind addresses; the rest is kept for the next.
struct Reserve {
  uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
};

// Leaked, as all state that exit handlers reach. Taken before a device's lock.
struct Memories {
  std::mutex lock;
  std::map<uintptr_t, GraphMemory*> all;  // until their end gets the lock
  std::map<uintptr_t, std::shared_ptr<GraphMemory>> live;
  std::map<const Device*, Reserve> reserves;
  std::atomic<bool> any{false};
  std::atomic<uint64_t> changes{0}, next_id{1};
};
Memories& table() {
  static auto* made = new Memories;
  return *made;
}

// ---- All with the lock held ----

bool take(Device& device, uint64_t bytes) {
  Reserve& reserve = table().reserves[&device];
  if (reserve.reserved - reserve.used < bytes) {
    // As pools take it, for the same reasons.
    const uint64_t missing = bytes - (reserve.reserved - reserve.used);
    uint64_t more = up_to(missing, Pool::kStep);
    if (!driver().occupancy.reserve(device.host_index, more)) {
      more = up_to(missing, Pool::kSmallStep);
      if (!driver().occupancy.reserve(device.host_index, more)) return false;
    }
    reserve.reserved += more;
    reserve.reserved_high = std::max(reserve.reserved_high, reserve.reserved);
  }
  reserve.used += bytes;
  reserve.used_high = std::max(reserve.used_high, reserve.used);
  return true;
}

void unback(GraphMemory& memory) {
  if (!memory.backed) return;
  memory.backed = false;
  table().reserves[memory.device].used -= memory.taken;
  ++table().changes;
}

void trim(Device& device) {
  for (auto& [address, memory] : table().all)
    if (memory->device == &device && !memory->live && memory->running == 0) unback(*memory);
  Reserve& reserve = table().reserves[&device];
  driver().occupancy.release(device.host_index, reserve.reserved - reserve.used);
  reserve.reserved = reserve.used;
}

// The allocation that covers the address, or nullptr.
GraphMemory* covering(uintptr_t address) {
  auto at = table().all.upper_bound(address);
  if (at == table().all.begin()) return nullptr;
  GraphMemory* memory = std::prev(at)->second;
  return address - memory->address < memory->bytes ? memory : nullptr;
}

CUmemAccess_flags access_from(const GraphMemory& memory, const Device* device) {
  if (memory.device == device) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto set = memory.access.find(device);
  return set != memory.access.end() ? set->second : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

}  // namespace

GraphMemory::~GraphMemory() {
  {
    std::lock_guard<std::mutex> held(table().lock);
    unback(*this);
    if (const auto known = table().all.find(address); known != table().all.end() && known->second == this)
      table().all.erase(known);
  }
  if (block == nullptr) return;
  std::lock_guard<std::mutex> held(device->lock);
  device->graph_heap.free(block);
}

std::shared_ptr<GraphMemory> plan_graph_memory(Device& device, uint64_t bytes) {
  auto memory = std::make_shared<GraphMemory>();
  memory->device = &device;
  memory->bytes = bytes;
  memory->taken = up_to(bytes, Pool::kPiece);
  memory->id = table().next_id++;
  {
    std::lock_guard<std::mutex> held(device.lock);
    memory->block = device.graph_heap.allocate(memory->taken, device.gpu->memory_bytes);
    if (memory->block == nullptr) return nullptr;
    memory->address = memory->block->address;
  }
  std::lock_guard<std::mutex> held(table().lock);
  table().all[memory->address] = memory.get();
  table().any = true;
  return memory;
}

std::shared_ptr<GraphMemory> graph_memory_at(uintptr_t address) {
  if (!table().any) return nullptr;
  std::lock_guard<std::mutex> held(table().lock);
  const auto found = table().all.find(address);
  return found != table().all.end() ? found->second->weak_from_this().lock() : nullptr;
}

bool in_graph_memory(uintptr_t address, uint64_t bytes) {
  if (!table().any) return false;
  std::lock_guard<std::mutex> held(table().lock);
  const GraphMemory* memory = covering(address);
  return memory != nullptr && bytes <= memory->bytes - (address - memory->address);
}

bool find_graph_memory(uintptr_t address, Found& found) {
  if (!table().any) return false;
  std::lock_guard<std::mutex> held(table().lock);
  const GraphMemory* memory = covering(address);
  if (memory == nullptr || !memory->live) return false;
  found = {};
  found.device = memory->device;
  found.base = memory->address;
  found.bytes = memory->bytes;
  found.id = memory->id << 7 | uint64_t{62} << 1;
  found.graph = true;
  return true;
}

CUresult back(const GraphMemories& memories) {
  std::lock_guard<std::mutex> held(table().lock);
  std::vector<GraphMemory*> fresh;
  for (const auto& memory : memories) {
    if (memory->backed) continue;
    if (!take(*memory->device, memory->taken)) {
      for (GraphMemory* taken : fresh) unback(*taken);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->backed = true;
    fresh.push_back(memory.get());
  }
  if (!fresh.empty()) ++table().changes;
  return CUDA_SUCCESS;
}

void count_exec(const GraphMemories& memories, int more) {
  std::lock_guard<std::mutex> held(table().lock);
  for (const auto& memory : memories) {
    memory->execs += static_cast<unsigned>(more);
    if (memory->execs == 0 && !memory->live && memory->running == 0) unback(*memory);
  }
}

bool any_live(const GraphMemories& memories) {
  std::lock_guard<std::mutex> held(table().lock);
  return std::any_of(memories.begin(), memories.end(), [](const auto& memory) { return memory->live; });
}

void set_live(const GraphMemories& memories) {
  std::lock_guard<std::mutex> held(table().lock);
  for (const auto& memory : memories) {
    memory->live = true;
    table().live[memory->address] = memory;
  }
}

bool free_graph_memory(uintptr_t address) {
  std::shared_ptr<GraphMemory> memory;  // let go without the lock, which its end takes
  std::lock_guard<std::mutex> held(table().lock);
  const auto found = table().live.find(address);
  if (found == table().live.end()) return false;
  memory = std::move(found->second);
  table().live.erase(found);
  memory->live = false;
  if (memory->execs == 0 && memory->running == 0) unback(*memory);
  return true;
}

RunningMemory::RunningMemory(GraphMemories memories) : memories_(std::move(memories)) {
  std::lock_guard<std::mutex> held(table().lock);
  for (const auto& memory : memories_) ++memory->running;
}

RunningMemory::~RunningMemory() {
  std::lock_guard<std::mutex> held(table().lock);
  for (const auto& memory : memories_)
    if (--memory->running == 0 && memory->execs == 0 && !memory->live) unback(*memory);
}

void add_graph_regions(const Context& context, std::vector<ptx::Region>& regions) {
  if (!table().any) return;
  std::lock_guard<std::mutex> held(table().lock);
  for (const auto& [address, memory] : table().all) {
    const CUmemAccess_flags access = access_from(*memory, context.device);
    if (memory->backed && access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      regions.push_back({address, address + memory->taken, access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
}

bool may_touch_graph_memory(const Device* device, uintptr_t address) {
  std::lock_guard<std::mutex> held(table().lock);
  const GraphMemory* memory = covering(address);
  return memory != nullptr && access_from(*memory, device) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

uint64_t graph_memory_changes() {
  return table().changes.load();
}

namespace {

template <class Body>
CUresult with_device(const char* name, CUdevice ordinal, Body&& body) {
  return initialised(name, [&] {
    Device* device = driver().device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard<std::mutex> held(table().lock);
    return body(*device);
  });
}

}  // namespace
}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
  return with_device(__func__, ordinal, [](Device& device) {
    trim(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute which, void* value) {
  return with_device(__func__, ordinal, [&](Device& device) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Reserve& reserve = table().reserves[&device];
    cuuint64_t told = 0;
    switch (which) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        told = reserve.used;
        break;
      case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        told = reserve.used_high;
        break;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        told = reserve.reserved;
        break;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        told = reserve.reserved_high;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(value, &told, sizeof told);
    return CUDA_SUCCESS;
  });
}

// "High watermark can only be reset to zero", after which it is what there is now.
CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute which, void* value) {
  return with_device(__func__, ordinal, [&](Device& device) {
    cuuint64_t given = 0;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&given, value, sizeof given);
    if (given != 0) return CUDA_ERROR_INVALID_VALUE;
    Reserve& reserve = table().reserves[&device];
    if (which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
      reserve.used_high = reserve.used;
    else if (which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
      reserve.reserved_high = reserve.reserved;
    else
      return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}
