// The runtime: launches and their attributes, functions and occupancy, streams, and how it meets the driver.
#include <cooperative_groups.h>

#include <cstring>
#include <thread>

#include "kernels.h"
#include "runtime.h"

namespace conform {
namespace {

__global__ void where(uint32_t* out) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  out[thread] = thread;
}

__global__ void sums(uint32_t* out, uint32_t a, uint16_t b, uint64_t c) {
  *out = a + b + static_cast<uint32_t>(c);
}

__global__ void __launch_bounds__(128) bounded(uint32_t* out) {
  __shared__ uint32_t words[256];
  words[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = words[127 - threadIdx.x];
}

__global__ void dynamic(uint32_t* out) {
  extern __shared__ uint32_t words[];
  words[threadIdx.x] = threadIdx.x * 2;
  __syncthreads();
  out[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

// Every block sees what all blocks wrote before the grid's barrier.
__global__ void together(uint32_t* cells, uint32_t* sums_of) {
  const auto grid = cooperative_groups::this_grid();
  if (threadIdx.x == 0) cells[blockIdx.x] = blockIdx.x + 1;
  grid.sync();
  if (threadIdx.x != 0) return;
  uint32_t sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += cells[block];
  sums_of[blockIdx.x] = sum;
}

__global__ void clusters(uint32_t* out) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) out[blockIdx.x] = cooperative_groups::this_cluster().num_blocks();
#endif
}

// ---- Launches ----

CONFORMS(Runtime, ArgumentsAreCopiedFromWhereTheyAre,
         "cuda_runtime_api.h, cudaLaunchKernel: if the kernel has N parameters the args should point to "
         "array of N pointers; each points to the region of memory from which the actual "
         "parameter will be copied") {
  Fresh here;
  Stream stream;
  Memory<> out(1);
  sums<<<1, 1>>>(out, 0, 0,
                 0);  // loaded now: loading it may wait for all work (Programming Guide, Lazy Loading)
  OK(cudaDeviceSynchronize());
  Gate gate;
  gate.hold(stream);
  uint32_t* address = out;
  uint32_t a = 1000;
  uint16_t b = 200;
  uint64_t c = 30;
  void* arguments[] = {&address, &a, &b, &c};
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(&sums), dim3(1), dim3(1), arguments, 0, stream));
  a = b = c = 0;  // was copied
  gate.open();
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(out.read()[0], 1230u);
}

CONFORMS(Runtime, OnlyKernelsAreLaunched,
         "driver_types.h, cudaErrorInvalidDeviceFunction: the requested device function does not exist or is "
         "not compiled for the proper device architecture") {
  Fresh here;
  static int no_kernel;
  EXPECT_EQ(cudaLaunchKernel(&no_kernel, dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
}

CONFORMS(Runtime, EveryThreadIsLaunchedOnce,
         "CUDA C++ Programming Guide, Kernels: the kernel is executed N times in parallel by N different "
         "CUDA threads; blockIdx, blockDim and threadIdx tell which") {
  Fresh here;
  Memory<> out(6 * 40);
  where<<<6, 40>>>(out);
  OK(cudaGetLastError());
  const std::vector<uint32_t> seen = out.read();
  for (uint32_t i = 0; i < 240; ++i) EXPECT_EQ(seen[i], i);
}

CONFORMS(Runtime, LaunchesTakeAConfiguration,
         "cuda_runtime_api.h, cudaLaunchKernelExC: invokes the kernel on config->gridDim grid of blocks; "
         "config->attrs is not considered if config->numAttrs is zero") {
  Fresh here;
  Stream stream;
  Memory<> out(64);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(4);
  config.blockDim = dim3(16);
  config.stream = stream;
  config.attrs = reinterpret_cast<cudaLaunchAttribute*>(1);
  uint32_t* address = out;
  void* arguments[] = {&address};
  OK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(&where), arguments));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(out.read()[63], 63u);
}

CONFORMS(Runtime, CooperativeGridsSynchronise,
         "CUDA C++ Programming Guide, Grid Synchronization: grid.sync() across all threads of a grid that "
         "was launched by cudaLaunchCooperativeKernel") {
  Fresh here;
  NEEDS(attribute(cudaDevAttrCooperativeLaunch) == 1, "cooperative launches");
  Memory<> cells(8), sums_of(8);
  uint32_t *first = cells, *second = sums_of;
  void* arguments[] = {&first, &second};
  OK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&together), dim3(8), dim3(32), arguments, 0,
                                 nullptr));
  EXPECT_EQ(sums_of.read(), std::vector<uint32_t>(8, 36));
}

CONFORMS(Runtime, CooperativeGridsMustFit,
         "driver_types.h, cudaErrorCooperativeLaunchTooLarge: the number of blocks launched per grid for a "
         "kernel that was launched via cudaLaunchCooperativeKernel exceeds the maximum number "
         "of blocks as allowed by cudaOccupancyMaxActiveBlocksPerMultiprocessor times the number of "
         "multiprocessors") {
  Fresh here;
  NEEDS(attribute(cudaDevAttrCooperativeLaunch) == 1, "cooperative launches");
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, together, 32, 0));
  const unsigned most = static_cast<unsigned>(blocks * attribute(cudaDevAttrMultiProcessorCount));
  Memory<> cells(most + 1), sums_of(most + 1);
  uint32_t *first = cells, *second = sums_of;
  void* arguments[] = {&first, &second};
  EXPECT_EQ(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&together), dim3(most + 1), dim3(32),
                                        arguments, 0, nullptr),
            cudaErrorCooperativeLaunchTooLarge);
}

CONFORMS(Runtime, ClustersHaveTheDimensionAskedFor,
         "CUDA C++ Programming Guide, Thread Block Clusters: a thread block cluster size can also be set at "
         "runtime and the kernel can be launched using cudaLaunchKernelEx; the grid dimension must "
         "be a multiple of the cluster size") {
  Fresh here;
  NEEDS(attribute(cudaDevAttrClusterLaunch) == 1, "clusters");
  Memory<> out(8);
  cudaLaunchAttribute attr{};
  attr.id = cudaLaunchAttributeClusterDimension;
  attr.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  config.attrs = &attr;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, clusters, static_cast<uint32_t*>(out)));
  EXPECT_EQ(out.read(), std::vector<uint32_t>(8, 4));
  config.gridDim = dim3(6);
  EXPECT_NE(cudaLaunchKernelEx(&config, clusters, static_cast<uint32_t*>(out)), cudaSuccess);
}

// ---- Functions ----

CONFORMS(Runtime, FunctionsTellTheirAttributes,
         "driver_types.h, cudaFuncAttributes: sharedSizeBytes, statically-allocated shared memory per block; "
         "maxThreadsPerBlock depends on both the function and the device") {
  Fresh here;
  cudaFuncAttributes told{};
  OK(cudaFuncGetAttributes(&told, bounded));
  EXPECT_EQ(told.sharedSizeBytes, 1024u);
  EXPECT_GE(told.maxThreadsPerBlock, 128);
  OK(cudaFuncGetAttributes(&told, where));
  EXPECT_EQ(told.sharedSizeBytes, 0u);
  EXPECT_EQ(told.maxThreadsPerBlock, 1024);
  EXPECT_GE(told.ptxVersion, 75);
}

CONFORMS(Runtime, BoundsOfALaunchHold,
         "CUDA C++ Programming Guide, Launch Bounds: a kernel will fail to launch if it is executed with "
         "more threads per block than its launch bound maxThreadsPerBlock") {
  Fresh here;
  Memory<> out(256);
  bounded<<<1, 128>>>(out);
  OK(cudaGetLastError());
  EXPECT_EQ(out.read()[0], 127u);
  bounded<<<1, 160>>>(out);
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
}

CONFORMS(Runtime, LargeSharedMemoryIsAllowedPerFunction,
         "cuda_runtime_api.h, cudaFuncSetAttribute: cudaFuncAttributeMaxDynamicSharedMemorySize: the "
         "requested maximum size in bytes of dynamically-allocated shared memory; if the value is "
         "incorrect, cudaErrorInvalidValue is returned") {
  Fresh here;
  const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  NEEDS(most > 48 * 1024, "more than 48 KiB of shared memory a block");
  Memory<> out(64);
  EXPECT_EQ(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
            cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  dynamic<<<1, 64, most>>>(out);
  OK(cudaGetLastError());
  EXPECT_EQ(out.read()[0], 126u);
}

CONFORMS(Runtime, FunctionsHaveANameInTheDriver,
         "cuda_runtime_api.h, cudaGetFuncBySymbol: returns in functionPtr the device entry function "
         "corresponding to the symbol symbolPtr; cudaFunction_t is interchangeable with CUfunction") {
  Fresh here;
  cudaFunction_t function = nullptr;
  OK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&sums)));
  const char* name = nullptr;
  EXPECT_EQ(cuFuncGetName(&name, function), CUDA_SUCCESS);
  ASSERT_NE(name, nullptr);
  EXPECT_NE(strstr(name, "sums"), nullptr);
}

CONFORMS(Runtime, KernelsAreLaunchedByHandle,
         "cuda_runtime_api.h, cudaGetKernel: the device kernel corresponding to the entry function "
         "entryFuncAddr; a cudaKernel_t may be passed where the launch takes a function") {
  Fresh here;
  cudaKernel_t kernel = nullptr;
  OK(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&where)));
  Memory<> out(8);
  uint32_t* address = out;
  void* arguments[] = {&address};
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(2), dim3(4), arguments, 0, nullptr));
  EXPECT_EQ(out.read()[7], 7u);
}

CONFORMS(Runtime, LibrariesAreLoadedFromPtx,
         "cuda_runtime_api.h, cudaLibraryLoadData: a cubin or fatbin as output by nvcc, or a NULL-terminated "
         "PTX; cudaLibraryGetKernel: if kernel handle is not found, the call returns "
         "cudaErrorSymbolNotFound") {
  Fresh here;
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr, missing = nullptr;
  OK(cudaLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cudaLibraryGetKernel(&kernel, library, "count"));
  EXPECT_EQ(cudaLibraryGetKernel(&missing, library, "no_such_kernel"), cudaErrorSymbolNotFound);
  Memory<> out(1);
  OK(cudaMemset(out, 0, 4));
  uint32_t* address = out;
  void* arguments[] = {&address};
  OK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(3), dim3(5), arguments, 0, nullptr));
  EXPECT_EQ(out.read()[0], 15u);
  OK(cudaLibraryUnload(library));
}

// ---- Occupancy ----

CONFORMS(Runtime, ActiveBlocksKeepToTheMultiprocessor,
         "cuda_runtime_api.h, cudaOccupancyMaxActiveBlocksPerMultiprocessor: the maximum occupancy in blocks "
         "per multiprocessor; Programming Guide: bounded by the maximum number of resident "
         "threads") {
  Fresh here;
  const int threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  for (const int size : {32, 256, 1024}) {
    int blocks = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, where, size, 0));
    EXPECT_GE(blocks, 1);
    EXPECT_LE(blocks * size, threads);
  }
}

CONFORMS(Runtime, SharedMemoryBoundsOccupancy,
         "cuda_runtime_api.h, cudaOccupancyMaxActiveBlocksPerMultiprocessor, dynamicSMemSize: per-block "
         "dynamic shared memory usage intended, in bytes") {
  Fresh here;
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, where, 32, 48 * 1024));
  EXPECT_GE(blocks, 1);
  EXPECT_LE(blocks * 48 * 1024, attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
}

CONFORMS(Runtime, TheProposedBlockFillsTheDevice,
         "cuda_runtime.h, cudaOccupancyMaxPotentialBlockSize: the minimum grid size needed to achieve the "
         "best potential occupancy, and the block size that achieves it") {
  Fresh here;
  int grid = 0, block = 0, active = 0;
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, where, 0, 0));
  ASSERT_GE(block, 32);
  EXPECT_LE(block, 1024);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, where, block, 0));
  EXPECT_EQ(grid, active * attribute(cudaDevAttrMultiProcessorCount));
}

CONFORMS(Runtime, AvailableSharedMemoryLetsTheBlocksIn,
         "cuda_runtime_api.h, cudaOccupancyAvailableDynamicSMemPerBlock: the maximum size of dynamic shared "
         "memory to allow numBlocks blocks per SM") {
  Fresh here;
  size_t bytes = 0;
  OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, where, 2, 64));
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(2 * bytes, static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)));
}

// ---- Streams and events ----

CONFORMS(Runtime, StreamsOfTheRuntimeKeepTheirFlags,
         "cuda_runtime_api.h, cudaStreamGetFlags: the flags of a given stream; cudaStreamGetPriority: the "
         "priority that was given, in the range of cudaDeviceGetStreamPriorityRange") {
  Fresh here;
  int least = 9, greatest = 9, priority = 9;
  unsigned flags = 9;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  OK(cudaStreamGetFlags(stream, &flags));
  OK(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  EXPECT_EQ(priority, greatest);
  OK(cudaStreamDestroy(stream));
}

CONFORMS(Runtime, TimesNeedRecordedEvents,
         "cuda_runtime_api.h, cudaEventElapsedTime: if cudaEventRecord() has not been called on either "
         "event, then cudaErrorInvalidResourceHandle; created with the cudaEventDisableTiming flag: "
         "cudaErrorInvalidResourceHandle") {
  Fresh here;
  cudaEvent_t start = nullptr, end = nullptr, untimed = nullptr;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {start, end, untimed}) OK(cudaEventRecord(event, nullptr));
  OK(cudaDeviceSynchronize());
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {start, end, untimed}) OK(cudaEventDestroy(event));
}

CONFORMS(Runtime, CallbacksRunAfterTheWorkBefore,
         "cuda_runtime_api.h, cudaStreamAddCallback: adds a callback to be called on the host after all "
         "currently enqueued items in the stream have completed; executed exactly once") {
  Fresh here;
  Stream stream;
  Memory<> out(4);
  uint32_t* host = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&host), 32));
  memset(host, 0, 32);
  where<<<1, 4, 0, stream>>>(out);
  OK(cudaMemcpyAsync(host, out, 16, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t error, void* data) {
        auto* words = static_cast<uint32_t*>(data);
        if (error == cudaSuccess) words[4] += words[3] + 1;
      },
      host, 0));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(host[4], 4u);
  OK(cudaFreeHost(host));
}

CONFORMS(Runtime, TwoDefaultStreamsHaveHandles,
         "cuda_runtime_api.h, cudaStreamGetId: unique; any of the special streams such as the NULL stream, "
         "cudaStreamLegacy and cudaStreamPerThread") {
  Fresh here;
  unsigned long long null = 0, legacy = 0, own = 0, others = 0;
  OK(cudaStreamGetId(nullptr, &null));
  OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
  OK(cudaStreamGetId(cudaStreamPerThread, &own));
  std::thread([&] { OK(cudaStreamGetId(cudaStreamPerThread, &others)); }).join();
  EXPECT_EQ(null, legacy);
  EXPECT_NE(own, legacy);
  EXPECT_NE(own, others);
}

// ---- Runtime and driver ----

CONFORMS(Runtime, EntryPointsComeByVersion,
         "cuda_runtime_api.h, cudaGetDriverEntryPointByVersion: cudaSuccess and the function pointer if "
         "valid; cudaSuccess and NULL with driverStatus cudaDriverEntryPointSymbolNotFound or "
         "cudaDriverEntryPointVersionNotSufficent if not") {
  Fresh here;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status{};
  OK(cudaGetDriverEntryPointByVersion("cuMemGetInfo", &function, 12000, cudaEnableDefault, &status));
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  ASSERT_NE(function, nullptr);
  size_t free = 0, total = 0;
  EXPECT_EQ(reinterpret_cast<CUresult (*)(size_t*, size_t*)>(function)(&free, &total), CUDA_SUCCESS);
  EXPECT_GT(total, 0u);
  OK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 12000, cudaEnableDefault, &status));
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
  OK(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &function, 10000, cudaEnableDefault, &status));
  EXPECT_EQ(status, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(function, nullptr);
}

CONFORMS(Runtime, TheDriverLooksUpItsOwnFunctions,
         "cuda.h, cuGetProcAddress: CUDA_SUCCESS and the function pointer for the requested version; "
         "CUDA_ERROR_NOT_FOUND if the driver function is not found; symbolStatus "
         "CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND") {
  Fresh here;
  void *first = nullptr, *second = nullptr, *missing = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &first, 2000, CU_GET_PROC_ADDRESS_DEFAULT, &status), CUDA_SUCCESS);
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &second, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status),
            CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  EXPECT_NE(second, nullptr);
  EXPECT_NE(first, second);  // cuMemAlloc and cuMemAlloc_v2
  EXPECT_EQ(cuGetProcAddress("cuNoSuchFunction", &missing, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

CONFORMS(Runtime, CallsGoToTheCurrentContext,
         "cuda_runtime_api.h, Initialization and Tear-Down: CUDA Runtime API calls operate on the CUDA "
         "Driver API CUcontext which is current to the calling host thread") {
  Fresh here;
  CUcontext own = nullptr, of_memory = nullptr;
  EXPECT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
  void* memory = nullptr;
  OK(cudaMalloc(&memory, 64));
  EXPECT_EQ(
      cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_CONTEXT, reinterpret_cast<CUdeviceptr>(memory)),
      CUDA_SUCCESS);
  EXPECT_EQ(of_memory, own);
  OK(cudaFree(memory));
  EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
}

CONFORMS(Runtime, ADeviceIsItsPrimaryContext,
         "cuda_runtime_api.h, Primary Contexts: the specific context which the CUDA Runtime API uses for a "
         "device is called the device's primary context") {
  Fresh here;
  CUcontext current = nullptr, primary = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
  EXPECT_EQ(current, primary);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

CONFORMS(Runtime, HandlesAreTheDrivers,
         "cuda_runtime_api.h, Interactions with the CUDA Driver API: the types CUstream and cudaStream_t are "
         "identical and may be used interchangeably; likewise CUevent and cudaEvent_t, CUarray and "
         "cudaArray_t") {
  Fresh here;
  Stream stream;
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  OK(cudaEventQuery(event));
  OK(cudaEventDestroy(event));
}

}  // namespace
}  // namespace conform
