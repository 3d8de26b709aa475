// Memory and events between processes: each is the driver's call of the same name, whose handles it shares.
#include "tests/sim/runtime/runtime.h"

#include <cstring>

using namespace gpufence::sim::runtime;

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));

namespace {

template <class Handle, class Given>
Handle drivers(const Given& given) {
  Handle handle;
  memcpy(&handle, &given, sizeof handle);
  return handle;
}

}  // namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* memory) {
  return in_context([&](const Driver& driver) {
    return driver.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(out),
                                    reinterpret_cast<CUdeviceptr>(memory));
  });
}
cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned int flags) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr memory = 0;
    const CUresult got = driver.cuIpcOpenMemHandle_v2(&memory, drivers<CUipcMemHandle>(handle), flags);
    if (got == CUDA_SUCCESS) *out = reinterpret_cast<void*>(memory);
    return from_driver(got);
  });
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return in_context([&](const Driver& driver) {
    return driver.cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(memory));
  });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t event) {
  return in_context([&](const Driver& driver) {
    return driver.cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(out), event);
  });
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t handle) {
  return in_context([&](const Driver& driver) {
    return driver.cuIpcOpenEventHandle(out, drivers<CUipcEventHandle>(handle));
  });
}
