// The part of the driver that tells CUDA's order, for the machine of standin_machine.h. STANDIN_DRIVER makes
// it fail or hang up.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/gpufence/test/standin_machine.h"

namespace {

std::string fault() {
  const char* text = std::getenv("STANDIN_DRIVER");
  return text != nullptr ? text : "";
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  if (fault() == "dies") std::abort();
  // The launcher must have taken the mask away: it asks about the machine.
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) return CUDA_ERROR_INVALID_VALUE;
  return fault() == "no-device" ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult status, const char** text) {
  *text = status == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected" : "invalid argument";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 4;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  const char* order = std::getenv("CUDA_DEVICE_ORDER");
  const bool pci = order != nullptr && std::strcmp(order, "PCI_BUS_ID") == 0;
  const char* text = standin::kGpus[pci ? device : standin::kFastestFirst[device]].uuid + 4;
  for (char& byte : uuid->bytes) {
    if (*text == '-') ++text;
    const char digits[3] = {text[0], text[1], '\0'};
    byte = static_cast<char>(std::strtol(digits, nullptr, 16));
    text += 2;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
