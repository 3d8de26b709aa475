// Uses the driver wrongly in every way that a library in between must survive and pass on: no cuInit, no
// context, null out-parameters, pointers that nobody gave out, memory freed twice. Prints what the driver
// answers.
#include "check.h"

static void tell(const char* call, CUresult result) {
  std::printf("%s: %s\n", call, name_of(result));
}
#define TELL(call) tell(#call, call)

int main() {
  CUdeviceptr memory = 0;
  size_t free = 0, total = 0;
  int count = 0;
  CUdevice device = 0;
  TELL(cuDeviceGetCount(&count));
  TELL(cuMemAlloc(&memory, kMiB));
  TELL(cuInit(1));
  TELL(cuInit(0));
  TELL(cuInit(0));
  TELL(cuMemAlloc(&memory, kMiB));
  TELL(cuMemGetInfo(&free, &total));
  TELL(cuMemFree(0x1234));
  TELL(cuDeviceGet(&device, 99));
  TELL(cuDeviceGet(&device, -1));
  TELL(cuDeviceGet(nullptr, 0));
  TELL(cuDeviceGetCount(nullptr));
  TELL(cuDeviceTotalMem(nullptr, 0));
  TELL(cuDeviceTotalMem(&total, 99));

  CUcontext context = nullptr;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));
  TELL(cuMemAlloc(nullptr, kMiB));
  TELL(cuMemAlloc(&memory, 0));
  TELL(cuMemFree(0));
  TELL(cuMemFree(0x1234));
  TELL(cuMemGetInfo(nullptr, &total));
  TELL(cuMemGetInfo(&free, nullptr));
  TELL(cuMemGetInfo(nullptr, nullptr));
  TELL(cuMemAlloc(&memory, size_t{1} << 60));
  TELL(cuMemAlloc(&memory, kMiB));
  TELL(cuMemFree(memory));
  TELL(cuMemFree(memory));
  TELL(cuMemAllocPitch(&memory, nullptr, 64, 64, 4));
  TELL(cuMemAllocManaged(&memory, kMiB, 77));
  void* entry = nullptr;
  TELL(cuGetProcAddress(nullptr, &entry, 12000, 0, nullptr));
  TELL(cuGetProcAddress("cuInit", nullptr, 12000, 0, nullptr));
  TELL(cuCtxDestroy(context));
  TELL(cuMemAlloc(&memory, kMiB));
  return 0;
}
