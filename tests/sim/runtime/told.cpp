// The public face of every call that CUPTI can tell of: with a listener (driver/tools.h) both ends of the
// call are told, as the genuine runtime does it: the runtime starts first, so that the very first call is
// told as well; the parameters stand in a struct in the call's own frame. The definitions are made by
// make_told.py; this file is compiled without told_names.h, so here cudaMalloc is the public name and
// gpufence_sim_cudaMalloc the call itself.
#include "tests/sim/runtime/runtime.h"

#include <generated_cuda_runtime_api_meta.h>

#include "tests/sim/driver/tools.h"

namespace gpufence::sim::runtime {
namespace {

constinit ToolsTable nobody{sizeof(ToolsTable), {nullptr}, nullptr};
constinit std::atomic<const ToolsTable*> tools{&nobody};

using Listener = void (*)(const ToldCall&);

Listener tool() {
  return tools.load(std::memory_order_relaxed)->listener.load(std::memory_order_acquire);
}

Listener tool_after_start() {
  if (tools.load(std::memory_order_relaxed) == &nobody) [[unlikely]]
    Runtime::get();
  return tool();
}

struct ChevronsParams {
  cudaKernel_t kernel;
  dim3 gridDim;
  dim3 blockDim;
  void** args;
  size_t sharedMem;
  cudaStream_t stream;
};

template <typename Body>
[[gnu::always_inline]] inline cudaError_t told(Listener listener, unsigned cbid, const char* name,
                                               const void* params, const char* symbol, Body body) {
  uint64_t correlation = 0;
  cudaError_t result = cudaSuccess;
  listener({false, cbid, name, params, &result, symbol, &correlation});
  result = body();
  listener({true, cbid, name, params, &result, symbol, &correlation});
  return result;
}

const char* kernel_name(const void* function);

}  // namespace

void tell_tools(const ToolsTable* there) {
  tools.store(there, std::memory_order_relaxed);
}

}  // namespace gpufence::sim::runtime

using namespace gpufence::sim::runtime;

extern "C" {
#include "told.inc"
}

namespace gpufence::sim::runtime {
namespace {

// The name that the kernel's code has; null where it has none, and then the launch fails for the same reason,
// or where this thread has no context yet: the launch makes it, and not the question.
const char* kernel_name(const void* function) {
  const Runtime& runtime = Runtime::get();
  CUcontext current = nullptr;
  if (runtime.error() != cudaSuccess || runtime.driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
      current == nullptr)
    return nullptr;
  const char* name = nullptr;
  return gpufence_sim_cudaFuncGetName(&name, function) == cudaSuccess ? name : nullptr;
}

}  // namespace
}  // namespace gpufence::sim::runtime
