// Both APIs in one program, as plug-ins mix them: the runtime's context seen by the driver API, streams,
// events, memory and functions that go from one to the other, and contexts of the program's own beside.
#include <cuda.h>

#include <thread>

#include "check_driver.h"

__device__ int bias = 5;
__global__ void add_bias(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += bias;
}

static void shares_handles() {
  constexpr int kCount = 500;
  int* memory;
  cudaStream_t stream;
  cudaEvent_t done;
  MUST(cudaMalloc(&memory, kCount * sizeof(int)));
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CUcontext current, primary, of_stream;
  CUdevice device;
  CU(cuCtxGetCurrent(&current));
  CU(cuCtxGetDevice(&device));
  CU(cuDevicePrimaryCtxRetain(&primary, device));
  HOLDS(current == primary, "the runtime uses the primary context");
  CU(cuStreamGetCtx(stream, &of_stream));
  HOLDS(of_stream == primary, "of the stream");
  CUfunction function;
  MUST(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(add_bias)));
  const char* name = nullptr;
  CU(cuFuncGetName(&name, function));
  HOLDS(name != nullptr && strstr(name, "add_bias") != nullptr, "%s", name);
  int n = kCount;
  void* arguments[] = {&memory, &n};
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(memory);
  CU(cuMemsetD32Async(address, 10, kCount, stream));
  CU(cuLaunchKernel(function, 4, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr));
  CU(cuEventRecord(done, stream));
  MUST(cudaEventSynchronize(done));
  add_bias<<<4, 128, 0, stream>>>(memory, n);
  std::vector<int> host(kCount);
  CU(cuMemcpyDtoHAsync(host.data(), address, kCount * sizeof(int), stream));
  CU(cuStreamSynchronize(stream));
  HOLDS(std::count(host.begin(), host.end(), 20) == kCount, "%d", host[0]);
  CUdeviceptr base;
  size_t bytes = 0;
  CU(cuMemGetAddressRange(&base, &bytes, address + 100));
  HOLDS(base == address && bytes == kCount * sizeof(int), "%zu bytes", bytes);
  // Symbols are variables of the module that the runtime loaded.
  void* symbol;
  MUST(cudaGetSymbolAddress(&symbol, bias));
  CU(cuMemsetD32(reinterpret_cast<CUdeviceptr>(symbol), 7, 1));
  add_bias<<<1, 1>>>(memory, 1);
  MUST(cudaMemcpy(host.data(), memory, sizeof(int), cudaMemcpyDeviceToHost));
  HOLDS(host[0] == 27, "%d", host[0]);
  CU(cuMemFree(address));
  REFUSES(cudaFree(memory), cudaErrorInvalidValue);
  CU(cuStreamDestroy(stream));
  MUST(cudaEventDestroy(done));
  CU(cuDevicePrimaryCtxRelease(device));
}

static void contexts_of_its_own() {
  CUcontext first, second, current, popped;
  CUdevice device = -1;
  CU(cuCtxCreate(&first, nullptr, 0, 0));  // and it is current
  CUdeviceptr memory;
  CU(cuMemAlloc(&memory, 64));
  CU(cuMemsetD8(memory, 3, 64));
  CU(cuCtxCreate(&second, nullptr, CU_CTX_SCHED_YIELD, 0));
  unsigned flags = 0, version = 0;
  CU(cuCtxGetFlags(&flags));
  HOLDS((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_YIELD, "flags %x", flags);
  CU(cuCtxGetApiVersion(second, &version));
  HOLDS(version >= 3020, "%u", version);
  // Memory is within reach of all contexts of a GPU: addresses are unified.
  unsigned char byte = 0;
  CU(cuMemcpyDtoH(&byte, memory + 63, 1));
  HOLDS(byte == 3, "%d", byte);
  CUcontext owner;
  CU(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  HOLDS(owner == first, "whose memory it is");
  // The runtime works in whatever context is current.
  int* of_runtime;
  MUST(cudaMalloc(&of_runtime, 400));
  CU(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, reinterpret_cast<CUdeviceptr>(of_runtime)));
  HOLDS(owner == second, "the runtime allocates in the current context");
  MUST(cudaMemset(of_runtime, 0, 400));
  add_bias<<<1, 100>>>(of_runtime, 100);
  int value = 0;
  MUST(cudaMemcpy(&value, of_runtime + 99, sizeof value, cudaMemcpyDeviceToHost));
  HOLDS(value == 5, "each context has variables of its own: %d", value);
  CU(cuCtxPopCurrent(&popped));
  HOLDS(popped == second, "the last pushed");
  CU(cuCtxGetCurrent(&current));
  HOLDS(current == first, "below it the first");
  CU(cuCtxDestroy(second));
  CU_ANSWERS(cuMemFree(reinterpret_cast<CUdeviceptr>(of_runtime)), CUDA_ERROR_INVALID_VALUE);  // gone with it
  // A context may be current to several threads.
  std::thread([&] {
    CUcontext none = first;
    CU(cuCtxGetCurrent(&none));
    HOLDS(none == nullptr, "a new thread has none");
    CUdeviceptr more;
    CU_ANSWERS(cuMemAlloc(&more, 64), CUDA_ERROR_INVALID_CONTEXT);
    CU(cuCtxSetCurrent(first));
    CU(cuCtxGetDevice(&device));
    CU(cuMemsetD8(memory, 4, 64));
    CU(cuCtxSynchronize());
  }).join();
  HOLDS(device == 0, "%d", device);
  CU(cuMemcpyDtoH(&byte, memory, 1));
  HOLDS(byte == 4, "%d", byte);
  CU(cuCtxDestroy(first));
  CU(cuCtxGetCurrent(&current));
  HOLDS(current != first, "a context that is destroyed is popped");
  MUST(cudaSetDevice(0));  // back to the primary one
  MUST(cudaMalloc(&of_runtime, 4));
  MUST(cudaFree(of_runtime));
}

int main() {
  CU(cuInit(0));
  CU_ANSWERS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  int active = -1;
  unsigned flags = 0;
  CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
  HOLDS(active == 0, "nobody has used the runtime yet");
  shares_handles();
  CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
  HOLDS(active == 1, "the runtime holds it");
  contexts_of_its_own();
  return verdict();
}
