// The driver API under its exported names, v1 and _ptsz included: with __CUDA_API_VERSION_INTERNAL cuda.h
// does not rename cuMemAlloc to cuMemAlloc_v2 and the like, so a hook takes its signature from the header
// itself.
#pragma once

#define __CUDA_API_VERSION_INTERNAL  // NOLINT: NVIDIA's name
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstdint>

namespace gpufence::abi {

// How a program asks cuGetProcAddress for one export of the driver.
struct DriverExport {
  const char* symbol;       // exported name: cuMemAlloc_v2
  const char* base;         // name to ask for: cuMemAlloc
  int version;              // CUDA version to ask for: 3020
  bool per_thread_default;  // flag CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
};

inline constexpr DriverExport kDriverExports[] = {
#define GPUFENCE_DRIVER_EXPORT(symbol, base, version, twin) {#symbol, #base, version, twin != 0},
#include "abi/driver_exports.inc"
};

}  // namespace gpufence::abi
