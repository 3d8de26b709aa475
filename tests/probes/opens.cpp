// Opens the driver itself, as frameworks do, and takes memory step by step until it is refused.
// Usage: opens LIBRARY local|global [names|procaddress]: entry points by dlsym, or all through
// cuGetProcAddress_v2.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

constexpr size_t kMiB = size_t{1} << 20;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* library =
      dlopen(argv[1], RTLD_NOW | (std::strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const bool by_procaddress = argc > 3 && std::strcmp(argv[3], "procaddress") == 0;
  const auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  const auto find = [&](const char* name, int version, const char* exported) -> void* {
    if (!by_procaddress) return dlsym(library, exported);
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    return get(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS ? found : nullptr;
  };
  const auto init = reinterpret_cast<PFN_cuInit_v2000>(find("cuInit", 2000, "cuInit"));
  const auto count =
      reinterpret_cast<PFN_cuDeviceGetCount_v2000>(find("cuDeviceGetCount", 2000, "cuDeviceGetCount"));
  const auto pci_id = reinterpret_cast<PFN_cuDeviceGetPCIBusId_v4010>(
      find("cuDeviceGetPCIBusId", 4010, "cuDeviceGetPCIBusId"));
  const auto retain = reinterpret_cast<PFN_cuDevicePrimaryCtxRetain_v7000>(
      find("cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain"));
  const auto set_current =
      reinterpret_cast<PFN_cuCtxSetCurrent_v4000>(find("cuCtxSetCurrent", 4000, "cuCtxSetCurrent"));
  const auto allocate = reinterpret_cast<PFN_cuMemAlloc_v3020>(find("cuMemAlloc", 3020, "cuMemAlloc_v2"));
  if (!init || !count || !pci_id || !retain || !set_current || !allocate) {
    std::printf("an entry point is missing\n");
    return 1;
  }
  int gpus = 0;
  char pci[32] = "";
  CUcontext context = nullptr;
  if (init(0) != CUDA_SUCCESS || count(&gpus) != CUDA_SUCCESS || pci_id(pci, sizeof pci, 0) != CUDA_SUCCESS ||
      retain(&context, 0) != CUDA_SUCCESS || set_current(context) != CUDA_SUCCESS) {
    std::printf("the driver refused\n");
    return 1;
  }
  std::printf("GPUs: %d, CUDA 0 is %s\n", gpus, pci);
  size_t held = 0;
  CUresult result = CUDA_SUCCESS;
  for (CUdeviceptr memory; (result = allocate(&memory, 256 * kMiB)) == CUDA_SUCCESS; ++held) {
  }
  std::printf("held %zu MiB, then result %d\n", held * 256, result);
  return 0;
}
