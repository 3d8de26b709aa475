// The chapter of stream-ordered memory. An allocation counts by what its pool reserves for it (stores.h);
// within a capture it is a node of a graph, and the graph's launch counts it (graph.cpp).
#include "hooks/finding.h"
#include "hooks/stores.h"

namespace gpufence::hooks {
namespace {

USES(cuDeviceGetMemPool);
USES(cuDeviceGetDefaultMemPool);
USES(cuStreamIsCapturing);
USES(cuStreamIsCapturing_ptsz);

constexpr unsigned kNeeds = dispatch::kMemory;

bool captures(CUstream stream, bool per_thread) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = per_thread ? real<&::cuStreamIsCapturing_ptsz>(stream, &status)
                                     : real<&::cuStreamIsCapturing>(stream, &status);
  return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The store of the pool that an allocation in this stream comes from.
Store* current_store(Visible& seen, CUstream stream) noexcept {
  int device = 0;
  if (seen.devices.size() > 1) {
    device = place_of_stream(stream).device;
    if (device < 0) device = current_device();
  }
  CUmemoryPool pool = nullptr;
  if (!seen.has(device) || real<&::cuDeviceGetMemPool>(&pool, device) != CUDA_SUCCESS) return nullptr;
  Store* known = Stores::get().of_pool(pool);
  return known != nullptr ? known : Stores::get().add_pool(pool, static_cast<std::uint32_t>(device));
}

// A pool that was neither made here nor is a device's own is another process's, or the host's.
Store* store_of(Visible& seen, CUmemoryPool pool) noexcept {
  if (Store* known = Stores::get().of_pool(pool)) return known;
  for (const observe::Device& device : seen.devices) {
    CUmemoryPool own = nullptr;
    if (real<&::cuDeviceGetDefaultMemPool>(&own, device.ordinal) == CUDA_SUCCESS && own == pool)
      return Stores::get().add_pool(pool, static_cast<std::uint32_t>(device.ordinal));
  }
  return nullptr;
}

// `undo` frees what `allocate` gave, and waits for that.
template <class Find, class Allocate, class Undo>
CUresult allocated(CUdeviceptr* out, std::size_t bytes, CUstream stream, bool per_thread, const char* api,
                   const void* caller, Find find, Allocate allocate, Undo undo) noexcept {
  Visible* seen = visible();
  if (seen == nullptr || out == nullptr || bytes == 0 || captures(stream, per_thread)) return allocate();
  Store* store = find(*seen);
  if (store == nullptr) return allocate();
  const observe::Call made = observe::current(api, caller);
  const CUresult result = store->grown(*seen, bytes, made, allocate, undo);
  // Who frees it need not know the pool; and the pool may be destroyed before.
  if (result == CUDA_SUCCESS && seen->ledger->remember(*out, {store->row(), 0, store->tag(), 0, made.caller}))
    store->one_more();
  return result;
}

}  // namespace

#define ALLOC_ASYNC(suffix, per_thread)                                                              \
  static bool take_back##suffix(CUdeviceptr memory, CUstream stream) noexcept {                      \
    real<&::cuMemFreeAsync##suffix>(memory, stream);                                                 \
    real<&::cuStreamSynchronize##suffix>(stream);                                                    \
    return true;                                                                                     \
  }                                                                                                  \
  HOOK(cuMemAllocAsync##suffix, kNeeds, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream)) {   \
    return allocated(                                                                                \
        dptr, bytesize, hStream, per_thread, "cuMemAllocAsync", __builtin_return_address(0),         \
        [&](Visible& seen) { return current_store(seen, hStream); },                                 \
        [&] { return real<&::cuMemAllocAsync##suffix>(dptr, bytesize, hStream); },                   \
        [&] { return take_back##suffix(*dptr, hStream); });                                          \
  }                                                                                                  \
  HOOK(cuMemAllocFromPoolAsync##suffix, kNeeds,                                                      \
       (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)) {                 \
    return allocated(                                                                                \
        dptr, bytesize, hStream, per_thread, "cuMemAllocFromPoolAsync", __builtin_return_address(0), \
        [&](Visible& seen) { return store_of(seen, pool); },                                         \
        [&] { return real<&::cuMemAllocFromPoolAsync##suffix>(dptr, bytesize, pool, hStream); },     \
        [&] { return take_back##suffix(*dptr, hStream); });                                          \
  }
ALLOC_ASYNC(, false)
ALLOC_ASYNC(_ptsz, true)
#undef ALLOC_ASYNC

HOOK(cuMemPoolCreate, kNeeds, (CUmemoryPool * pool, const CUmemPoolProps* poolProps)) {
  const CUresult result = real<&::cuMemPoolCreate>(pool, poolProps);
  const Visible* seen = visible();
  if (result == CUDA_SUCCESS && seen != nullptr && poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
      seen->has(poolProps->location.id))
    Stores::get().add_pool(*pool, static_cast<std::uint32_t>(poolProps->location.id));
  return result;
}

HOOK(cuMemPoolDestroy, kNeeds, (CUmemoryPool pool)) {
  Visible* seen = visible();
  Store* store = seen != nullptr ? Stores::get().of_pool(pool) : nullptr;
  const CUresult result = real<&::cuMemPoolDestroy>(pool);
  if (store != nullptr && result == CUDA_SUCCESS) Stores::get().remove_pool(pool, !store->gone(*seen));
  return result;
}

HOOK(cuMemPoolTrimTo, kNeeds, (CUmemoryPool pool, size_t minBytesToKeep)) {
  const CUresult result = real<&::cuMemPoolTrimTo>(pool, minBytesToKeep);
  Visible* seen = visible();
  if (Store* store = seen != nullptr ? Stores::get().of_pool(pool) : nullptr) store->look(*seen);
  return result;
}

}  // namespace gpufence::hooks
