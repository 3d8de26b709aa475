// What a card measures and how it is set: idle, cool, and as it came out of the box. Nothing here changes
// while programs run, so that what tools print can be compared with literals. Setters have no behaviour.
#include <bit>

#include "gpus.h"

using namespace gpufence::sim;

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* out) {
  return simple(device, out, {0, 0});
}
// Only processes with work in the last second are listed; none has any.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t*,
                                             unsigned int* count, unsigned long long) {
  return with_gpu(device, count != nullptr, [&](const Gpu&, size_t) {
    *count = 0;
    return NVML_ERROR_NOT_FOUND;
  });
}

namespace {

constexpr unsigned kSamplingUs = 167'000;

nvmlReturn_t engine(nvmlDevice_t device, unsigned* utilization, unsigned* period) {
  return with_gpu(device, utilization != nullptr && period != nullptr, [&](const Gpu&, size_t) {
    *utilization = 0;
    *period = kSamplingUs;
    return NVML_SUCCESS;
  });
}

unsigned degrees(size_t index) {
  return 31 + static_cast<unsigned>(index % 5);
}

struct Clocks {
  unsigned idle, most;  // MHz
};
// Graphics, SM, memory, video.
constexpr Clocks kClocks[NVML_CLOCK_COUNT] = {{345, 1980}, {345, 1980}, {2619, 2619}, {765, 1545}};

nvmlReturn_t clock(nvmlDevice_t device, nvmlClockType_t type, unsigned* out, unsigned Clocks::*which) {
  return with_gpu(device, out != nullptr && type < NVML_CLOCK_COUNT, [&](const Gpu&, size_t) {
    *out = kClocks[type].*which;
    return NVML_SUCCESS;
  });
}

}  // namespace

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int* out, unsigned int* period) {
  return engine(device, out, period);
}
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int* out, unsigned int* period) {
  return engine(device, out, period);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int* out) {
  return with_gpu(device, out != nullptr && sensor == NVML_TEMPERATURE_GPU, [&](const Gpu&, size_t index) {
    *out = degrees(index);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu&, size_t index) {
    if (out->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (out->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    out->temperature = static_cast<int>(degrees(index));
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* out) {
  return simple(device, out, 70'000);
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* out) {
  return simple(device, out, 700'000);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* out) {
  return simple(device, out, 700'000);
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int* out) {
  return simple(device, out, 700'000);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* least,
                                                          unsigned int* most) {
  return with_gpu(device, least != nullptr && most != nullptr, [&](const Gpu&, size_t) {
    *least = 200'000;
    *most = 700'000;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* out) {
  return clock(device, type, out, &Clocks::idle);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* out) {
  return clock(device, type, out, &Clocks::most);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* out) {
  return simple(device, out, NVML_FEATURE_ENABLED);
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* out) {
  return simple(device, out, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* out) {
  return simple(device, out, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* out) {
  return simple(device, out, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* out) {
  return simple(device, out, NVML_PSTATE_0);
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* out) {
  return simple(device, out, NVML_COMPUTEMODE_DEFAULT);
}
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current,
                                  nvmlEnableState_t* pending) {
  return with_gpu(device, current != nullptr && pending != nullptr, [&](const Gpu&, size_t) {
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long* out) {
  return with_gpu(
      device, out != nullptr && type < NVML_MEMORY_ERROR_TYPE_COUNT && counter < NVML_ECC_COUNTER_TYPE_COUNT,
      [&](const Gpu&, size_t) {
        *out = 0;
        return NVML_SUCCESS;
      });
}

// The window through which the host reaches the whole memory.
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    out->bar1Total = std::bit_ceil(gpu.memory_bytes);
    out->bar1Used = 0;
    out->bar1Free = out->bar1Total;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                         unsigned int* out) {
  return with_gpu(device, out != nullptr && counter < NVML_PCIE_UTIL_COUNT, [&](const Gpu&, size_t) {
    *out = 0;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    *out = 128 * static_cast<unsigned>(gpu.multiprocessors);
    return NVML_SUCCESS;
  });
}

// Each field has a result of its own, and the call succeeds whatever they are.
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  return with_gpu(device, values != nullptr && count > 0, [&](const Gpu&, size_t) {
    for (int i = 0; i < count; ++i) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
  });
}
