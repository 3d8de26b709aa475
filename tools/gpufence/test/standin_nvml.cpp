// NVML of a machine with four GPUs of three models, or one that answers as STANDIN_NVML says: wrongly.
#include <nvml.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/gpufence/test/standin_machine.h"

namespace {

std::string fault() {
  const char* text = std::getenv("STANDIN_NVML");
  return text != nullptr ? text : "";
}

unsigned index_of(nvmlDevice_t device) {
  return static_cast<unsigned>(reinterpret_cast<std::size_t>(device) - 1);
}

nvmlReturn_t copy(const char* text, char* to, unsigned length) {
  if (std::strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::strcpy(to, text);
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() {
  return fault() == "no-driver" ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
}
nvmlReturn_t nvmlShutdown() {
  return NVML_SUCCESS;
}
const char* nvmlErrorString(nvmlReturn_t status) {
  return status == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded"
         : status == NVML_ERROR_GPU_IS_LOST     ? "GPU is lost"
                                                : "Unknown Error";
}
nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return copy("580.65.06", version, length);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (fault() == "count-fails") return NVML_ERROR_UNKNOWN;
  *count = fault() == "count-huge" ? 4000000000u : fault() == "no-gpu" ? 0 : 4;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (index >= 4) return NVML_ERROR_INVALID_ARGUMENT;
  if (fault() == "lost" && index == 1) return NVML_ERROR_GPU_IS_LOST;
  *device = reinterpret_cast<nvmlDevice_t>(static_cast<std::size_t>(index) + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  if (fault() == "uuid-unterminated") {
    std::memset(uuid, 'x', length);
    return NVML_SUCCESS;
  }
  if (fault() == "uuid-with-comma") return copy("GPU-1,2", uuid, length);
  return copy(standin::kGpus[fault() == "uuid-twice" ? 0 : index_of(device)].uuid, uuid, length);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  return copy(standin::kGpus[index_of(device)].name, name, length);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  std::memset(pci, 0, sizeof *pci);
  pci->bus = standin::kGpus[index_of(device)].bus;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  memory->total = standin::kGpus[index_of(device)].gibibytes << 30;
  memory->used = 1ULL << 30;
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  *major = standin::kGpus[index_of(device)].major;
  *minor = standin::kGpus[index_of(device)].minor;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t* utilization) {
  *utilization = {37, 5};
  return NVML_SUCCESS;
}

// One process, that of the test itself, on GPU 2; one that can't be seen beside it.
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* processes) {
  const char* holder = std::getenv("STANDIN_HOLDER");
  if (holder == nullptr || index_of(device) != 2) {
    *count = 0;
    return NVML_SUCCESS;
  }
  if (*count < 2) {
    *count = 2;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  *count = 2;
  std::memset(processes, 0, 2 * sizeof *processes);
  processes[0].pid = static_cast<unsigned>(std::atoi(holder));
  processes[0].usedGpuMemory = 1ULL << 30;
  processes[1].pid = 4194304;  // above the largest pid that Linux gives
  processes[1].usedGpuMemory = ~0ULL;
  return NVML_SUCCESS;
}

}  // extern "C"
