// Launches and what can be asked of kernels: each call is the driver's, with the kernel's CUkernel given as
// its CUfunction, as the genuine runtime does it.
#include "tests/sim/runtime/program.h"

using namespace gpufence::sim::runtime;

namespace {

enum class Default { kLegacy, kPerThread };

CUfunction as_function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

bool default_stream(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

// "A kernel launch will fail if it is issued to a stream that is not associated to the current device" (CUDA
// C++ programming guide, multi-device system); the driver would run it on the stream's. Asked only where the
// process uses several devices, so that others make exactly the genuine runtime's calls.
cudaError_t check_stream(Runtime& runtime, Default def, cudaStream_t stream) {
  if (default_stream(stream) || runtime.devices_in_use() < 2) return cudaSuccess;
  const Driver& d = runtime.driver();
  CUcontext theirs = nullptr, ours = nullptr;
  const auto ask = def == Default::kPerThread ? d.cuStreamGetCtx_ptsz : d.cuStreamGetCtx;
  if (const CUresult got = ask(stream, &theirs); got != CUDA_SUCCESS) return from_driver(got);
  if (const CUresult got = d.cuCtxGetCurrent(&ours); got != CUDA_SUCCESS) return from_driver(got);
  return theirs == ours ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

bool possible(const cudaDeviceProp& device, dim3 grid, dim3 block) {
  const auto within = [](unsigned value, int most) {
    return value != 0 && value <= static_cast<unsigned>(most);
  };
  return within(grid.x, device.maxGridSize[0]) && within(grid.y, device.maxGridSize[1]) &&
         within(grid.z, device.maxGridSize[2]) && within(block.x, device.maxThreadsDim[0]) &&
         within(block.y, device.maxThreadsDim[1]) && within(block.z, device.maxThreadsDim[2]) &&
         block.x * block.y * block.z <= static_cast<unsigned>(device.maxThreadsPerBlock);
}

// Where the driver knows but one code the runtime tells an impossible grid apart.
cudaError_t from_launch(Runtime& runtime, CUresult result, dim3 grid, dim3 block) {
  if (result == CUDA_ERROR_INVALID_VALUE &&
      !possible(runtime.properties(runtime.current_ordinal()), grid, block))
    return cudaErrorInvalidConfiguration;
  return from_driver(result);
}

// Runs body with the kernel that `function` means, in a context.
template <typename Body>
cudaError_t with_kernel(const void* function, Body body) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    CUkernel kernel = nullptr;
    if (const cudaError_t found = find_kernel(runtime.driver(), function, &kernel); found != cudaSuccess)
      return found;
    return from_driver(body(runtime, kernel));
  });
}

cudaError_t launch(Default def, const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                   cudaStream_t stream) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (const cudaError_t good = check_stream(runtime, def, stream); good != cudaSuccess) return good;
    const Driver& d = runtime.driver();
    const auto call = def == Default::kPerThread ? d.cuLaunchKernel_ptsz : d.cuLaunchKernel;
    return from_launch(runtime,
                       call(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                            static_cast<unsigned>(shared), stream, args, nullptr),
                       grid, block);
  });
}

cudaError_t launch_cooperative(Default def, const void* function, dim3 grid, dim3 block, void** args,
                               size_t shared, cudaStream_t stream) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (const cudaError_t good = check_stream(runtime, def, stream); good != cudaSuccess) return good;
    const Driver& d = runtime.driver();
    const auto call =
        def == Default::kPerThread ? d.cuLaunchCooperativeKernel_ptsz : d.cuLaunchCooperativeKernel;
    return from_launch(runtime,
                       call(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                            static_cast<unsigned>(shared), stream, args),
                       grid, block);
  });
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t& config) {
  CUlaunchConfig asked{};
  asked.gridDimX = config.gridDim.x;
  asked.gridDimY = config.gridDim.y;
  asked.gridDimZ = config.gridDim.z;
  asked.blockDimX = config.blockDim.x;
  asked.blockDimY = config.blockDim.y;
  asked.blockDimZ = config.blockDim.z;
  asked.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  asked.hStream = config.stream;
  asked.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);  // one layout
  asked.numAttrs = config.numAttrs;
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  return asked;
}

cudaError_t launch_configured(Default def, const cudaLaunchConfig_t* config, const void* function,
                              void** args) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (config == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t good = check_stream(runtime, def, config->stream); good != cudaSuccess) return good;
    const Driver& d = runtime.driver();
    const CUlaunchConfig asked = driver_config(*config);
    const auto call = def == Default::kPerThread ? d.cuLaunchKernelEx_ptsz : d.cuLaunchKernelEx;
    return from_launch(runtime, call(&asked, as_function(kernel), args, nullptr), config->gridDim,
                       config->blockDim);
  });
}

CUdevice current_device(Runtime& runtime) {
  return runtime.handle(runtime.current_ordinal());
}

}  // namespace

extern "C" {

GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                           void** args, size_t shared, cudaStream_t stream) {
  return launch(Default::kLegacy, kernel, grid, block, args, shared, stream);
}
GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                                                void** args, size_t shared,
                                                                cudaStream_t stream) {
  return launch(Default::kPerThread, kernel, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  return launch(Default::kLegacy, function, grid, block, args, shared, stream);
}
cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                                  cudaStream_t stream) {
  return launch(Default::kPerThread, function, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args,
                                        size_t shared, cudaStream_t stream) {
  return launch_cooperative(Default::kLegacy, function, grid, block, args, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* function, dim3 grid, dim3 block, void** args,
                                             size_t shared, cudaStream_t stream) {
  return launch_cooperative(Default::kPerThread, function, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  return launch_configured(Default::kLegacy, config, function, args);
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function, void** args) {
  return launch_configured(Default::kPerThread, config, function, args);
}

cudaError_t cudaGetKernel(cudaKernel_t* out, const void* function) {
  return with_kernel(function, [&](Runtime&, CUkernel kernel) {
    if (out == nullptr) return cudaErrorInvalidValue;
    *out = reinterpret_cast<cudaKernel_t>(kernel);
    return cudaSuccess;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    return from_driver(runtime.driver().cuKernelGetFunction(out, kernel));
  });
}

cudaError_t cudaFuncGetName(const char** out, const void* function) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    return from_driver(runtime.driver().cuKernelGetName(out, kernel));
  });
}

cudaError_t cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* bytes) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) {
    return runtime.driver().cuKernelGetParamInfo(kernel, index, offset, bytes);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    const CUdevice device = current_device(runtime);
    CUresult failed = CUDA_SUCCESS;
    const auto ask = [&](CUfunction_attribute which) {
      int value = 0;
      const CUresult got = runtime.driver().cuKernelGetAttribute(&value, which, kernel, device);
      if (got != CUDA_SUCCESS && failed == CUDA_SUCCESS) failed = got;
      return value;
    };
    cudaFuncAttributes a{};
    a.sharedSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    a.constSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
    a.localSizeBytes = static_cast<size_t>(ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    a.maxThreadsPerBlock = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    a.numRegs = ask(CU_FUNC_ATTRIBUTE_NUM_REGS);
    a.ptxVersion = ask(CU_FUNC_ATTRIBUTE_PTX_VERSION);
    a.binaryVersion = ask(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    a.cacheModeCA = ask(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
    a.maxDynamicSharedSizeBytes = ask(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    a.preferredShmemCarveout = ask(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    a.clusterDimMustBeSet = ask(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
    a.requiredClusterWidth = ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    a.requiredClusterHeight = ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
    a.requiredClusterDepth = ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
    a.clusterSchedulingPolicyPreference = ask(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    a.nonPortableClusterSizeAllowed = ask(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    if (failed == CUDA_SUCCESS) *out = a;
    return from_driver(failed);
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) {
    // The two enumerations share their numbers.
    return runtime.driver().cuKernelSetAttribute(static_cast<CUfunction_attribute>(which), value, kernel,
                                                 current_device(runtime));
  });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t asked, cudaFuncAttribute which, int value,
                                            int device) {
  return with_kernel(asked, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    return from_driver(runtime.driver().cuKernelSetAttribute(static_cast<CUfunction_attribute>(which), value,
                                                             kernel, runtime.handle(device)));
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) {
    return runtime.driver().cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(config),
                                                   current_device(runtime));
  });
}

// Since CUDA 12 it does nothing.
cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig) {
  return with_kernel(function, [](Runtime&, CUkernel) { return cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) {
    return runtime.driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, as_function(kernel),
                                                                                 threads, shared, 0);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                   int threads, size_t shared,
                                                                   unsigned int flags) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) {
    return runtime.driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, as_function(kernel),
                                                                                 threads, shared, flags);
  });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks,
                                                      int threads) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) {
    return runtime.driver().cuOccupancyAvailableDynamicSMemPerBlock(bytes, as_function(kernel), blocks,
                                                                    threads);
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (config == nullptr) return cudaErrorInvalidValue;
    const CUlaunchConfig asked = driver_config(*config);
    return from_driver(runtime.driver().cuOccupancyMaxActiveClusters(clusters, as_function(kernel), &asked));
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  return with_kernel(function, [&](Runtime& runtime, CUkernel kernel) -> cudaError_t {
    if (config == nullptr) return cudaErrorInvalidValue;
    const CUlaunchConfig asked = driver_config(*config);
    return from_driver(
        runtime.driver().cuOccupancyMaxPotentialClusterSize(blocks, as_function(kernel), &asked));
  });
}

}  // extern "C"
