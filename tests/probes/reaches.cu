// Touches memory of CUDA 0 from CUDA 1, one way a run, or memory that CUDA 1 may touch.
// Usage: reaches memset|memset_allowed|copy|copy_allowed|kernel|kernel_struct|kernel_unused|kernel_allowed
// [peers]
//   peers  enables peer access from CUDA 1 to CUDA 0 before
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>

struct Batch {
  int size;
  float* from;
  float* to;
};

__global__ void scale(float* out, const float* in, int touch) {
  if (touch) out[threadIdx.x] = 2 * in[threadIdx.x];
}
__global__ void move(Batch batch) {
  if (threadIdx.x < batch.size) batch.to[threadIdx.x] = batch.from[threadIdx.x];
}

#define SAY(call) std::printf("%s: %s\n", #call, cudaGetErrorName(call))
#define NEED(call)                                              \
  if (const cudaError_t error = (call); error != cudaSuccess) { \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));    \
    return 1;                                                   \
  }

extern "C" __attribute__((noinline)) cudaError_t allocate(float** memory) {
  const cudaError_t error = cudaMalloc(memory, 8 << 20);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t fill(float* memory) {
  const cudaError_t error = cudaMemset(memory + 1024, 0, 4096);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t copy(float* to, const float* from) {
  const cudaError_t error = cudaMemcpy(to, from, 4096, cudaMemcpyDefault);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t step(float* out, const float* in, int touch) {
  void* arguments[] = {&out, &in, &touch};
  const cudaError_t error =
      cudaLaunchKernel(reinterpret_cast<const void*>(scale), dim3(1), dim3(32), arguments, 0, nullptr);
  return error;
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  float *other = nullptr, *own = nullptr, *managed = nullptr, *host = nullptr;
  NEED(cudaSetDevice(0));
  NEED(allocate(&other));
  NEED(cudaSetDevice(1));
  NEED(allocate(&own));
  if (argc > 2) NEED(cudaDeviceEnablePeerAccess(0, 0));
  if (what == "memset") {
    SAY(fill(other));
  } else if (what == "copy") {
    for (int i = 0; i < 3; ++i) NEED(copy(own, other));
    SAY(cudaDeviceSynchronize());
  } else if (what == "kernel") {
    SAY(step(own, other + 100, 1));
    SAY(cudaDeviceSynchronize());
  } else if (what == "kernel_struct") {
    Batch batch{32, other, own};
    move<<<1, 32>>>(batch);
    SAY(cudaDeviceSynchronize());
  } else if (what == "kernel_unused") {
    SAY(step(own, other, 0));
    SAY(cudaDeviceSynchronize());
  } else {
    NEED(cudaMallocManaged(&managed, 4096));
    NEED(cudaMallocHost(&host, 4096));
    NEED(fill(own));
    NEED(copy(own, own + 4096));
    NEED(cudaMemset(managed, 0, 4096));
    // By way of the host, as programs without peer access do it.
    NEED(cudaMemcpy(host, other, 4096, cudaMemcpyDeviceToHost));
    NEED(cudaMemcpy(own, host, 4096, cudaMemcpyHostToDevice));
    NEED(step(own, managed, 1));
    NEED(step(own, host, 1));
    NEED(step(managed, own, 1));
    Batch batch{32, own, managed};
    move<<<1, 32>>>(batch);
    SAY(cudaDeviceSynchronize());
  }
  return 0;
}
