// What nvcc's host code calls before main: it registers its fatbins, kernels and variables, and configures
// launches. All of it is taken in silence, so that a program with kernels starts; the launch itself is what
// the simulator says it cannot do (GF601). Nothing here starts the runtime: the genuine one does not at load
// either.
#include <vector_types.h>

#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

namespace {

struct LaunchConfiguration {
  dim3 grid{};
  dim3 block{};
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

// kernel<<<…>>> pushes and the host stub it calls pops; arguments that launch kernels themselves nest.
constexpr int kDeepest = 16;
constinit thread_local LaunchConfiguration configured[kDeepest];
constinit thread_local int depth = 0;

}  // namespace

// crt/host_runtime.h declares these for nvcc alone.
extern "C" {

GPUFENCE_SIM_RUNTIME_EXPORT void** __cudaRegisterFatBinary(void* fatbin) {
  return new void*(fatbin);
}
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  delete handle;
}

GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*,
                                                        uint3*, dim3*, dim3*, int*) {}
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {
}
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterUnifiedTable(void**, void*) {}

// A __managed__ variable is reached through a pointer that only a loaded module can fill, and a program runs
// into the null pointer instead of an error code: that is said at the registration.
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t,
                                                          int, int) {
  static constinit std::atomic<bool> said{false};
  say_unsupported("__managed__ variables", "they stay null pointers", said);
}

GPUFENCE_SIM_RUNTIME_EXPORT char __cudaInitModule(void**) {
  return 1;
}

GPUFENCE_SIM_RUNTIME_EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                                     cudaStream_t stream) {
  if (depth == kDeepest) return 1;
  configured[depth++] = {grid, block, shared, stream};
  return 0;
}

GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                                   void* stream) {
  if (depth == 0) return note(cudaErrorMissingConfiguration);
  const LaunchConfiguration& last = configured[--depth];
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

// A kernel's handle is its host stub's address until modules are loaded.
GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t,
                                                           cudaStream_t) {
  static constinit std::atomic<bool> said{false};
  return unsupported("kernel launch (__cudaLaunchKernel)", said);
}
GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t,
                                                                cudaStream_t) {
  static constinit std::atomic<bool> said{false};
  return unsupported("kernel launch (__cudaLaunchKernel_ptsz)", said);
}

}  // extern "C"

// Returns a struct, so its default would corrupt the caller's stack.
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
