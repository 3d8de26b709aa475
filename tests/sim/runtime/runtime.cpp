// Start, devices and primary contexts, with the driver calls of the genuine runtime in its order: version,
// cuInit, loading mode, count, then per device handle, name, total, attributes and UUID, all cached; a
// primary context is retained at the first use of its device and released from an exit handler.
#include "tests/sim/runtime/runtime.h"
#include "tests/sim/runtime/program.h"

#include <stdlib.h>
#include <string.h>

#include <utility>

namespace gpufence::sim::runtime {
namespace {

// Trivial on purpose: a thread_local with a destructor would be gone when exit handlers still call CUDA.
constinit thread_local int chosen_ordinal = -1;  // -1: none yet

Runtime* instance = nullptr;  // for the exit handler, which may run before or after anything else

}  // namespace

Runtime& Runtime::get() {
  static Runtime& runtime = []() -> Runtime& {
    auto* made = new Runtime;  // leaked on purpose, see runtime.h
    made->error_ = made->start();
    instance = made;
    // After the start, so that it runs before the callbacks of whoever was loaded on the way.
    atexit(&Runtime::release_all);
    return *made;
  }();
  return runtime;
}

cudaError_t Runtime::start() {
  if (const cudaError_t found = find_driver(driver_); found != cudaSuccess) return found;
  if (driver_.cuDriverGetVersion == nullptr || driver_.cuInit == nullptr) return cudaErrorInsufficientDriver;
  if (driver_.cuDriverGetVersion(&driver_version_) != CUDA_SUCCESS) return cudaErrorInsufficientDriver;
  if (driver_version_ < CUDART_VERSION) return cudaErrorInsufficientDriver;
  if (!complete(driver_)) return cudaErrorSharedObjectSymbolNotFound;

  if (const CUresult initialised = driver_.cuInit(0); initialised != CUDA_SUCCESS)
    return from_driver(initialised);
  CUmoduleLoadingMode mode = CU_MODULE_LAZY_LOADING;
  driver_.cuModuleGetLoadingMode(&mode);
  eager_ = mode == CU_MODULE_EAGER_LOADING;

  int count = 0;
  if (const CUresult counted = driver_.cuDeviceGetCount(&count); counted != CUDA_SUCCESS)
    return from_driver(counted);
  if (count == 0) return cudaErrorNoDevice;
  if (count > kMaxDevices) return cudaErrorInitializationError;
  count_ = count;
  for (int ordinal = 0; ordinal < count_; ++ordinal) {
    if (const cudaError_t described = describe(ordinal); described != cudaSuccess) return described;
  }
  return check_validity(*this);
}

cudaError_t Runtime::describe(int ordinal) {
  Device& device = devices_[ordinal];
  cudaDeviceProp& p = device.properties;
  if (const CUresult got = driver_.cuDeviceGet(&device.handle, ordinal); got != CUDA_SUCCESS)
    return from_driver(got);
  if (const CUresult got = driver_.cuDeviceGetName(p.name, sizeof p.name, device.handle);
      got != CUDA_SUCCESS) {
    return from_driver(got);
  }
  if (const CUresult got = driver_.cuDeviceTotalMem_v2(&p.totalGlobalMem, device.handle);
      got != CUDA_SUCCESS) {
    return from_driver(got);
  }
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;  // what a driver does not know reads as 0
    if (driver_.cuDeviceGetAttribute(&value, which, device.handle) != CUDA_SUCCESS) value = 0;
    return value;
  };
  p.sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p.regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p.warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p.memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  p.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p.maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  p.maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  p.maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  p.maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p.maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p.maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  p.totalConstMem = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  p.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p.textureAlignment = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  p.texturePitchAlignment = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  p.multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.integrated = attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED);
  p.canMapHostMemory = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  p.maxTexture1D = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
  p.maxTexture1DMipmap = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH);
  p.maxTexture2D[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
  p.maxTexture2D[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
  p.maxTexture2DMipmap[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH);
  p.maxTexture2DMipmap[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT);
  p.maxTexture2DLinear[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH);
  p.maxTexture2DLinear[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
  p.maxTexture2DLinear[2] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH);
  p.maxTexture2DGather[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH);
  p.maxTexture2DGather[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT);
  p.maxTexture3D[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH);
  p.maxTexture3D[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT);
  p.maxTexture3D[2] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH);
  p.maxTexture3DAlt[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE);
  p.maxTexture3DAlt[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE);
  p.maxTexture3DAlt[2] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE);
  p.maxTextureCubemap = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
  p.maxTexture1DLayered[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH);
  p.maxTexture1DLayered[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS);
  p.maxTexture2DLayered[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH);
  p.maxTexture2DLayered[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT);
  p.maxTexture2DLayered[2] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS);
  p.maxTextureCubemapLayered[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH);
  p.maxTextureCubemapLayered[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS);
  p.maxSurface1D = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH);
  p.maxSurface2D[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH);
  p.maxSurface2D[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT);
  p.maxSurface3D[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH);
  p.maxSurface3D[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT);
  p.maxSurface3D[2] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH);
  p.maxSurface1DLayered[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH);
  p.maxSurface1DLayered[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS);
  p.maxSurface2DLayered[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH);
  p.maxSurface2DLayered[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT);
  p.maxSurface2DLayered[2] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS);
  p.maxSurfaceCubemap = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH);
  p.maxSurfaceCubemapLayered[0] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH);
  p.maxSurfaceCubemapLayered[1] = attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS);
  p.surfaceAlignment = attribute(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  p.concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  p.ECCEnabled = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  p.pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  p.pciDeviceID = attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  p.pciDomainID = attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  p.tccDriver = attribute(CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
  p.asyncEngineCount = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  p.unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  p.memoryBusWidth = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  p.l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p.persistingL2CacheMaxSize = attribute(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  p.maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);

  if (const CUresult got = driver_.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&p.uuid), device.handle);
      got != CUDA_SUCCESS) {
    return from_driver(got);
  }

  p.streamPrioritiesSupported = attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  p.globalL1CacheSupported = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  p.localL1CacheSupported = attribute(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  p.sharedMemPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p.regsPerMultiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p.managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  p.isMultiGpuBoard = attribute(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
  p.multiGpuBoardGroupID = attribute(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
  p.hostNativeAtomicSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED);
  p.pageableMemoryAccess = attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  p.concurrentManagedAccess = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  p.computePreemptionSupported = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  p.canUseHostPointerForRegisteredMem =
      attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  p.cooperativeLaunch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  p.sharedMemPerBlockOptin = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.pageableMemoryAccessUsesHostPageTables =
      attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  p.directManagedMemAccessFromHost = attribute(CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  p.maxBlocksPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  p.accessPolicyMaxWindowSize = attribute(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
  p.reservedSharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  p.hostRegisterSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  p.sparseCudaArraySupported = attribute(CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED);
  p.hostRegisterReadOnlySupported = attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
  p.timelineSemaphoreInteropSupported = attribute(CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  p.memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  p.gpuDirectRDMASupported = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  p.gpuDirectRDMAFlushWritesOptions = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  p.gpuDirectRDMAWritesOrdering = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
  p.memoryPoolSupportedHandleTypes = attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  p.deferredMappingCudaArraySupported = attribute(CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
  p.ipcEventSupported = attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  p.clusterLaunch = attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  p.unifiedFunctionPointers = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
  p.deviceNumaConfig = attribute(CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
  p.deviceNumaId = attribute(CU_DEVICE_ATTRIBUTE_NUMA_ID);
  p.mpsEnabled = attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
  p.hostNumaId = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  p.gpuPciDeviceID = attribute(CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID);
  p.gpuPciSubsystemID = attribute(CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID);
  p.hostNumaMultinodeIpcSupported = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED);
  return cudaSuccess;
}

int Runtime::ordinal(CUdevice handle) const {
  for (int ordinal = 0; ordinal < count_; ++ordinal) {
    if (devices_[ordinal].handle == handle) return ordinal;
  }
  return -1;
}

// A primary context that this runtime reset is not to be worked in, though it may still be current somewhere;
// nor is one that another runtime of the process released, as a library's own does when that is closed.
bool Runtime::stale(CUcontext context) const {
  for (int ordinal = 0; ordinal < count_; ++ordinal) {
    const Device& device = devices_[ordinal];
    if (device.primary.load(std::memory_order_acquire) == context)
      return !device.live.load(std::memory_order_acquire);
  }
  CUdevice unused = 0;
  return driver_.cuCtxGetDevice_v2(&unused, context) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

cudaError_t Runtime::bind() {
  CUcontext current = nullptr;
  if (const CUresult got = driver_.cuCtxGetCurrent(&current); got != CUDA_SUCCESS) return from_driver(got);
  if (current != nullptr && !stale(current)) return cudaSuccess;
  if (chosen_ordinal >= 0) return use(chosen_ordinal);
  // "CUDA will try devices from the list sequentially until it finds one that works" (cudaSetValidDevices).
  cudaError_t first = cudaErrorNoDevice;
  bool tried = false;
  for (int ordinal : order()) {
    const cudaError_t result = use(ordinal);
    if (result == cudaSuccess) return result;
    if (!tried) first = result;
    tried = true;
  }
  return first;
}

void Runtime::try_in_order(std::vector<int> ordinals) {
  const std::lock_guard lock(order_lock_);
  order_ = std::move(ordinals);
}

// A list that nobody gave is the first device alone: where that fails, programs see its error.
std::vector<int> Runtime::order() {
  const std::lock_guard lock(order_lock_);
  return order_.empty() ? std::vector<int>{0} : order_;
}

int Runtime::current_ordinal() {
  CUdevice handle = 0;
  if (driver_.cuCtxGetDevice_v2(&handle, nullptr) == CUDA_SUCCESS) {
    if (const int known = ordinal(handle); known >= 0) return known;
  }
  return chosen_ordinal >= 0 ? chosen_ordinal : order().front();
}

cudaError_t Runtime::primary(int ordinal, CUcontext* context) {
  Device& device = devices_[ordinal];
  if (!device.live.load(std::memory_order_acquire)) {
    const std::lock_guard lock(device.retaining);
    if (!device.live.load(std::memory_order_relaxed)) {
      CUcontext retained = nullptr;
      if (const CUresult got = driver_.cuDevicePrimaryCtxRetain(&retained, device.handle);
          got != CUDA_SUCCESS) {
        return from_driver(got);
      }
      if (device.retained++ == 0) ++in_use_;
      device.primary.store(retained, std::memory_order_release);
      device.live.store(true, std::memory_order_release);
      if (eager_) load_programs(driver_);
    }
  }
  *context = device.primary.load(std::memory_order_acquire);
  return cudaSuccess;
}

cudaError_t Runtime::use(int ordinal) {
  CUcontext context = nullptr;
  if (const cudaError_t got = primary(ordinal, &context); got != cudaSuccess) return got;
  if (const CUresult set = driver_.cuCtxSetCurrent(context); set != CUDA_SUCCESS) return from_driver(set);
  chosen_ordinal = ordinal;
  return cudaSuccess;
}

cudaError_t Runtime::reset(int ordinal) {
  Device& device = devices_[ordinal];
  const std::lock_guard lock(device.retaining);
  device.live.store(false, std::memory_order_release);
  return from_driver(driver_.cuDevicePrimaryCtxReset(device.handle));
}

void Runtime::release_all() {
  if (instance->error_ == cudaSuccess) unload_programs(instance->driver_);
  for (int ordinal = 0; ordinal < instance->count_; ++ordinal) {
    Device& device = instance->devices_[ordinal];
    // No lock: a thread that was ended inside a driver call would hold it for ever.
    device.live.store(false, std::memory_order_release);
    for (; device.retained > 0; --device.retained) instance->driver_.cuDevicePrimaryCtxRelease(device.handle);
  }
}

}  // namespace gpufence::sim::runtime
