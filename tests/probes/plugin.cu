// A plug-in that brings the CUDA runtime inside itself; its kernel proves that its own device code is found.
#include <cuda_runtime.h>

static __global__ void fill(int* out, int value) { out[threadIdx.x] = value; }

extern "C" int plugin_count() {
  int count = -1;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : -1;
}

extern "C" int plugin_malloc(size_t bytes) {
  int* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) return error;
  int back[32] = {};
  fill<<<1, 32>>>(memory, 42);
  const cudaError_t copied = cudaMemcpy(back, memory, sizeof back, cudaMemcpyDeviceToHost);
  if (copied != cudaSuccess) return copied;
  for (int value : back)
    if (value != 42) return cudaErrorUnknown;
  return cudaSuccess;
}
