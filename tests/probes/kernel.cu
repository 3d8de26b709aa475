// A program with a kernel, launched as everyone launches one.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void twice(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= 2;
}

int main() {
  int host[256];
  for (int i = 0; i < 256; ++i) host[i] = i;
  int* device = nullptr;
  if (cudaMalloc(&device, sizeof host) != cudaSuccess) return 1;
  if (cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  for (int i = 0; i < 3; ++i) twice<<<2, 128>>>(device, 256);
  const cudaError_t launched = cudaGetLastError();
  std::printf("launch: %s\n", cudaGetErrorName(launched));
  if (launched != cudaSuccess) return 0;
  if (cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (int i = 0; i < 256; ++i) {
    if (host[i] != 8 * i) return 1;
  }
  std::printf("right\n");
  return 0;
}
