// Calls a device function and uses variables of the other file, and launches a kernel of each.
#include <cuda_runtime.h>

#include <cstdio>

#include "parts.h"

__device__ static int offset = 1;

__global__ void main_kernel(int* out) {
  out[threadIdx.x] = weigh({static_cast<int>(threadIdx.x), 5}, threadIdx.x) + offset;
}

int main() {
  int *device = nullptr, host[4] = {}, one = 0, counted = 0;
  if (cudaMalloc(&device, sizeof host) != cudaSuccess) return 1;
  main_kernel<<<1, 4>>>(device);
  std::printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
  if (cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  other_kernel<<<1, 1>>>(device);
  if (cudaMemcpy(&one, device, sizeof one, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  if (cudaMemcpyFromSymbol(&counted, calls, sizeof counted) != cudaSuccess) return 1;
  std::printf("%d %d %d %d, %d, %d calls\n", host[0], host[1], host[2], host[3], one, counted);
  return 0;
}
