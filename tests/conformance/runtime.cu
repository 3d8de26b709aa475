// The runtime: errors, devices and their contexts, memory, symbols, pointers.
#include <unistd.h>

#undef NDEBUG
#include <cassert>
#include <cstdio>
#include <cstring>
#include <thread>

#include "runtime.h"

namespace conform {
namespace {

__device__ uint32_t cell[4] = {1, 2, 3, 4};
__constant__ uint32_t factor = 5;
__managed__ uint32_t everywhere = 6;

__global__ void read_symbols(uint32_t* out) {
  out[threadIdx.x] = cell[threadIdx.x] * factor;
}

__global__ void add_to_managed(uint32_t more) {
  everywhere += more;
}

__global__ void astray() {
  *reinterpret_cast<volatile uint32_t*>(16) = 1;
}

__global__ void claims(int value) {
  assert(value == 1);
}

__global__ void allocates(void** out) {
  *out = malloc(16);
}

// ---- Errors ----

CONFORMS(Runtime, TheLastErrorIsGivenOnce,
         "cuda_runtime_api.h, cudaGetLastError: returns the last error that has been produced by any of the "
         "runtime calls in the host thread and resets it to "
         "cudaSuccess") {
  Fresh here;
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

CONFORMS(Runtime, PeekingLeavesTheError,
         "cuda_runtime_api.h, cudaPeekAtLastError: this call does not reset the error to cudaSuccess like "
         "cudaGetLastError()") {
  Fresh here;
  EXPECT_EQ(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

CONFORMS(Runtime, SuccessDoesNotHideAnError,
         "CUDA C++ Programming Guide, Error Checking: the runtime maintains an error variable for each host "
         "thread that is initialized to cudaSuccess and is "
         "overwritten by the error code every time an error occurs") {
  Fresh here;
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  OK(cudaSetDevice(0));
  OK(cudaFree(nullptr));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

CONFORMS(Runtime, ErrorsAreOfTheirThread,
         "cuda_runtime_api.h, cudaGetLastError: the last error that has been produced … in the same instance "
         "of the CUDA Runtime library in the host thread") {
  Fresh here;
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  std::thread([] {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

CONFORMS(Runtime, NotReadyIsNoError,
         "CUDA C++ Programming Guide, Error Checking: cudaErrorNotReady that may be returned by "
         "cudaStreamQuery() and cudaEventQuery() is not considered an error and is "
         "therefore not reported by cudaPeekAtLastError() or cudaGetLastError()") {
  Fresh here;
  Stream stream;
  Gate gate;
  gate.hold(stream);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  gate.open();
}

CONFORMS(Runtime, LaunchesLeaveTheirError,
         "driver_types.h, cudaErrorInvalidConfiguration: a kernel launch is requesting resources that can "
         "never be satisfied by the current device; requesting too many "
         "threads or blocks will trigger this error") {
  Fresh here;
  Memory<> out(4);
  read_symbols<<<1, 2048>>>(out);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  read_symbols<<<1, 4, 1 << 28>>>(out);
  EXPECT_NE(cudaGetLastError(), cudaSuccess);
  read_symbols<<<1, 4>>>(out);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

CONFORMS(Runtime, UnknownErrorsAreUnrecognized,
         "cuda_runtime_api.h, cudaGetErrorName, cudaGetErrorString: if the error code is not recognized, "
         "\"unrecognized error code\" is returned") {
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
}

CONFORMS_ALONE(Runtime, FaultsOfKernelsStick,
               "driver_types.h, cudaErrorIllegalAddress: the device encountered a load or store instruction "
               "on an invalid memory address; any further CUDA work will return "
               "the same error") {
  astray<<<1, 1>>>();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);  // its end is not what is checked
}

CONFORMS_ALONE(Runtime, AssertionsOfKernelsStick,
               "driver_types.h, cudaErrorAssert: an assert triggered in device code during kernel execution; "
               "the device cannot be used again, all existing allocations are invalid") {
  claims<<<1, 1>>>(1);
  OK(cudaDeviceSynchronize());
  claims<<<1, 1>>>(2);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorAssert);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorAssert);
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// ---- Devices ----

CONFORMS(Runtime, DevicesAreNumberedFromZero,
         "cuda_runtime_api.h, cudaSetDevice: valid device id's are 0 to (cudaGetDeviceCount() - 1)") {
  Fresh here;
  int device = -1;
  EXPECT_EQ(cudaSetDevice(devices()), cudaErrorInvalidDevice);
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  OK(cudaSetDevice(devices() - 1));
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, devices() - 1);
}

CONFORMS(Runtime, EachThreadHasItsDevice,
         "cuda_runtime_api.h, cudaSetDevice: sets device as the current device for the calling host thread; "
         "Programming Guide, Device Selection: the current device is device 0 "
         "if no call to cudaSetDevice() is made") {
  Fresh here;
  NEEDS(devices() >= 2, "two GPUs");
  OK(cudaSetDevice(1));
  int other = -1, own = -1;
  std::thread([&] { OK(cudaGetDevice(&other)); }).join();
  OK(cudaGetDevice(&own));
  EXPECT_EQ(other, 0);
  EXPECT_EQ(own, 1);
}

CONFORMS(Runtime, MemoryLiesOnTheCurrentDevice,
         "cuda_runtime_api.h, cudaSetDevice: any device memory subsequently allocated from this host thread "
         "using cudaMalloc() will be physically resident on device") {
  Fresh here;
  NEEDS(devices() >= 2, "two GPUs");
  for (const int device : {1, 0}) {
    OK(cudaSetDevice(device));
    Memory<> memory(16);
    cudaPointerAttributes told{};
    OK(cudaPointerGetAttributes(&told, memory));
    EXPECT_EQ(told.device, device);
  }
}

CONFORMS_ALONE(Runtime, SettingADeviceMakesItsContext,
               "cuda_runtime_api.h, cudaSetDevice: this function will also immediately initialize the "
               "runtime state on the primary context, and the context will be current on device "
               "immediately") {
  OK(cudaSetDevice(0));
  unsigned flags = 0;
  int active = 0;
  CUcontext current = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_NE(current, nullptr);
}

CONFORMS_ALONE(Runtime, InitialisingADeviceDoesNotMakeItCurrent,
               "cuda_runtime_api.h, cudaInitDevice: will initialize the CUDA Runtime structures and primary "
               "context on device when called, but the context will not be made current") {
  OK(cudaInitDevice(0, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid));
  unsigned flags = 0;
  int active = 0;
  CUcontext current = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_BLOCKING_SYNC));
}

CONFORMS_ALONE(Runtime, FlagsOfTheDeviceAreTold,
               "cuda_runtime_api.h, cudaSetDeviceFlags: records flags as the flags for the current device; "
               "cudaGetDeviceFlags: gets the flags for the current device") {
  OK(cudaSetDeviceFlags(cudaDeviceScheduleYield));
  unsigned flags = 0;
  OK(cudaGetDeviceFlags(&flags));
  EXPECT_EQ(flags & cudaDeviceScheduleMask, static_cast<unsigned>(cudaDeviceScheduleYield));
  EXPECT_EQ(cudaSetDeviceFlags(0x4000), cudaErrorInvalidValue);
}

CONFORMS_ALONE(Runtime, ResettingDestroysEverything,
               "cuda_runtime_api.h, cudaDeviceReset: explicitly destroys and cleans up all resources "
               "associated with the current device in the current process; any subsequent API call to "
               "this device will reinitialize the device") {
  void* memory = nullptr;
  size_t during = 0, total = 0;
  OK(cudaMalloc(&memory, 256 * kMiB));
  OK(cudaMemGetInfo(&during, &total));
  OK(cudaDeviceReset());
  unsigned flags = 0;
  int active = -1;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  size_t after = 0;
  OK(cudaMemGetInfo(&after, &total));
  EXPECT_GE(after, during + 256 * kMiB);
  Memory<> out(4);
  read_symbols<<<1, 4>>>(out);
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{5, 10, 15, 20}));
}

CONFORMS_ALONE(
    Runtime, ResettingLeavesPoolMemory,
    "cuda_runtime_api.h, cudaDeviceReset: will not destroy memory allocations by cudaMallocAsync() and "
    "cudaMallocFromPoolAsync(); these memory allocations need to be destroyed "
    "explicitly") {
  NEEDS(attribute(cudaDevAttrMemoryPoolsSupported) == 1, "memory pools");
  uint32_t* memory = nullptr;
  uint32_t seen = 0;
  OK(cudaMallocAsync(reinterpret_cast<void**>(&memory), 16 * kMiB, nullptr));
  OK(cudaMemsetAsync(memory, 0x11, 16 * kMiB, nullptr));
  OK(cudaDeviceSynchronize());
  OK(cudaDeviceReset());
  OK(cudaMemcpy(&seen, memory + 1000, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(seen, 0x11111111u);
  OK(cudaFreeAsync(memory, nullptr));
  OK(cudaDeviceSynchronize());
}

CONFORMS_ALONE(Runtime, TheVersionStartsNothing,
               "cuda_runtime_api.h, cudaRuntimeGetVersion: as of CUDA 12.0, this function no longer "
               "initializes CUDA; (1000 × major + 10 × minor)") {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
  EXPECT_EQ(cudaRuntimeGetVersion(nullptr), cudaErrorInvalidValue);
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_ERROR_NOT_INITIALIZED);
}

CONFORMS(Runtime, TheDriversVersionIsTheDrivers,
         "cuda_runtime_api.h, cudaDriverGetVersion: the latest version of CUDA supported by the driver; "
         "cudaErrorInvalidValue if driverVersion is NULL") {
  int runtimes = 0, drivers = 0;
  OK(cudaDriverGetVersion(&runtimes));
  EXPECT_EQ(cuDriverGetVersion(&drivers), CUDA_SUCCESS);
  EXPECT_EQ(runtimes, drivers);
  EXPECT_EQ(cudaDriverGetVersion(nullptr), cudaErrorInvalidValue);
  cudaGetLastError();
}

CONFORMS(Runtime, PropertiesAreTheAttributes,
         "cuda_runtime_api.h, cudaGetDeviceProperties: returns in *prop the properties of device dev; "
         "cudaDeviceGetAttribute: the integer value of the attribute") {
  Fresh here;
  cudaDeviceProp prop{};
  OK(cudaGetDeviceProperties(&prop, 0));
  EXPECT_EQ(prop.multiProcessorCount, attribute(cudaDevAttrMultiProcessorCount));
  EXPECT_EQ(prop.major, attribute(cudaDevAttrComputeCapabilityMajor));
  EXPECT_EQ(prop.minor, attribute(cudaDevAttrComputeCapabilityMinor));
  EXPECT_EQ(prop.maxThreadsPerBlock, attribute(cudaDevAttrMaxThreadsPerBlock));
  EXPECT_EQ(prop.warpSize, attribute(cudaDevAttrWarpSize));
  EXPECT_EQ(prop.l2CacheSize, attribute(cudaDevAttrL2CacheSize));
  EXPECT_EQ(prop.pciBusID, attribute(cudaDevAttrPciBusId));
  EXPECT_EQ(prop.concurrentManagedAccess, attribute(cudaDevAttrConcurrentManagedAccess));
  EXPECT_EQ(static_cast<int>(prop.sharedMemPerBlockOptin),
            attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

CONFORMS(Runtime, PropertiesAreOfTheDriversDevice,
         "driver_types.h, cudaDeviceProp: name, an ASCII string identifying the device; uuid, a 16-byte "
         "unique identifier; totalGlobalMem, the total amount of global memory available") {
  Fresh here;
  for (int device = 0; device < devices(); ++device) {
    cudaDeviceProp prop{};
    OK(cudaGetDeviceProperties(&prop, device));
    char name[256] = "";
    CUuuid uuid;
    size_t total = 0;
    EXPECT_EQ(cuDeviceGetName(name, sizeof name, device), CUDA_SUCCESS);
    NEEDS(strstr(name, "MIG") == nullptr,
          "a GPU that is not split");  // cuDeviceGetUuid tells of the instance
    EXPECT_EQ(cuDeviceGetUuid(&uuid, device), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceTotalMem(&total, device), CUDA_SUCCESS);
    EXPECT_STREQ(prop.name, name);
    EXPECT_EQ(memcmp(prop.uuid.bytes, uuid.bytes, 16), 0);
    EXPECT_EQ(prop.totalGlobalMem, total);
  }
}

CONFORMS(Runtime, BusIdsFindTheirDevices,
         "cuda_runtime_api.h, cudaDeviceGetByPCIBusId: returns in *device a device ordinal given a PCI bus "
         "ID string") {
  Fresh here;
  for (int device = 0; device < devices(); ++device) {
    char id[13] = "";
    int found = -1;
    OK(cudaDeviceGetPCIBusId(id, sizeof id, device));
    OK(cudaDeviceGetByPCIBusId(&found, id));
    EXPECT_EQ(found, device);
  }
}

CONFORMS(Runtime, PeerAccessIsEnabledOnce,
         "cuda_runtime_api.h, cudaDeviceEnablePeerAccess: cudaErrorPeerAccessAlreadyEnabled if direct access "
         "of peerDevice from the current device has already been enabled; "
         "cudaDeviceDisablePeerAccess: cudaErrorPeerAccessNotEnabled") {
  Fresh here;
  NEEDS(peers(), "two GPUs that are peers");
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
  OK(cudaDeviceDisablePeerAccess(1));
}

CONFORMS(Runtime, CopiesBetweenDevicesNameThem,
         "cuda_runtime_api.h, cudaMemcpyPeer: copies memory from one device to memory on another device; dst "
         "is the base device pointer of the destination memory and dstDevice is the "
         "destination device") {
  Fresh here;
  NEEDS(devices() >= 2, "two GPUs");
  Memory<> first(256);
  first.write(std::vector<uint32_t>(256, 17));
  OK(cudaSetDevice(1));
  Memory<> second(256);
  OK(cudaMemcpyPeer(second, 1, first, 0, 1024));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(second.read(), std::vector<uint32_t>(256, 17));
}

// ---- Memory ----

CONFORMS(Runtime, FreeingNothingIsNothing,
         "cuda_runtime_api.h, cudaFree: if devPtr is 0, no operation is performed; if cudaFree(devPtr) has "
         "already been called before, an error is returned") {
  Fresh here;
  OK(cudaFree(nullptr));
  void* memory = nullptr;
  OK(cudaMalloc(&memory, 4096));
  OK(cudaFree(memory));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
}

CONFORMS(Runtime, FailureToAllocateIsNoFault,
         "cuda_runtime_api.h, cudaMalloc: returns cudaErrorMemoryAllocation in case of failure; "
         "driver_types.h, cudaErrorMemoryAllocation: unable to allocate enough memory") {
  Fresh here;
  size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 2 * total), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaMalloc(&memory, kMiB));
  OK(cudaFree(memory));
}

CONFORMS(
    Runtime, ManagedMemoryHasASize,
    "cuda_runtime_api.h, cudaMallocManaged: if size is 0, cudaMallocManaged returns cudaErrorInvalidValue") {
  Fresh here;
  NEEDS(attribute(cudaDevAttrManagedMemory) == 1, "managed memory");
  void* memory = nullptr;
  EXPECT_EQ(cudaMallocManaged(&memory, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMallocManaged(&memory, 64, 0x40), cudaErrorInvalidValue);
}

CONFORMS(Runtime, BoxesOfMemoryTellTheirLogicalSize,
         "cuda_runtime_api.h, cudaMalloc3D: the returned cudaPitchedPtr contains additional fields xsize and "
         "ysize, the logical width and height of the allocation") {
  Fresh here;
  cudaPitchedPtr box{};
  OK(cudaMalloc3D(&box, make_cudaExtent(100, 20, 3)));
  EXPECT_EQ(box.xsize, 100u);
  EXPECT_EQ(box.ysize, 20u);
  EXPECT_GE(box.pitch, 100u);
  OK(cudaMemset3D(box, 7, make_cudaExtent(100, 20, 3)));
  uint8_t last = 0;
  OK(cudaMemcpy(&last, static_cast<char*>(box.ptr) + (2 * 20 + 19) * box.pitch + 99, 1,
                cudaMemcpyDeviceToHost));
  EXPECT_EQ(last, 7);
  OK(cudaFree(box.ptr));
}

CONFORMS(Runtime, RowsFitTheirPitch,
         "cuda_runtime_api.h, cudaMemcpy2D: width must not exceed either dpitch or spitch; "
         "cudaErrorInvalidPitchValue") {
  Fresh here;
  char *rows = nullptr, host[64];
  size_t pitch = 0;
  OK(cudaMallocPitch(reinterpret_cast<void**>(&rows), &pitch, 16, 4));
  EXPECT_GE(pitch, 16u);
  EXPECT_EQ(cudaMemcpy2D(rows, pitch, host, 8, 16, 4, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  OK(cudaMemcpy2D(rows, pitch, host, 16, 16, 4, cudaMemcpyHostToDevice));
  OK(cudaFree(rows));
}

CONFORMS(Runtime, MemsetFillsBytes,
         "cuda_runtime_api.h, cudaMemset: fills the first count bytes of the memory area pointed to by "
         "devPtr with the constant byte value value") {
  Fresh here;
  Memory<uint8_t> memory(8);
  OK(cudaMemset(memory, 0, 8));
  OK(cudaMemset(memory, 0x1ab, 5));
  EXPECT_EQ(memory.read(), (std::vector<uint8_t>{0xab, 0xab, 0xab, 0xab, 0xab, 0, 0, 0}));
}

CONFORMS(Runtime, DirectionsAreInferred,
         "cuda_runtime_api.h, cudaMemcpy: passing cudaMemcpyDefault is recommended, in which case the type "
         "of transfer is inferred from the pointer values") {
  Fresh here;
  std::vector<uint32_t> from(64, 3), to(64, 0);
  Memory<> memory(64);
  OK(cudaMemcpy(memory, from.data(), 256, cudaMemcpyDefault));
  OK(cudaMemcpy(to.data(), memory, 256, cudaMemcpyDefault));
  EXPECT_EQ(to, from);
  EXPECT_EQ(cudaMemcpy(memory, from.data(), 256, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
}

CONFORMS(Runtime, PointersTellTheirKind,
         "cuda_runtime_api.h, cudaPointerGetAttributes: type cudaMemoryTypeUnregistered for unregistered "
         "host memory, cudaMemoryTypeHost for registered host memory, cudaMemoryTypeDevice "
         "for device memory or cudaMemoryTypeManaged for managed memory") {
  Fresh here;
  cudaPointerAttributes told{};
  std::vector<char> ordinary(64);
  OK(cudaPointerGetAttributes(&told, ordinary.data()));
  EXPECT_EQ(told.type, cudaMemoryTypeUnregistered);
  Memory<> memory(16);
  OK(cudaPointerGetAttributes(&told, memory));
  EXPECT_EQ(told.type, cudaMemoryTypeDevice);
  EXPECT_EQ(told.devicePointer, static_cast<void*>(memory));
  EXPECT_EQ(told.hostPointer, nullptr);
  void* pinned = nullptr;
  OK(cudaMallocHost(&pinned, 64));
  OK(cudaPointerGetAttributes(&told, pinned));
  EXPECT_EQ(told.type, cudaMemoryTypeHost);
  EXPECT_EQ(told.hostPointer, pinned);
  OK(cudaFreeHost(pinned));
}

CONFORMS(Runtime, MappedHostMemoryIsWrittenByKernels,
         "cuda_runtime_api.h, cudaHostGetDevicePointer: passes back the device pointer corresponding to the "
         "mapped, pinned host buffer allocated by cudaHostAlloc(); flags must be 0") {
  Fresh here;
  uint32_t *host = nullptr, *device = nullptr;
  OK(cudaHostAlloc(reinterpret_cast<void**>(&host), 16, cudaHostAllocMapped));
  OK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), host, 0));
  read_symbols<<<1, 4>>>(device);
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(std::vector<uint32_t>(host, host + 4), (std::vector<uint32_t>{5, 10, 15, 20}));
  EXPECT_EQ(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), host, 1), cudaErrorInvalidValue);
  unsigned flags = 0;
  OK(cudaHostGetFlags(&flags, host));
  EXPECT_NE(flags & cudaHostAllocMapped, 0u);
  OK(cudaFreeHost(host));
}

CONFORMS(Runtime, StreamOrderedMemoryIsOfThePool,
         "cuda_runtime_api.h, cudaMallocAsync: the allocation comes from the memory pool current to the "
         "stream's device; cudaMemPoolAttrUsedMemCurrent: in use by the application") {
  Fresh here;
  NEEDS(attribute(cudaDevAttrMemoryPoolsSupported) == 1, "memory pools");
  Stream stream;
  cudaMemPool_t pool = nullptr;
  OK(cudaDeviceGetMemPool(&pool, 0));
  uint64_t before = 0, during = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &before));
  void* memory = nullptr;
  OK(cudaMallocAsync(&memory, 8 * kMiB, stream));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &during));
  EXPECT_GE(during, before + 8 * kMiB);
  OK(cudaFreeAsync(memory, stream));
}

CONFORMS(Runtime, PlanesOfArraysHaveNoDepth,
         "cuda_runtime_api.h, cudaArrayGetInfo: the type, shape and flags of array; any of them may be "
         "specified as NULL; 2D arrays will have depth of zero") {
  Fresh here;
  cudaChannelFormatDesc asked = cudaCreateChannelDesc<ushort2>(), told{};
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &asked, 30, 20));
  cudaExtent extent = make_cudaExtent(99, 99, 99);
  OK(cudaArrayGetInfo(&told, &extent, nullptr, array));
  EXPECT_EQ(told.x, 16);
  EXPECT_EQ(told.y, 16);
  EXPECT_EQ(told.z, 0);
  EXPECT_EQ(told.f, cudaChannelFormatKindUnsigned);
  EXPECT_EQ(extent.width, 30u);
  EXPECT_EQ(extent.height, 20u);
  EXPECT_EQ(extent.depth, 0u);
  OK(cudaFreeArray(array));
}

CONFORMS(Runtime, ArraysKeepWhatIsCopiedIntoThem,
         "cuda_runtime_api.h, cudaMemcpy2DToArray: copies a matrix to the CUDA array dst starting at hOffset "
         "rows and wOffset bytes from the upper left corner") {
  Fresh here;
  cudaChannelFormatDesc desc = cudaCreateChannelDesc<uint32_t>();
  cudaArray_t array = nullptr;
  OK(cudaMallocArray(&array, &desc, 8, 8));
  const uint32_t in[4] = {1, 2, 3, 4};
  uint32_t out[4] = {};
  OK(cudaMemcpy2DToArray(array, 8, 3, in, 8, 8, 2, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DFromArray(out, 8, array, 8, 3, 8, 2, cudaMemcpyDeviceToHost));
  EXPECT_EQ(memcmp(in, out, sizeof in), 0);
  OK(cudaFreeArray(array));
}

// ---- Variables of the program ----

CONFORMS(Runtime, SymbolsHaveAddressAndSize,
         "cuda_runtime_api.h, cudaGetSymbolAddress: returns in *devPtr the address of symbol on the device; "
         "cudaGetSymbolSize: the size of symbol") {
  Fresh here;
  void* address = nullptr;
  size_t size = 0;
  OK(cudaGetSymbolAddress(&address, cell));
  OK(cudaGetSymbolSize(&size, cell));
  EXPECT_EQ(size, 16u);
  uint32_t third = 0;
  OK(cudaMemcpy(&third, static_cast<uint32_t*>(address) + 2, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(third, 3u);
}

CONFORMS(Runtime, SymbolsAreCopiedTo,
         "cuda_runtime_api.h, cudaMemcpyToSymbol: copies count bytes to the memory area pointed to by offset "
         "bytes from the start of symbol") {
  Fresh here;
  const uint32_t changed = 50, original = 2, constant = 10, first_constant = 5;
  uint32_t seen = 0;
  OK(cudaMemcpyToSymbol(cell, &changed, 4, 4));
  OK(cudaMemcpyToSymbol(factor, &constant, 4));
  Memory<> out(4);
  read_symbols<<<1, 4>>>(out);
  EXPECT_EQ(out.read(), (std::vector<uint32_t>{10, 500, 30, 40}));
  OK(cudaMemcpyFromSymbol(&seen, cell, 4, 4));
  EXPECT_EQ(seen, 50u);
  OK(cudaMemcpyToSymbol(cell, &original, 4, 4));
  OK(cudaMemcpyToSymbol(factor, &first_constant, 4));
}

CONFORMS(Runtime, OtherThingsAreNoSymbols,
         "cuda_runtime_api.h, cudaGetSymbolAddress: if symbol cannot be found, *devPtr is unchanged and the "
         "error cudaErrorInvalidSymbol is returned") {
  Fresh here;
  static int ordinary;
  void* address = &ordinary;
  EXPECT_EQ(cudaGetSymbolAddress(&address, static_cast<const void*>(&ordinary)), cudaErrorInvalidSymbol);
  EXPECT_EQ(address, &ordinary);
}

CONFORMS(Runtime, ManagedVariablesAreOfBothSides,
         "CUDA C++ Programming Guide, __managed__: can be referenced from both device and host code, its "
         "address can be taken, or it can be read or written directly from a device or host "
         "function") {
  Fresh here;
  NEEDS(attribute(cudaDevAttrConcurrentManagedAccess) == 1, "concurrent managed access");
  everywhere = 100;
  add_to_managed<<<1, 1>>>(11);
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(everywhere, 111u);
}

CONFORMS_ALONE(Runtime, TheHeapsSizeIsSettledByItsFirstUse,
               "cuda_runtime_api.h, cudaDeviceSetLimit: setting cudaLimitMallocHeapSize must not be "
               "performed after launching any kernel that uses the malloc() or free() device system calls: "
               "cudaErrorInvalidValue") {
  OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * kMiB));
  size_t size = 0;
  OK(cudaDeviceGetLimit(&size, cudaLimitMallocHeapSize));
  EXPECT_GE(size, 16 * kMiB);
  Memory<void*> out(1);
  allocates<<<1, 1>>>(out);
  OK(cudaDeviceSynchronize());
  EXPECT_NE(out.read()[0], nullptr);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 * kMiB), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace conform
