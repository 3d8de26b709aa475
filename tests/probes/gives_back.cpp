// Every way in which device memory comes back, with what cuMemGetInfo shows at each step: free, context
// destroy, primary reset, last release; by cuMemAlloc, its version 1, pitch and managed.
#include <dlfcn.h>

#include "check.h"

// Version 1 of the interface had 32-bit sizes and pointers; ctypes users still reach it by its plain name.
using AllocV1 = CUresult (*)(unsigned int*, unsigned int);
using FreeV1 = CUresult (*)(unsigned int);

static size_t used() {
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  return (total - free) / kMiB;
}

static void step(const char* what) {
  std::printf("%s: %zu MiB used\n", what, used());
}

int main() {
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext primary;
  CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CHECK(cuCtxSetCurrent(primary));
  step("at first");

  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, 64 * kMiB));
  step("cuMemAlloc of 64");
  CHECK(cuMemFree(memory));
  step("cuMemFree");

  size_t pitch = 0;
  CHECK(cuMemAllocPitch(&memory, &pitch, kMiB, 32, 4));
  step("cuMemAllocPitch of 1 x 32");
  CHECK(cuMemFree(memory));
  step("cuMemFree");

  CHECK(cuMemAllocManaged(&memory, 64 * kMiB, CU_MEM_ATTACH_GLOBAL));
  std::printf("cuMemAllocManaged of 64\n");
  CHECK(cuMemFree(memory));
  step("cuMemFree");

  CUcontext own;
  CHECK(cuCtxCreate(&own, nullptr, 0, device));
  CHECK(cuMemAlloc(&memory, 128 * kMiB));
  CHECK(cuMemAlloc(&memory, 64 * kMiB));
  step("128 and 64 in a context of its own");
  CHECK(cuCtxDestroy(own));
  CHECK(cuCtxSetCurrent(primary));
  step("context destroyed");

  CHECK(cuMemAlloc(&memory, 256 * kMiB));
  step("256 in the primary context");
  CHECK(cuDevicePrimaryCtxReset(device));
  CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CHECK(cuCtxSetCurrent(primary));
  step("primary context reset");

  CHECK(cuMemAlloc(&memory, 256 * kMiB));
  step("256 again");
  CHECK(cuCtxSetCurrent(nullptr));
  unsigned int flags = 0;
  int active = 1;
  for (int i = 0; i < 8 && active != 0; ++i) {
    CHECK(cuDevicePrimaryCtxRelease(device));
    CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  }
  std::printf("after the last release it is %s\n", active != 0 ? "active" : "inactive");
  CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CHECK(cuCtxSetCurrent(primary));
  step("retained anew");

  const auto alloc_v1 = reinterpret_cast<AllocV1>(dlsym(RTLD_DEFAULT, "cuMemAlloc"));
  const auto free_v1 = reinterpret_cast<FreeV1>(dlsym(RTLD_DEFAULT, "cuMemFree"));
  if (alloc_v1 == nullptr || free_v1 == nullptr) return 1;
  unsigned int small = 0;
  const CUresult result = alloc_v1(&small, 64 * kMiB);
  std::printf("cuMemAlloc version 1: %s\n", name_of(result));
  if (result == CUDA_SUCCESS) {
    step("64 by version 1");
    CHECK(free_v1(small));
  }
  step("at last");
  return 0;
}
