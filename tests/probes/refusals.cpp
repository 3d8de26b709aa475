// Asks three times for too much on each GPU, as a program that retries does.
#include "check.h"

int main() {
  CHECK(cuInit(0));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, ordinal));
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 3; ++i) {
      CUdeviceptr memory;
      if (cuMemAlloc(&memory, 100 * kMiB) != CUDA_ERROR_OUT_OF_MEMORY) return 1;
    }
  }
  return 0;
}
