// Peer access: which GPUs reach each other (the machine says), which contexts were told to, and what follows
// for memory. Lock order: peer_lock, then one device's lock or host_lock.
#include <algorithm>

#include "access.h"
#include "array.h"
#include "driver.h"
#include "graph_memory.h"
#include "ipc.h"
#include "pool.h"
#include "vmm.h"

namespace gpufence::sim {
namespace {

bool reaches(const Context& context, const Context* owner) {
  return owner == &context ||
         std::find(context.peers.begin(), context.peers.end(), owner) != context.peers.end();
}

void add_blocks(Context& owner, bool managed_only, std::vector<ptx::Region>& regions) {
  std::lock_guard<std::mutex> held(owner.device->lock);
  for (const Block* block = owner.blocks; block != nullptr; block = block->context_next)
    if (!managed_only || block->managed)
      regions.push_back({block->address, block->address + block->granules * Heap::kGranule, true});
}

}  // namespace

bool can_access_peer(const Device& device, const Device& peer) {
  return &device != &peer && !peer.gpu->is_instance() && (device.gpu->peers >> peer.host_index & 1) != 0;
}

void forget_peers_of(Context& context) {
  std::lock_guard<std::mutex> held(driver().peer_lock);
  context.peers.clear();
  ++context.peer_changes;
  driver().contexts.each_live([&](Context* other) {
    const auto it = std::find(other->peers.begin(), other->peers.end(), &context);
    if (it == other->peers.end()) return;
    other->peers.erase(it);
    ++other->peer_changes;
  });
}

bool may_touch(Context& context, uintptr_t address) {
  Found found;
  if (!find(address, found)) return false;
  if (found.mapped) return mapped_for(context.device, address);
  if (found.pool != nullptr) return may_touch(*found.pool, context);
  if (found.graph) return may_touch_graph_memory(context.device, address);
  if (found.host || found.managed || found.context == &context) return true;
  std::lock_guard<std::mutex> held(driver().peer_lock);
  return reaches(context, found.context);
}

std::vector<ptx::Region> regions_of(Context& context) {
  std::vector<ptx::Region> regions;
  {
    std::lock_guard<std::mutex> held(driver().peer_lock);
    driver().contexts.each_live([&](Context* owner) {
      if (!owner->active) return;
      if (reaches(context, owner)) {
        add_blocks(*owner, false, regions);
        add_imported_regions(*owner, regions);
      } else if (owner->managed_blocks.load() != 0) {
        add_blocks(*owner, true, regions);
      }
    });
  }
  add_pool_regions(context, regions);
  add_mapped_regions(context, regions);
  add_array_regions(context, regions);
  add_graph_regions(context, regions);
  std::lock_guard<std::mutex> held(driver().host_lock);
  for (const auto& [address, range] : driver().host_ranges)
    regions.push_back({address, address + range.bytes,
                       !range.registered || (range.flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0});
  return regions;
}

AccessVersion access_version(Context& context) {
  // Both only grow, and the sum is over the same contexts while the first stays.
  AccessVersion version;
  std::lock_guard<std::mutex> held(driver().peer_lock);
  version.peer_changes = context.peer_changes;
  version.memory_changes = context.memory_changes.load() + driver().host_changes.load() +
                           driver().managed_changes.load() + pool_changes() + mapping_changes() +
                           graph_memory_changes();
  for (const Context* peer : context.peers) version.memory_changes += peer->memory_changes.load();
  return version;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

template <class Body>
CUresult with_devices(const char* name, CUdevice one, CUdevice other, Body&& body) {
  return initialised(name, [&] {
    const Device *first = driver().device(one), *second = driver().device(other);
    return first == nullptr || second == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(*first, *second);
  });
}

}  // namespace

namespace {

// Over NVLink, not over PCI Express.
bool native_atomics(const Device& device, const Device& peer) {
  return can_access_peer(device, peer) && device.gpu->nvlink && peer.gpu->nvlink;
}

}  // namespace

CUresult cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer_ordinal) {
  return with_devices(__func__, ordinal, peer_ordinal, [&](const Device& device, const Device& peer) {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *can = can_access_peer(device, peer) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice from, CUdevice to) {
  return with_devices(__func__, from, to, [&](const Device& device, const Device& peer) {
    if (&device == &peer) return CUDA_ERROR_INVALID_DEVICE;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
      case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
        *value = can_access_peer(device, peer) ? 1 : 0;
        return CUDA_SUCCESS;
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = native_atomics(device, peer) ? 1 : 0;
        return CUDA_SUCCESS;
      case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:             // all links are alike
      case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:  // textures see arrays of their own context
      case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

namespace {

// What a link does natively: over NVLink all of it that the PTX ISA has for words in memory of a peer; over
// PCI Express nothing.
template <class Ask>
CUresult atomics(unsigned* out, const CUatomicOperation* operations, unsigned count, Ask ask) {
  if (out == nullptr || operations == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    if (operations[i] < CU_ATOMIC_OPERATION_INTEGER_ADD || operations[i] >= CU_ATOMIC_OPERATION_MAX)
      return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) out[i] = ask(operations[i]);
  return CUDA_SUCCESS;
}

unsigned over_nvlink(CUatomicOperation operation) {
  constexpr unsigned kBoth = CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64;
  constexpr unsigned kSigns = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED;
  constexpr unsigned kReduction = CU_ATOMIC_CAPABILITY_REDUCTION;
  switch (operation) {
    case CU_ATOMIC_OPERATION_INTEGER_ADD:
    case CU_ATOMIC_OPERATION_INTEGER_MIN:
    case CU_ATOMIC_OPERATION_INTEGER_MAX:
      return kSigns | kReduction | kBoth;
    case CU_ATOMIC_OPERATION_INTEGER_INCREMENT:
    case CU_ATOMIC_OPERATION_INTEGER_DECREMENT:
      return CU_ATOMIC_CAPABILITY_UNSIGNED | kReduction | CU_ATOMIC_CAPABILITY_SCALAR_32;
    case CU_ATOMIC_OPERATION_AND:
    case CU_ATOMIC_OPERATION_OR:
    case CU_ATOMIC_OPERATION_XOR:
      return CU_ATOMIC_CAPABILITY_UNSIGNED | kReduction | kBoth;
    case CU_ATOMIC_OPERATION_EXCHANGE:
    case CU_ATOMIC_OPERATION_CAS:
      return CU_ATOMIC_CAPABILITY_UNSIGNED | kBoth;
    case CU_ATOMIC_OPERATION_FLOAT_ADD:
      return CU_ATOMIC_CAPABILITY_SIGNED | kReduction | kBoth;
    default:  // minima and maxima of floats are done by compare and swap
      return 0;
  }
}

}  // namespace

// CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED is 0.
CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* out, const CUatomicOperation* operations,
                                           unsigned int count, CUdevice ordinal) {
  return initialised(__func__, [&] {
    if (driver().device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    return atomics(out, operations, count, [](CUatomicOperation) { return 0u; });
  });
}
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int* out, const CUatomicOperation* operations,
                                          unsigned int count, CUdevice from, CUdevice to) {
  return with_devices(__func__, from, to, [&](const Device& device, const Device& peer) {
    if (&device == &peer) return CUDA_ERROR_INVALID_DEVICE;
    return atomics(out, operations, count, [&](CUatomicOperation operation) {
      return native_atomics(device, peer) ? over_nvlink(operation) : 0u;
    });
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  return in_context(__func__, [&](Context& context) {
    Context* peer = driver().contexts.check(handle);
    if (peer == nullptr || peer == &context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!peer->active) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult fault = peer->fault; fault != CUDA_SUCCESS) return fault;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!can_access_peer(*context.device, *peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    std::lock_guard<std::mutex> held(driver().peer_lock);
    if (reaches(context, peer)) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context.peers.push_back(peer);
    ++context.peer_changes;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  return in_context(__func__, [&](Context& context) {
    Context* peer = driver().contexts.check(handle);
    if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard<std::mutex> held(driver().peer_lock);
    const auto it = std::find(context.peers.begin(), context.peers.end(), peer);
    if (it == context.peers.end()) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context.peers.erase(it);
    ++context.peer_changes;
    return CUDA_SUCCESS;
  });
}
