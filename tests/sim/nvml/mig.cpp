// Split GPUs: the instances of each, as devices of their own. Nothing here splits or joins: the machine's
// description does.
#include <vector>

#include "gpus.h"

using namespace gpufence::sim;

namespace {

constexpr unsigned kMostInstances = 7;

// For what is only told of an instance; of a whole GPU it is an argument that fits no handle.
template <class Body>
nvmlReturn_t with_instance(nvmlDevice_t handle, bool arguments_good, Body&& body) {
  return with_unit(handle, arguments_good, [&](const Gpu& unit, size_t) {
    return unit.is_instance() ? body(unit) : NVML_ERROR_INVALID_ARGUMENT;
  });
}

}  // namespace

// "Returns zero if MIG is not supported or enabled."
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    *out = gpu.mig ? kMostInstances : 0;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* out) {
  return with_unit(device, out != nullptr, [&](const Gpu& unit, size_t) {
    *out = unit.is_instance() ? 1 : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  return with_gpu(device, current != nullptr && pending != nullptr, [&](const Gpu& gpu, size_t) {
    if (gpu.cc_major < 8 || gpu.cc_minor != 0) return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = gpu.mig ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t host_index) {
    if (gpu.mig && index >= kMostInstances) return NVML_ERROR_INVALID_ARGUMENT;
    unsigned left = index;
    for (size_t i = this_machine().gpus.size(); i < this_machine().units(); ++i) {
      if (this_machine().unit(i).parent != host_index || left-- != 0) continue;
      *out = handle_of(i);
      return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
  });
}
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance, nvmlDevice_t* out) {
  return with_instance(instance, out != nullptr, [&](const Gpu& unit) {
    *out = handle_of(unit.parent);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* out) {
  return with_instance(device, out != nullptr, [&](const Gpu& unit) {
    *out = unit.gpu_instance;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* out) {
  return with_instance(device, out != nullptr, [&](const Gpu& unit) {
    *out = unit.compute_instance;
    return NVML_SUCCESS;
  });
}

namespace {

nvmlReturn_t attributes(nvmlDevice_t device, nvmlDeviceAttributes_t* out) {
  return with_instance(device, out != nullptr, [&](const Gpu& unit) {
    *out = {};
    out->multiprocessorCount = static_cast<unsigned>(unit.multiprocessors);
    out->sharedCopyEngineCount = unit.slices == 7 ? 8 : unit.slices;
    out->gpuInstanceSliceCount = out->computeInstanceSliceCount = unit.slices;
    out->memorySizeMB = unit.memory_bytes >> 20;
    return NVML_SUCCESS;
  });
}

}  // namespace

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t* out) {
  return attributes(device, out);
}
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* out) {
  return attributes(device, out);
}
