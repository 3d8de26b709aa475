// NVML as programs, frameworks and nvidia-smi use it: count, identity, memory and processes; what cards
// measure is sensors.cpp, how they lie to each other topology.cpp. It reads the machine and the shared
// occupancy and takes no part in it; like the genuine one it knows nothing of CUDA_VISIBLE_DEVICES and counts
// in PCI order.
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpus.h"
#include "occupancy.h"

namespace gpufence::sim {

constinit std::atomic<int> initialised{0};
constinit char handles[kMaxUnits] = {};

bool is_lost(size_t gpu) {
  const auto& gpus = this_machine().gpus;
  // Only a machine with that fault has anybody to ask.
  if (std::none_of(gpus.begin(), gpus.end(), [](const Gpu& one) { return one.lost_at != 0; })) return false;
  for (const Holder& holder : holders(this_machine()))
    if ((holder.lost >> gpu & 1) != 0) return true;
  return false;
}

namespace {

nvmlReturn_t initialise() {
  if (this_machine().gpus.empty()) return NVML_ERROR_DRIVER_NOT_LOADED;
  initialised++;
  return NVML_SUCCESS;
}

nvmlReturn_t text(char* out, unsigned length, const std::string& value) {
  if (length < value.size() + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(out, value.c_str(), value.size() + 1);
  return NVML_SUCCESS;
}

std::string long_pci(const Gpu& gpu) {
  char id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
  snprintf(id, sizeof id, NVML_DEVICE_PCI_BUS_ID_FMT, gpu.pci_domain, gpu.pci_bus, gpu.pci_device);
  return id;
}

constexpr unsigned kPciDevice = 0x233010de, kPciSubsystem = 0x16c110de;

// The struct grew twice; a caller of an older version has room for the older struct only.
void fill_pci(const Gpu& gpu, nvmlPciInfo_t* out, int version) {
  const std::string id = pci_text(gpu);
  memset(out->busIdLegacy, 0, sizeof out->busIdLegacy);
  std::transform(id.begin(), id.end(), out->busIdLegacy,
                 [](char c) { return static_cast<char>(toupper(c)); });
  out->domain = gpu.pci_domain;
  out->bus = gpu.pci_bus;
  out->device = gpu.pci_device;
  out->pciDeviceId = kPciDevice;
  if (version >= 2) out->pciSubSystemId = kPciSubsystem;
  if (version >= 3) snprintf(out->busId, sizeof out->busId, "%s", long_pci(gpu).c_str());
}

// What the unit is made of: itself, or a split GPU's instances.
std::vector<size_t> parts_of(size_t unit) {
  const Machine& machine = this_machine();
  std::vector<size_t> parts;
  if (!machine.unit(unit).mig) return {unit};
  for (size_t i = machine.gpus.size(); i < machine.units(); ++i)
    if (machine.unit(i).parent == unit) parts.push_back(i);
  return parts;
}

uint64_t used_bytes(size_t unit) {
  uint64_t used = 0;
  for (const Holder& holder : holders(this_machine()))
    for (size_t part : parts_of(unit)) used += holder.bytes[part];
  return std::min(used, this_machine().unit(unit).memory_bytes);
}

void fill(nvmlProcessInfo_v1_t& out, const Holder& holder, size_t unit) {
  out.pid = static_cast<unsigned>(holder.pid);
  out.usedGpuMemory = holder.bytes[unit];
}

void fill(nvmlProcessInfo_v2_t& out, const Holder& holder, size_t unit) {
  const Gpu& gpu = this_machine().unit(unit);
  constexpr unsigned kNone = 0xffffffffu;  // no MIG
  out.pid = static_cast<unsigned>(holder.pid);
  out.usedGpuMemory = holder.bytes[unit];
  out.gpuInstanceId = gpu.is_instance() ? gpu.gpu_instance : kNone;
  out.computeInstanceId = gpu.is_instance() ? gpu.compute_instance : kNone;
}

void fill(nvmlProcessDetail_v1_t& out, const Holder& holder, size_t unit) {
  nvmlProcessInfo_v2_t info;
  fill(info, holder, unit);
  out = {info.pid, info.usedGpuMemory, info.gpuInstanceId, info.computeInstanceId, 0};
}

template <class Info>
nvmlReturn_t processes(nvmlDevice_t handle, unsigned* count, Info* infos) {
  return with_unit(handle, count != nullptr && (infos != nullptr || *count == 0),
                   [&](const Gpu&, size_t unit) {
                     const unsigned room = *count;
                     unsigned found = 0;
                     for (const Holder& holder : holders(this_machine())) {
                       for (size_t part : parts_of(unit)) {
                         if (holder.bytes[part] == 0) continue;
                         if (found < room) fill(infos[found], holder, part);
                         ++found;
                       }
                     }
                     *count = found;
                     return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
                   });
}

// Compute processes only: nothing here draws, and there is no MPS.
nvmlReturn_t no_processes(nvmlDevice_t handle, unsigned* count) {
  return with_gpu(handle, count != nullptr, [&](const Gpu&, size_t) {
    *count = 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t by_pci(const char* id, nvmlDevice_t* out) {
  return call(id != nullptr && out != nullptr, [&] {
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
      domain = 0;
      if (sscanf(id, "%x:%x.%x", &bus, &device, &function) < 2) return NVML_ERROR_INVALID_ARGUMENT;
    }
    const auto& gpus = this_machine().gpus;
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (gpus[i].pci_domain != domain || gpus[i].pci_bus != bus || gpus[i].pci_device != device ||
          function != 0)
        continue;
      *out = handle_of(i);
      return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
  });
}

nvmlReturn_t by_index(unsigned index, nvmlDevice_t* out) {
  return call(out != nullptr && index < this_machine().gpus.size(), [&] {
    *out = handle_of(index);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t by_uuid(const std::string& uuid, nvmlDevice_t* out) {
  for (size_t i = 0; i < this_machine().units(); ++i) {
    if (uuid_text(this_machine().unit(i)) != uuid) continue;
    *out = handle_of(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t device_count(unsigned* out) {
  return call(out != nullptr, [&] {
    *out = static_cast<unsigned>(this_machine().gpus.size());
    return NVML_SUCCESS;
  });
}

std::string serial(const Gpu& gpu) {
  uint64_t n = 0;
  memcpy(&n, gpu.uuid.data(), sizeof n);
  char digits[16];
  snprintf(digits, sizeof digits, "%013llu", static_cast<unsigned long long>(n % 10'000'000'000'000u));
  return digits;
}

// The branch that ships with each CUDA release, as its release notes have it.
const char* driver_version(int cuda) {
  if (cuda >= 13000) return "580.65.06";
  if (cuda >= 12080) return "570.86.10";
  if (cuda >= 12040) return "550.54.14";
  if (cuda >= 12000) return "525.60.13";
  if (cuda >= 11080) return "520.61.05";
  return "450.80.02";
}

}  // namespace

int nvml_unsupported();
int nvml_unsupported() {
  return initialised > 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

nvmlReturn_t nvmlInit_v2() {
  return initialise();
}
nvmlReturn_t nvmlInit() {
  return initialise();
}
nvmlReturn_t nvmlInitWithFlags(unsigned) {
  return initialise();
}
nvmlReturn_t nvmlShutdown() {
  int count = initialised;
  while (count > 0 && !initialised.compare_exchange_weak(count, count - 1)) {
  }
  return count > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  // clang-format off
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_GPU_NOT_FOUND: return "GPU not found";
    default: return "Unknown Error";
  }
  // clang-format on
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned int length) {
  return call(out != nullptr,
              [&] { return text(out, length, driver_version(this_machine().driver_version)); });
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned int length) {
  return call(out != nullptr, [&] {
    return text(out, length,
                std::string(NVML_API_VERSION_STR ".") + driver_version(this_machine().driver_version));
  });
}
// These two need no nvmlInit (nvml.h).
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = this_machine().driver_version;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* out) {
  return nvmlSystemGetCudaDriverVersion(out);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* out, unsigned int length) {
  return call(out != nullptr && length > 0, [&] {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%u/exe", pid);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return NVML_ERROR_NOT_FOUND;
    return text(out, length, std::string(path, static_cast<size_t>(n)));
  });
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* out) {
  return device_count(out);
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int* out) {
  return device_count(out);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out) {
  return by_index(index, out);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* out) {
  return by_index(index, out);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* out) {
  return by_pci(id, out);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* out) {
  return by_pci(id, out);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  return call(uuid != nullptr && out != nullptr, [&] { return by_uuid(uuid, out); });
}
nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t* uuid, nvmlDevice_t* out) {
  return call(uuid != nullptr && out != nullptr, [&] {
    if (uuid->version != nvmlUUID_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (uuid->type == NVML_UUID_TYPE_ASCII)
      return by_uuid(std::string(uuid->value.str, strnlen(uuid->value.str, sizeof uuid->value.str)), out);
    if (uuid->type != NVML_UUID_TYPE_BINARY) return NVML_ERROR_INVALID_ARGUMENT;
    Uuid bytes;
    memcpy(bytes.data(), uuid->value.bytes, bytes.size());
    for (size_t i = 0; i < this_machine().units(); ++i)
      if (this_machine().unit(i).uuid == bytes) return by_uuid(uuid_text(this_machine().unit(i)), out);
    return NVML_ERROR_NOT_FOUND;
  });
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* number, nvmlDevice_t* out) {
  return call(number != nullptr && out != nullptr, [&] {
    const auto& gpus = this_machine().gpus;
    for (size_t i = 0; i < gpus.size(); ++i)
      if (serial(gpus[i]) == number) return by_index(static_cast<unsigned>(i), out);
    return NVML_ERROR_NOT_FOUND;
  });
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* out, unsigned int length) {
  return with_unit(device, out != nullptr,
                   [&](const Gpu& unit, size_t) { return text(out, length, unit.name); });
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned int length) {
  return with_unit(device, out != nullptr,
                   [&](const Gpu& unit, size_t) { return text(out, length, uuid_text(unit)); });
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* out, unsigned int length) {
  return with_gpu(device, out != nullptr,
                  [&](const Gpu& gpu, size_t) { return text(out, length, serial(gpu)); });
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu&, size_t index) {
    *out = static_cast<unsigned>(index);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetIndex(device, out);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    fill_pci(gpu, out, 1);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    fill_pci(gpu, out, 2);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    fill_pci(gpu, out, 3);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    if (out->version != nvmlPciInfoExt_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->domain = gpu.pci_domain;
    out->bus = gpu.pci_bus;
    out->device = gpu.pci_device;
    out->pciDeviceId = kPciDevice;
    out->pciSubSystemId = kPciSubsystem;
    out->baseClass = 0x03;  // display controller, 3D
    out->subClass = 0x02;
    snprintf(out->busId, sizeof out->busId, "%s", long_pci(gpu).c_str());
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  return with_unit(device, out != nullptr, [&](const Gpu& gpu, size_t index) {
    out->total = gpu.memory_bytes;
    out->used = used_bytes(index);
    out->free = out->total - out->used;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* out) {
  return with_unit(device, out != nullptr, [&](const Gpu& gpu, size_t index) {
    if (out->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->total = gpu.memory_bytes;
    out->reserved = 0;
    out->used = used_bytes(index);
    out->free = out->total - out->used;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return processes(device, count, infos);
}
// Since Hopper: the three lists by one call, of compute, graphics and MPS processes.
constexpr unsigned kCompute = 0, kMps = 2;
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t* list) {
  return with_gpu(device, list != nullptr, [&](const Gpu& gpu, size_t) {
    if (gpu.cc_major < 9) return NVML_ERROR_NOT_SUPPORTED;
    if (list->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (list->mode == kCompute) return processes(device, &list->numProcArrayEntries, list->procArray);
    return list->mode <= kMps ? no_processes(device, &list->numProcArrayEntries)
                              : NVML_ERROR_INVALID_ARGUMENT;
  });
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                   nvmlProcessInfo_v1_t*) {
  return no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_v2_t*) {
  return no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_t*) {
  return no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v1_t*) {
  return no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_v2_t*) {
  return no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_t*) {
  return no_processes(device, count);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return with_unit(device, major != nullptr && minor != nullptr, [&](const Gpu& gpu, size_t) {
    *major = gpu.cc_major;
    *minor = gpu.cc_minor;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu& gpu, size_t) {
    *out = gpu.cc_major >= 10  ? NVML_DEVICE_ARCH_BLACKWELL
           : gpu.cc_major == 9 ? NVML_DEVICE_ARCH_HOPPER
           : gpu.cc_major == 8 ? (gpu.cc_minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE)
           : gpu.cc_minor == 5 ? NVML_DEVICE_ARCH_TURING
                               : NVML_DEVICE_ARCH_UNKNOWN;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* out) {
  return with_gpu(device, out != nullptr, [&](const Gpu&, size_t) {
    *out = NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
  });
}
