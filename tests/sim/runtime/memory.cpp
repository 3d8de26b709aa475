// The memory chapter of the runtime API: allocation, freeing, host memory, and what a pointer is. Each call
// is the one driver call that the genuine runtime makes for it (facts/cuda-runtime.md), so that a fence at
// the driver level sees what it would see on a real machine.
#include "tests/sim/driver/checked.h"
#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

namespace {

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// The two interfaces number locations, advice and attributes alike.
CUmemLocation place(cudaMemLocation location) {
  return {static_cast<CUmemLocationType>(location.type), location.id};
}

static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
CUmemLocation* places(cudaMemLocation* locations) {
  return reinterpret_cast<CUmemLocation*>(locations);
}
CUdeviceptr* addresses(void** pointers) {
  return reinterpret_cast<CUdeviceptr*>(pointers);
}

// Any element size that the driver takes gives the same pitch for linear copies.
constexpr unsigned int kPitchElementBytes = 4;

cudaError_t malloc_pitch(const Driver& driver, void** out, size_t* pitch, size_t width, size_t height) {
  if (out == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
  if (width == 0 || height == 0) {
    *out = nullptr;
    *pitch = 0;
    return cudaSuccess;
  }
  CUdeviceptr made = 0;
  const CUresult got = driver.cuMemAllocPitch_v2(&made, pitch, width, height, kPitchElementBytes);
  if (got == CUDA_SUCCESS) *out = pointer(made);
  return from_driver(got);
}

cudaError_t host_alloc(void** out, size_t size, unsigned int flags) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    if (size == 0) {
      *out = nullptr;
      return cudaSuccess;
    }
    return from_driver(driver.cuMemHostAlloc(out, size, flags));
  });
}

}  // namespace

cudaError_t cudaMalloc(void** out, size_t size) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    if (size == 0) {  // success and a null pointer here; the driver would refuse it
      *out = nullptr;
      return cudaSuccess;
    }
    CUdeviceptr made = 0;
    const CUresult got = driver.cuMemAlloc_v2(&made, size);
    if (got == CUDA_SUCCESS) *out = pointer(made);
    return from_driver(got);
  });
}

// cudaFree(0) is how programs initialise CUDA: the context comes to be all the same.
cudaError_t cudaFree(void* memory) {
  return in_context([&](const Driver& driver) {
    return memory == nullptr ? CUDA_SUCCESS : driver.cuMemFree_v2(address(memory));
  });
}

cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  return in_context([&](const Driver& driver) { return malloc_pitch(driver, out, pitch, width, height); });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    void* made = nullptr;
    size_t pitch = 0;
    const auto rows = gpufence::sim::Checked(extent.height) * extent.depth;
    if (!rows.fits()) return cudaErrorMemoryAllocation;
    const cudaError_t got = malloc_pitch(driver, &made, &pitch, extent.width, rows.value());
    if (got == cudaSuccess) *out = {made, pitch, extent.width, extent.height};
    return got;
  });
}

cudaError_t cudaMallocManaged(void** out, size_t size, unsigned int flags) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr made = 0;
    const CUresult got = driver.cuMemAllocManaged(&made, size, flags);
    if (got == CUDA_SUCCESS) *out = pointer(made);
    return from_driver(got);
  });
}

cudaError_t cudaMemAdvise(const void* memory, size_t count, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemAdvise_v2(address(memory), count, static_cast<CUmem_advise>(advice), place(location));
  });
}
cudaError_t cudaMemPrefetchAsync(const void* memory, size_t count, cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemPrefetchAsync_v2(address(memory), count, place(location), flags, stream);
  });
}
cudaError_t cudaMemPrefetchAsync_ptsz(const void* memory, size_t count, cudaMemLocation location,
                                      unsigned int flags, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemPrefetchAsync_v2_ptsz(address(memory), count, place(location), flags, stream);
  });
}
cudaError_t cudaMemPrefetchBatchAsync(void** memory, size_t* sizes, size_t count, cudaMemLocation* locations,
                                      size_t* first_of, size_t location_count, unsigned long long flags,
                                      cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemPrefetchBatchAsync(addresses(memory), sizes, count, places(locations), first_of,
                                          location_count, flags, stream);
  });
}
cudaError_t cudaMemDiscardBatchAsync(void** memory, size_t* sizes, size_t count, unsigned long long flags,
                                     cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemDiscardBatchAsync(addresses(memory), sizes, count, flags, stream);
  });
}
cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void** memory, size_t* sizes, size_t count,
                                                cudaMemLocation* locations, size_t* first_of,
                                                size_t location_count, unsigned long long flags,
                                                cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemDiscardAndPrefetchBatchAsync(addresses(memory), sizes, count, places(locations),
                                                    first_of, location_count, flags, stream);
  });
}
cudaError_t cudaMemPrefetchBatchAsync_ptsz(void** memory, size_t* sizes, size_t count,
                                           cudaMemLocation* locations, size_t* first_of,
                                           size_t location_count, unsigned long long flags,
                                           cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemPrefetchBatchAsync_ptsz(addresses(memory), sizes, count, places(locations), first_of,
                                               location_count, flags, stream);
  });
}
cudaError_t cudaMemDiscardBatchAsync_ptsz(void** memory, size_t* sizes, size_t count,
                                          unsigned long long flags, cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemDiscardBatchAsync_ptsz(addresses(memory), sizes, count, flags, stream);
  });
}
cudaError_t cudaMemDiscardAndPrefetchBatchAsync_ptsz(void** memory, size_t* sizes, size_t count,
                                                     cudaMemLocation* locations, size_t* first_of,
                                                     size_t location_count, unsigned long long flags,
                                                     cudaStream_t stream) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemDiscardAndPrefetchBatchAsync_ptsz(addresses(memory), sizes, count, places(locations),
                                                         first_of, location_count, flags, stream);
  });
}
cudaError_t cudaMemRangeGetAttribute(void* data, size_t bytes, cudaMemRangeAttribute which,
                                     const void* memory, size_t count) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemRangeGetAttribute(data, bytes, static_cast<CUmem_range_attribute>(which),
                                         address(memory), count);
  });
}
cudaError_t cudaMemRangeGetAttributes(void** data, size_t* bytes, cudaMemRangeAttribute* which, size_t number,
                                      const void* memory, size_t count) {
  return in_context([&](const Driver& driver) {
    return driver.cuMemRangeGetAttributes(data, bytes, reinterpret_cast<CUmem_range_attribute*>(which),
                                          number, address(memory), count);
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return in_context([&](const Driver& driver) { return driver.cuMemGetInfo_v2(free, total); });
}

cudaError_t cudaHostAlloc(void** out, size_t size, unsigned int flags) {
  return host_alloc(out, size, flags);
}
cudaError_t cudaMallocHost(void** out, size_t size) {
  return host_alloc(out, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
  return in_context(
      [&](const Driver& driver) { return memory == nullptr ? CUDA_SUCCESS : driver.cuMemFreeHost(memory); });
}

cudaError_t cudaHostRegister(void* memory, size_t size, unsigned int flags) {
  return in_context([&](const Driver& driver) { return driver.cuMemHostRegister_v2(memory, size, flags); });
}

cudaError_t cudaHostUnregister(void* memory) {
  return in_context([&](const Driver& driver) { return driver.cuMemHostUnregister(memory); });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* host, unsigned int flags) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr seen = 0;
    const CUresult got = driver.cuMemHostGetDevicePointer_v2(&seen, host, flags);
    if (got == CUDA_SUCCESS) *out = pointer(seen);
    return from_driver(got);
  });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* host) {
  return in_context([&](const Driver& driver) { return driver.cuMemHostGetFlags(flags, host); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* asked) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    // The plural call answers zeroes, and success, for a pointer that CUDA knows nothing of.
    unsigned int type = 0;
    unsigned int managed = 0;
    int device = -2;
    void* on_device = nullptr;
    void* on_host = nullptr;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &managed, &device, &on_device, &on_host};
    const CUresult got = runtime.driver().cuPointerGetAttributes(5, which, values, address(asked));
    if (got != CUDA_SUCCESS) return from_driver(got);
    *out = {};
    if (type == 0) {
      out->type = cudaMemoryTypeUnregistered;
      out->device = -2;
      out->hostPointer = const_cast<void*>(asked);
      return cudaSuccess;
    }
    out->type = managed != 0                 ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                             : cudaMemoryTypeDevice;
    out->device = runtime.ordinal(device);
    out->devicePointer = on_device;
    out->hostPointer = on_host;
    return cudaSuccess;
  });
}
