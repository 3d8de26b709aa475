// Memory pools of the runtime API: each is the driver's call of the same name, whose handles and structures
// it shares.
#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

// The two interfaces lay these out alike.
static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));

namespace {

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

template <class Make>
cudaError_t made(void** out, Make make) {
  if (out == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr memory = 0;
  const CUresult result = make(&memory);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(memory);
  return from_driver(result);
}

// For a call with one of the runtime's ordinals.
template <class Body>
cudaError_t on_device(int ordinal, Body body) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(ordinal)) return cudaErrorInvalidDevice;
    return from_driver(body(runtime.driver(), runtime.handle(ordinal)));
  });
}

template <class Body>
cudaError_t with_driver(Body body) {
  return started([&](Runtime& runtime) { return body(runtime.driver()); });
}

CUmemLocation* place(cudaMemLocation* location) {
  return reinterpret_cast<CUmemLocation*>(location);
}
CUmemAllocationType kind(cudaMemAllocationType type) {
  return static_cast<CUmemAllocationType>(type);
}

}  // namespace

cudaError_t cudaMallocAsync(void** out, size_t size, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return made(out, [&](CUdeviceptr* memory) { return driver.cuMemAllocAsync(memory, size, stream); });
  });
}
cudaError_t cudaMallocAsync_ptsz(void** out, size_t size, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return made(out, [&](CUdeviceptr* memory) { return driver.cuMemAllocAsync_ptsz(memory, size, stream); });
  });
}
cudaError_t cudaMallocFromPoolAsync(void** out, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return made(
        out, [&](CUdeviceptr* memory) { return driver.cuMemAllocFromPoolAsync(memory, size, pool, stream); });
  });
}
cudaError_t cudaMallocFromPoolAsync_ptsz(void** out, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return made(out, [&](CUdeviceptr* memory) {
      return driver.cuMemAllocFromPoolAsync_ptsz(memory, size, pool, stream);
    });
  });
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return in_context([&](const Driver& driver) { return driver.cuMemFreeAsync(address(memory), stream); });
}
cudaError_t cudaFreeAsync_ptsz(void* memory, cudaStream_t stream) {
  return in_context(
      [&](const Driver& driver) { return driver.cuMemFreeAsync_ptsz(address(memory), stream); });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return on_device(device, [&](const Driver& driver, CUdevice handle) {
    return driver.cuDeviceGetDefaultMemPool(pool, handle);
  });
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return on_device(
      device, [&](const Driver& driver, CUdevice handle) { return driver.cuDeviceGetMemPool(pool, handle); });
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return on_device(
      device, [&](const Driver& driver, CUdevice handle) { return driver.cuDeviceSetMemPool(handle, pool); });
}
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                     cudaMemAllocationType type) {
  return with_driver(
      [&](const Driver& driver) { return driver.cuMemGetDefaultMemPool(pool, place(location), kind(type)); });
}
cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
  return with_driver(
      [&](const Driver& driver) { return driver.cuMemGetMemPool(pool, place(location), kind(type)); });
}
cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type, cudaMemPool_t pool) {
  return with_driver(
      [&](const Driver& driver) { return driver.cuMemSetMemPool(place(location), kind(type), pool); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(props));
  });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return with_driver([&](const Driver& driver) { return driver.cuMemPoolDestroy(pool); });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return with_driver([&](const Driver& driver) { return driver.cuMemPoolTrimTo(pool, keep); });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(which), value);
  });
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(which), value);
  });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* map, size_t count) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(map), count);
  });
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool, place(location));
  });
}
cudaError_t cudaMemPoolExportToShareableHandle(void* out, cudaMemPool_t pool,
                                               cudaMemAllocationHandleType type, unsigned int flags) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolExportToShareableHandle(out, pool, static_cast<CUmemAllocationHandleType>(type),
                                                   flags);
  });
}
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                 cudaMemAllocationHandleType type, unsigned int flags) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolImportFromShareableHandle(pool, handle,
                                                     static_cast<CUmemAllocationHandleType>(type), flags);
  });
}
cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* out, void* memory) {
  return with_driver([&](const Driver& driver) {
    return driver.cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(out), address(memory));
  });
}
cudaError_t cudaMemPoolImportPointer(void** out, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
  return with_driver([&](const Driver& driver) {
    return made(out, [&](CUdeviceptr* memory) {
      return driver.cuMemPoolImportPointer(memory, pool, reinterpret_cast<CUmemPoolPtrExportData*>(data));
    });
  });
}

// ---- What graphs allocate ----

cudaError_t cudaDeviceGraphMemTrim(int device) {
  return on_device(device,
                   [](const Driver& driver, CUdevice handle) { return driver.cuDeviceGraphMemTrim(handle); });
}
// The two interfaces number the attributes alike.
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void* value) {
  return on_device(device, [&](const Driver& driver, CUdevice handle) {
    return driver.cuDeviceGetGraphMemAttribute(handle, static_cast<CUgraphMem_attribute>(which), value);
  });
}
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType which, void* value) {
  return on_device(device, [&](const Driver& driver, CUdevice handle) {
    return driver.cuDeviceSetGraphMemAttribute(handle, static_cast<CUgraphMem_attribute>(which), value);
  });
}
