// Code loaded while the program runs, without contexts: libraries of PTX, their kernels on every GPU, their
// variables, and the program's own kernels by handle.
#include "check.h"

static const char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .const .align 4 .u32 plus;
.visible .global .align 8 .u64 total;
.visible .entry add_all(.param .u64 values, .param .u32 n) {
  .reg .u32 %r<6>; .reg .u64 %rd<5>; .reg .pred %p1;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r2, [n];
  setp.ge.u32 %p1, %r1, %r2;
  @%p1 bra DONE;
  ld.param.u64 %rd1, [values];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r4, [%rd1];
  ld.const.u32 %r5, [plus];
  add.u32 %r4, %r4, %r5;
  st.global.u32 [%rd1], %r4;
  cvt.u64.u32 %rd3, %r4;
  atom.global.add.u64 %rd4, [total], %rd3;
DONE:
  ret;
}
.visible .entry nothing() { ret; }
)";

__global__ void times(unsigned* values, int n, unsigned factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= factor;
}

static void on_gpu(cudaLibrary_t library, cudaKernel_t add_all, int gpu, unsigned n) {
  MUST(cudaSetDevice(gpu));
  void *plus, *total;
  size_t bytes = 0;
  MUST(cudaLibraryGetGlobal(&plus, &bytes, library, "plus"));
  HOLDS(bytes == 4, "%zu", bytes);
  MUST(cudaLibraryGetGlobal(&total, &bytes, library, "total"));
  HOLDS(bytes == 8, "%zu", bytes);
  const unsigned add = 100 + gpu;  // each GPU has variables of its own
  MUST(cudaMemcpy(plus, &add, sizeof add, cudaMemcpyHostToDevice));
  MUST(cudaMemset(total, 0, 8));
  std::vector<unsigned> host(n);
  for (unsigned i = 0; i < n; ++i) host[i] = i;
  unsigned* device;
  MUST(cudaMalloc(&device, n * sizeof(unsigned)));
  MUST(cudaMemcpy(device, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  void* parameters[] = {&device, &n};
  // A kernel's handle stands where a function's name does.
  MUST(cudaLaunchKernel(reinterpret_cast<const void*>(add_all), dim3((n + 127) / 128), dim3(128), parameters,
                        0, nullptr));
  cudaKernel_t own;
  MUST(cudaGetKernel(&own, times));
  unsigned factor = 3;
  int count = static_cast<int>(n);
  void* of_own[] = {&device, &count, &factor};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((n + 127) / 128);
  config.blockDim = dim3(128);
  MUST(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(own), of_own));
  MUST(cudaLaunchKernelEx(&config, times, device, count, 2u));
  MUST(cudaMemcpy(host.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  unsigned long long sum = 0, wanted = 0;
  MUST(cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i < n; ++i) {
    wanted += i + add;
    HOLDS(host[i] == (i + add) * 6, "GPU %d, %u: %u", gpu, i, host[i]);
  }
  HOLDS(sum == wanted, "GPU %d: %llu, %llu", gpu, sum, wanted);
  MUST(cudaFree(device));
}

int main() {
  cudaLibrary_t library;
  MUST(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  MUST(cudaLibraryGetKernelCount(&count, library));
  HOLDS(count == 2, "%u kernels", count);
  std::vector<cudaKernel_t> all(count);
  MUST(cudaLibraryEnumerateKernels(all.data(), count, library));
  cudaKernel_t add_all, nothing, none;
  MUST(cudaLibraryGetKernel(&add_all, library, "add_all"));
  MUST(cudaLibraryGetKernel(&nothing, library, "nothing"));
  for (const cudaKernel_t kernel : {add_all, nothing})
    HOLDS(std::count(all.begin(), all.end(), kernel) == 1, "it is one of them");
  REFUSES(cudaLibraryGetKernel(&none, library, "subtract_all"), cudaErrorSymbolNotFound);
  void* global;
  REFUSES(cudaLibraryGetGlobal(&global, nullptr, library, "minus"), cudaErrorSymbolNotFound);
  REFUSES(cudaLibraryLoadData(nullptr, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
          cudaErrorInvalidValue);
  int gpus = 0;
  MUST(cudaGetDeviceCount(&gpus));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    on_gpu(library, add_all, gpu, 1);
    on_gpu(library, add_all, gpu, 1000);
    MUST(cudaKernelSetAttributeForDevice(add_all, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, gpu));
  }
  cudaFuncAttributes told;
  MUST(cudaFuncGetAttributes(&told, reinterpret_cast<const void*>(add_all)));
  HOLDS(told.maxThreadsPerBlock >= 32 && told.sharedSizeBytes == 0 && told.ptxVersion >= 70, "%d, %d",
        told.maxThreadsPerBlock, told.ptxVersion);
  MUST(cudaDeviceSynchronize());
  MUST(cudaLibraryUnload(library));
  return verdict();
}
