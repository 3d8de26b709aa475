// What a framework keeps below its Python: a library that brings its own kernels and calls the runtime for a
// program that only says "zeros", "pin", "add". Every function answers a cudaError_t, or the pointer that it
// made.
#include <cuda_runtime.h>

namespace {

__global__ void fill(float* out, float value, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) out[at] = value;
}

__global__ void add_kernel(float* to, const float* from, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) to[at] += from[at];
}

}  // namespace

// Not as the last thing of a function: a jump would leave the caller as the place.
#define ANSWER(call)              \
  const cudaError_t got = (call); \
  return static_cast<int>(got)

extern "C" {

int framework_is_available() {
  int count = 0;
  const cudaError_t got = cudaGetDeviceCount(&count);
  return got == cudaSuccess && count > 0 ? 1 : 0;
}
int framework_device_count() {
  int count = 0;
  const cudaError_t got = cudaGetDeviceCount(&count);
  return got == cudaSuccess ? count : 0;
}
int framework_set_device(int device) {
  ANSWER(cudaSetDevice(device));
}
int framework_init() {
  ANSWER(cudaFree(nullptr));
}
int framework_synchronize() {
  ANSWER(cudaDeviceSynchronize());
}

// Memory of the current GPU: raw, or filled by a kernel there.
void* framework_empty(int count) {
  void* made = nullptr;
  const cudaError_t got = cudaMalloc(&made, sizeof(float) * static_cast<size_t>(count));
  return got == cudaSuccess ? made : nullptr;
}
void* framework_zeros(int count) {
  auto* made = static_cast<float*>(framework_empty(count));
  if (made == nullptr) return nullptr;
  fill<<<(count + 127) / 128, 128>>>(made, 0, count);
  return cudaGetLastError() == cudaSuccess ? made : nullptr;
}
int framework_free(void* memory) {
  ANSWER(cudaFree(memory));
}
int framework_to_host(void* to, const void* from, int count) {
  ANSWER(cudaMemcpy(to, from, sizeof(float) * static_cast<size_t>(count), cudaMemcpyDeviceToHost));
}
void* framework_pin(int count) {
  void* made = nullptr;
  const cudaError_t got = cudaMallocHost(&made, sizeof(float) * static_cast<size_t>(count));
  return got == cudaSuccess ? made : nullptr;
}

void* framework_stream() {
  cudaStream_t made = nullptr;
  const cudaError_t got = cudaStreamCreate(&made);
  return got == cudaSuccess ? made : nullptr;
}
void* framework_event() {
  cudaEvent_t made = nullptr;
  const cudaError_t got = cudaEventCreate(&made);
  return got == cudaSuccess ? made : nullptr;
}
int framework_record(void* event, void* stream) {
  ANSWER(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)));
}
int framework_add(float* to, const float* from, int count, void* stream) {
  void* arguments[] = {&to, &from, &count};
  ANSWER(cudaLaunchKernel(reinterpret_cast<const void*>(add_kernel),
                          dim3(static_cast<unsigned>(count + 127) / 128), dim3(128), arguments, 0,
                          static_cast<cudaStream_t>(stream)));
}

}  // extern "C"
