// The device chapter of the runtime API. Count and properties were cached at the start; ordinals are checked
// here, so an ordinal that does not exist never reaches the driver.
#include "tests/sim/runtime/runtime.h"

#include <string.h>

#include <atomic>

using namespace gpufence::sim::runtime;

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return note(cudaErrorInvalidValue);
  *count = 0;
  return started([&](Runtime& runtime) {
    *count = runtime.count();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return started(
      [&](Runtime& runtime) { return runtime.valid(device) ? runtime.use(device) : cudaErrorInvalidDevice; });
}

cudaError_t cudaSetValidDevices(int* devices, int count) {
  return started([&](Runtime& runtime) {
    if (count < 0 || count > runtime.count() || (count != 0 && devices == nullptr))
      return cudaErrorInvalidValue;
    for (int i = 0; i < count; ++i)
      if (!runtime.valid(devices[i])) return cudaErrorInvalidDevice;
    runtime.try_in_order({devices, devices + count});
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return started([&](Runtime& runtime) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = runtime.current_ordinal();
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    if ((flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) != 0) return cudaErrorInvalidValue;
    if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
      const CUresult set = runtime.driver().cuDevicePrimaryCtxSetFlags(runtime.handle(device), device_flags);
      if (set != CUDA_SUCCESS) return from_driver(set);
    }
    CUcontext context = nullptr;
    return runtime.primary(device, &context);
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return started([&](Runtime& runtime) {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    *properties = runtime.properties(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    // The two enumerations share their numbers.
    return from_driver(runtime.driver().cuDeviceGetAttribute(
        value, static_cast<CUdevice_attribute>(attribute), runtime.handle(device)));
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    return from_driver(runtime.driver().cuDeviceGetPCIBusId(id, length, runtime.handle(device)));
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (device == nullptr || id == nullptr) return cudaErrorInvalidValue;
    CUdevice handle = 0;
    if (const CUresult got = runtime.driver().cuDeviceGetByPCIBusId(&handle, id); got != CUDA_SUCCESS) {
      return from_driver(got);
    }
    *device = runtime.ordinal(handle);
    return cudaSuccess;
  });
}

// "Best matches" is not defined by NVIDIA beyond that: the device that meets most of what was asked for, and
// of equals the first.
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  return started([&](Runtime& runtime) {
    if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
    int best = -1;
    for (int ordinal = 0; ordinal < runtime.count(); ++ordinal) {
      const cudaDeviceProp& has = runtime.properties(ordinal);
      const bool capable =
          has.major > wanted->major || (has.major == wanted->major && has.minor >= wanted->minor);
      const int score = (wanted->name[0] != '\0' && strcmp(has.name, wanted->name) == 0 ? 4 : 0) +
                        (capable ? 2 : 0) + (has.totalGlobalMem >= wanted->totalGlobalMem ? 1 : 0) +
                        (has.multiProcessorCount >= wanted->multiProcessorCount ? 1 : 0);
      if (score > best) {
        best = score;
        *device = ordinal;
      }
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return in_context([](const Driver& driver) { return driver.cuCtxSynchronize_v2(nullptr); });
}

cudaError_t cudaDeviceReset() {
  return started([](Runtime& runtime) {
    const cudaError_t reset = runtime.reset(runtime.current_ordinal());
    if (reset == cudaSuccess) let_faults_go();
    return reset;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return started([&](Runtime& runtime) {
    return runtime.driver().cuDevicePrimaryCtxSetFlags(runtime.handle(runtime.current_ordinal()), flags);
  });
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (flags == nullptr) return cudaErrorInvalidValue;
    int active = 0;
    return from_driver(runtime.driver().cuDevicePrimaryCtxGetState(runtime.handle(runtime.current_ordinal()),
                                                                   flags, &active));
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return in_context(
      [&](const Driver& driver) { return driver.cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return in_context(
      [&](const Driver& driver) { return driver.cuCtxGetLimit(value, static_cast<CUlimit>(limit)); });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return in_context(
      [&](const Driver& driver) { return driver.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)); });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (config == nullptr) return cudaErrorInvalidValue;
    CUfunc_cache told = CU_FUNC_CACHE_PREFER_NONE;
    const CUresult got = driver.cuCtxGetCacheConfig(&told);
    if (got == CUDA_SUCCESS) *config = static_cast<cudaFuncCache>(told);
    return from_driver(got);
  });
}

cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config) {
  return in_context([&](const Driver& driver) {
    return driver.cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(config));
  });
}

cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (config == nullptr) return cudaErrorInvalidValue;
    CUsharedconfig told = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
    const CUresult got = driver.cuCtxGetSharedMemConfig(&told);
    if (got == CUDA_SUCCESS) *config = static_cast<cudaSharedMemConfig>(told);
    return from_driver(got);
  });
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  return in_context([](const Driver& driver) { return driver.cuCtxResetPersistingL2Cache(); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return in_context(
      [&](const Driver& driver) { return driver.cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(device) || !runtime.valid(peer)) return cudaErrorInvalidDevice;
    return from_driver(
        runtime.driver().cuDeviceCanAccessPeer(can, runtime.handle(device), runtime.handle(peer)));
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int destination) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(source) || !runtime.valid(destination)) return cudaErrorInvalidDevice;
    return from_driver(
        runtime.driver().cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute),
                                                 runtime.handle(source), runtime.handle(destination)));
  });
}

cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned int* capabilities,
                                                const cudaAtomicOperation* operations, unsigned int count,
                                                int device) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    return from_driver(runtime.driver().cuDeviceGetHostAtomicCapabilities(
        capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, runtime.handle(device)));
  });
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned int* capabilities,
                                               const cudaAtomicOperation* operations, unsigned int count,
                                               int source, int destination) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(source) || !runtime.valid(destination)) return cudaErrorInvalidDevice;
    return from_driver(runtime.driver().cuDeviceGetP2PAtomicCapabilities(
        capabilities, reinterpret_cast<const CUatomicOperation*>(operations), count, runtime.handle(source),
        runtime.handle(destination)));
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(peer)) return cudaErrorInvalidDevice;
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    // "cudaErrorInvalidDevice if cudaDeviceCanAccessPeer() indicates that the current device cannot": where
    // the driver has a code of its own.
    int can = 0;
    const CUresult asked = runtime.driver().cuDeviceCanAccessPeer(
        &can, runtime.handle(runtime.current_ordinal()), runtime.handle(peer));
    if (asked != CUDA_SUCCESS) return from_driver(asked);
    if (can == 0) return cudaErrorInvalidDevice;
    CUcontext context = nullptr;
    if (const cudaError_t got = runtime.primary(peer, &context); got != cudaSuccess) return got;
    return from_driver(runtime.driver().cuCtxEnablePeerAccess(context, flags));
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(peer)) return cudaErrorInvalidDevice;
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    CUcontext context = nullptr;
    if (const cudaError_t got = runtime.primary(peer, &context); got != cudaSuccess) return got;
    return from_driver(runtime.driver().cuCtxDisablePeerAccess(context));
  });
}

// NVIDIA: "If no driver is installed then 0 is returned as the driver version", which is no error; nor is a
// driver that this runtime finds too old.
cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return note(cudaErrorInvalidValue);
  const Runtime& runtime = Runtime::get();
  *version = runtime.driver_version();
  return note(runtime.error() == cudaErrorSoftwareValidityNotEstablished ? runtime.error() : cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return note(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// Nothing profiles a simulated GPU: starting and stopping the profiler is as harmless as without one.
cudaError_t cudaProfilerStart() {
  return started([](Runtime&) { return cudaSuccess; });
}

cudaError_t cudaProfilerStop() {
  return started([](Runtime&) { return cudaSuccess; });
}
