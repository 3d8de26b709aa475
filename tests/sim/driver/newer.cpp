// What a driver of a release after our headers has and nothing here knows: a name and a version. Invented.
#include "driver.h"

using namespace gpufence::sim;

extern "C" {
[[gnu::visibility("default")]] CUresult cuMemAlloc_v3(CUdeviceptr* out, size_t bytes, unsigned long long) {
  return cuMemAlloc_v2(out, bytes);
}

[[gnu::visibility("default")]] CUresult cuQuantumLeap(int) {
  return always(__func__, [] { return CUDA_SUCCESS; });
}
}
