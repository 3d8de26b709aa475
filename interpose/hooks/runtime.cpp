// The runtime chapter. It annotates and never counts: while a runtime call runs, what the driver hooks below
// find is told in its name and place; ordinals that never reach the driver are caught here. Only where the
// runtime is shared: nvcc links it statically by default, and then these names are out of reach.
#include <cuda_runtime_api.h>

#include "hooks/rules.h"

namespace gpufence::hooks {
namespace {

template <class F, class... Arguments>
auto annotated(const dispatch::RuntimeCall& call, Arguments... arguments) noexcept {
  const observe::InCall in(call.record->name, call.caller);
  return dispatch::real_runtime<F>(call, arguments...);
}

// An ordinal argument that the runtime refuses by itself.
template <class F, class... Arguments>
cudaError_t with_ordinal(const dispatch::RuntimeCall& call, int ordinal, Arguments... arguments) noexcept {
  const auto result = annotated<F>(call, arguments...);
  if (result == cudaErrorInvalidDevice && (rules().needs & dispatch::kFindings) != 0) {
    say_no_such_ordinal(ordinal, {call.record->name, call.caller});
  }
  return result;
}

using GetProperties = cudaError_t (*)(void* prop, int device);  // its struct differs between releases

}  // namespace

RUNTIME_HOOK(cudaSetDevice, cudaError_t (*)(int), (int device), (device)) {
  const cudaError_t result = with_ordinal<cudaError_t (*)(int)>(call, device, device);
  if (result == cudaSuccess) note_chosen(device, {call.record->name, call.caller});
  return result;
}

RUNTIME_HOOK(cudaGetDevice, cudaError_t (*)(int*), (int* device), (device)) {
  return annotated<cudaError_t (*)(int*)>(call, device);
}

RUNTIME_HOOK(cudaGetDeviceCount, cudaError_t (*)(int*), (int* count), (count)) {
  return annotated<cudaError_t (*)(int*)>(call, count);
}

RUNTIME_HOOK(cudaMalloc, cudaError_t (*)(void**, size_t), (void** pointer, size_t size), (pointer, size)) {
  return annotated<cudaError_t (*)(void**, size_t)>(call, pointer, size);
}

RUNTIME_HOOK(cudaFree, cudaError_t (*)(void*), (void* pointer), (pointer)) {
  return annotated<cudaError_t (*)(void*)>(call, pointer);
}

RUNTIME_HOOK(cudaGetDeviceProperties, GetProperties, (void* prop, int device), (prop, device)) {
  return with_ordinal<GetProperties>(call, device, prop, device);
}

RUNTIME_12_HOOK(cudaGetDeviceProperties_v2, GetProperties, (void* prop, int device), (prop, device)) {
  return with_ordinal<GetProperties>(call, device, prop, device);
}

}  // namespace gpufence::hooks
