// What the chapters of the simulated NVML share: its state, and the checks that every call makes first.
#pragma once

// Every function under its exported name, the un-suffixed first versions included.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "machine.h"

namespace gpufence::sim {

extern constinit std::atomic<int> initialised;  // how often nvmlInit was called and not yet undone
extern constinit char handles[kMaxUnits];  // a handle is the address of one of these, by unit (machine.h)

template <class Body>
nvmlReturn_t call(bool arguments_good, Body&& body) {
  if (initialised <= 0) return NVML_ERROR_UNINITIALIZED;
  return arguments_good ? body() : NVML_ERROR_INVALID_ARGUMENT;
}

// Whether a live process has lost the GPU of that host index.
bool is_lost(size_t gpu);

// Runs body with the GPU, or the instance, of that handle and its unit.
template <class Body>
nvmlReturn_t with_unit(nvmlDevice_t handle, bool arguments_good, Body&& body) {
  return call(arguments_good, [&] {
    const uintptr_t index = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(handles);
    if (index >= this_machine().units()) return NVML_ERROR_INVALID_ARGUMENT;
    const Gpu& unit = this_machine().unit(index);
    if (is_lost(unit.is_instance() ? unit.parent : index)) return NVML_ERROR_GPU_IS_LOST;
    return body(unit, index);
  });
}

// The same for what is only told of a whole GPU, with its host index.
template <class Body>
nvmlReturn_t with_gpu(nvmlDevice_t handle, bool arguments_good, Body&& body) {
  return with_unit(handle, arguments_good, [&](const Gpu& unit, size_t index) {
    return unit.is_instance() ? NVML_ERROR_NOT_SUPPORTED : body(unit, index);
  });
}

// One figure that is the same for every GPU.
template <class T>
nvmlReturn_t simple(nvmlDevice_t handle, T* out, std::type_identity_t<T> value) {
  return with_gpu(handle, out != nullptr, [&](const Gpu&, size_t) {
    *out = value;
    return NVML_SUCCESS;
  });
}

inline nvmlDevice_t handle_of(size_t index) {
  return reinterpret_cast<nvmlDevice_t>(&handles[index]);
}

}  // namespace gpufence::sim
