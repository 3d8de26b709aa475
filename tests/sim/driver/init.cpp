// Initialisation and version.
#include "driver.h"

using namespace gpufence::sim;

CUresult cuInit(unsigned int flags) {
  return always(__func__, [&] { return flags != 0 ? CUDA_ERROR_INVALID_VALUE : initialise(); });
}

CUresult cuDriverGetVersion(int* version) {
  return always(__func__, [&] {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = this_machine().driver_version;
    return CUDA_SUCCESS;
  });
}
