// What a program is told about memory, by every interface that tells it, before and after it takes some on
// CUDA 0. Usage: told MIB
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

constexpr size_t kMiB = size_t{1} << 20;

static void tell(const char* when) {
  size_t free = 0, total = 0;
  const CUresult got = cuMemGetInfo(&free, &total);
  std::printf("%s: cuMemGetInfo %d: free %zu total %zu MiB\n", when, got, free / kMiB, total / kMiB);
  const cudaError_t told = cudaMemGetInfo(&free, &total);
  std::printf("%s: cudaMemGetInfo %d: free %zu total %zu MiB\n", when, told, free / kMiB, total / kMiB);
}

int main(int argc, char** argv) {
  const size_t size = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256) * kMiB;
  if (cudaSetDevice(0) != cudaSuccess) return 1;
  size_t total = 0;
  CUdevice device = 0;
  if (cuDeviceTotalMem(&total, device) != CUDA_SUCCESS) return 1;
  std::printf("cuDeviceTotalMem: %zu MiB\n", total / kMiB);
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return 1;
  std::printf("cudaDeviceProp: %zu MiB\n", properties.totalGlobalMem / kMiB);
  tell("at first");
  void* memory = nullptr;
  std::printf("cudaMalloc: %s\n", cudaGetErrorName(cudaMalloc(&memory, size)));
  tell("held");
  std::printf("cudaFree: %s\n", cudaGetErrorName(cudaFree(memory)));
  tell("freed");
  return 0;
}
