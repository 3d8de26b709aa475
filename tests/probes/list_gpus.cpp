// Lists what the driver shows, by ordinal. With an argument it first sets CUDA_VISIBLE_DEVICES to it, as
// scripts do in their first lines; with two, CUDA_DEVICE_ORDER to the second.
#include "check.h"

int main(int argc, char** argv) {
  if (argc > 1) setenv("CUDA_VISIBLE_DEVICES", argv[1], 1);
  if (argc > 2) setenv("CUDA_DEVICE_ORDER", argv[2], 1);
  CHECK(cuInit(0));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  std::printf("GPUs: %d\n", count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device;
    CHECK(cuDeviceGet(&device, ordinal));
    char pci[32];
    CHECK(cuDeviceGetPCIBusId(pci, sizeof pci, device));
    char name[256];
    CHECK(cuDeviceGetName(name, sizeof name, device));
    std::printf("CUDA %d: %s %s\n", ordinal, pci, name);
  }
  return 0;
}
