// What GPUs tell of themselves, by all ways to ask, which must agree; limits and configurations that are set
// and told; and a choice of the GPU that suits best.
#include <cuda.h>

#include "check.h"

#include <set>

#define CU(call) HOLDS((call) == CUDA_SUCCESS, "%s", #call)

static void agree(int ordinal) {
  cudaDeviceProp prop;
  MUST(cudaGetDeviceProperties(&prop, ordinal));
  const struct {
    cudaDeviceAttr which;
    long long in_prop;
  } both[] = {
      {cudaDevAttrMaxThreadsPerBlock, prop.maxThreadsPerBlock},
      {cudaDevAttrMaxBlockDimX, prop.maxThreadsDim[0]},
      {cudaDevAttrMaxBlockDimZ, prop.maxThreadsDim[2]},
      {cudaDevAttrMaxGridDimX, prop.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, prop.maxGridSize[1]},
      {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<long long>(prop.sharedMemPerBlock)},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<long long>(prop.sharedMemPerBlockOptin)},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<long long>(prop.sharedMemPerMultiprocessor)},
      {cudaDevAttrTotalConstantMemory, static_cast<long long>(prop.totalConstMem)},
      {cudaDevAttrWarpSize, prop.warpSize},
      {cudaDevAttrMaxRegistersPerBlock, prop.regsPerBlock},
      {cudaDevAttrMultiProcessorCount, prop.multiProcessorCount},
      {cudaDevAttrMaxThreadsPerMultiProcessor, prop.maxThreadsPerMultiProcessor},
      {cudaDevAttrMaxBlocksPerMultiprocessor, prop.maxBlocksPerMultiProcessor},
      {cudaDevAttrComputeCapabilityMajor, prop.major},
      {cudaDevAttrComputeCapabilityMinor, prop.minor},
      {cudaDevAttrPciBusId, prop.pciBusID},
      {cudaDevAttrPciDeviceId, prop.pciDeviceID},
      {cudaDevAttrPciDomainId, prop.pciDomainID},
      {cudaDevAttrL2CacheSize, prop.l2CacheSize},
      {cudaDevAttrUnifiedAddressing, prop.unifiedAddressing},
      {cudaDevAttrManagedMemory, prop.managedMemory},
      {cudaDevAttrConcurrentManagedAccess, prop.concurrentManagedAccess},
      {cudaDevAttrCanMapHostMemory, prop.canMapHostMemory},
      {cudaDevAttrConcurrentKernels, prop.concurrentKernels},
      {cudaDevAttrAsyncEngineCount, prop.asyncEngineCount},
      {cudaDevAttrCooperativeLaunch, prop.cooperativeLaunch},
      {cudaDevAttrMemoryPoolsSupported, prop.memoryPoolsSupported},
      {cudaDevAttrMaxTexture2DWidth, prop.maxTexture2D[0]},
      {cudaDevAttrMaxTexture2DHeight, prop.maxTexture2D[1]},
      {cudaDevAttrMaxTexture3DDepth, prop.maxTexture3D[2]},
      {cudaDevAttrMaxTexture2DLayeredLayers, prop.maxTexture2DLayered[2]},
      {cudaDevAttrTextureAlignment, static_cast<long long>(prop.textureAlignment)},
      {cudaDevAttrMaxPitch, static_cast<long long>(prop.memPitch)},
  };
  for (const auto& [which, in_prop] : both) {
    int value = -1, by_driver = -2;
    MUST(cudaDeviceGetAttribute(&value, which, ordinal));
    // The two enumerations have the same numbers.
    CU(cuDeviceGetAttribute(&by_driver, static_cast<CUdevice_attribute>(which), ordinal));
    HOLDS(value == in_prop && by_driver == value, "attribute %d: %d, %d, %lld", which, value, by_driver,
          in_prop);
  }
  HOLDS(prop.warpSize == 32 && prop.maxThreadsPerBlock == 1024, "of every GPU up to now");
  HOLDS(prop.maxGridSize[0] == 2147483647 && prop.maxGridSize[1] == 65535, "of every GPU up to now");
  HOLDS(prop.maxThreadsDim[2] == 64 && prop.totalConstMem == 65536, "of every GPU up to now");

  char name[256], pci[32];
  size_t total = 0, free_now = 0, total_now = 0;
  CUuuid uuid;
  CU(cuDeviceGetName(name, sizeof name, ordinal));
  HOLDS(strcmp(name, prop.name) == 0, "%s, %s", name, prop.name);
  CU(cuDeviceTotalMem(&total, ordinal));
  HOLDS(total == prop.totalGlobalMem, "%zu, %zu", total, prop.totalGlobalMem);
  CU(cuDeviceGetUuid(&uuid, ordinal));
  HOLDS(memcmp(&uuid, &prop.uuid, sizeof uuid) == 0, "the UUID");
  MUST(cudaDeviceGetPCIBusId(pci, sizeof pci, ordinal));
  int again = -1;
  MUST(cudaDeviceGetByPCIBusId(&again, pci));
  HOLDS(again == ordinal, "%s is %d", pci, again);
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%04x:%02x:%02x.0", prop.pciDomainID, prop.pciBusID, prop.pciDeviceID);
  HOLDS(strcasecmp(pci, wanted) == 0, "%s, %s", pci, wanted);
  MUST(cudaSetDevice(ordinal));
  MUST(cudaMemGetInfo(&free_now, &total_now));
  HOLDS(total_now == total && free_now <= total, "%zu of %zu", free_now, total_now);
  REFUSES(cudaDeviceGetPCIBusId(pci, 3, ordinal), cudaErrorInvalidValue);
}

static void settings() {
  MUST(cudaSetDevice(0));
  size_t value = 0;
  MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
  MUST(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
  HOLDS(value >= 32 << 20, "a heap of %zu", value);
  MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  MUST(cudaDeviceGetLimit(&value, cudaLimitStackSize));
  HOLDS(value >= 4096, "a stack of %zu", value);
  MUST(cudaDeviceGetLimit(&value, cudaLimitPrintfFifoSize));
  HOLDS(value >= 1 << 20, "printf's %zu", value);
  REFUSES(cudaDeviceSetLimit(static_cast<cudaLimit>(99), 1), cudaErrorUnsupportedLimit);
  MUST(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
  cudaFuncCache preference;
  MUST(cudaDeviceGetCacheConfig(&preference));
  HOLDS(preference == cudaFuncCachePreferShared || preference == cudaFuncCachePreferNone, "%d", preference);
  unsigned flags = 0;
  MUST(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  MUST(cudaGetDeviceFlags(&flags));
  HOLDS((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync, "flags %x", flags);
  REFUSES(cudaSetDeviceFlags(0x7000), cudaErrorInvalidValue);
  int driver = 0, runtime = 0;
  MUST(cudaDriverGetVersion(&driver));
  MUST(cudaRuntimeGetVersion(&runtime));
  HOLDS(runtime == CUDART_VERSION && driver >= runtime, "%d on %d", runtime, driver);
}

int main() {
  int count = 0, chosen = -1;
  MUST(cudaGetDeviceCount(&count));
  CU(cuInit(0));
  std::set<std::string> uuids;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    agree(ordinal);
    cudaDeviceProp prop;
    MUST(cudaGetDeviceProperties(&prop, ordinal));
    uuids.insert(std::string(prop.uuid.bytes, sizeof prop.uuid.bytes));
    MUST(cudaChooseDevice(&chosen, &prop));
    HOLDS(chosen >= 0 && chosen < count, "%d", chosen);
  }
  HOLDS(static_cast<int>(uuids.size()) == count, "no two GPUs have one UUID");
  int value = 0;
  REFUSES(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, count), cudaErrorInvalidDevice);
  REFUSES(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(100000), 0), cudaErrorInvalidValue);
  REFUSES(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0), cudaErrorInvalidValue);
  cudaDeviceProp prop;
  REFUSES(cudaGetDeviceProperties(&prop, -1), cudaErrorInvalidDevice);
  HOLDS(cudaDeviceGetByPCIBusId(&value, "ffff:ff:1f.0") != cudaSuccess && cudaGetLastError() != cudaSuccess,
        "no GPU is there");
  settings();
  return verdict();
}
