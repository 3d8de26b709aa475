// The ways of reaching CUDA that vectors.cu was written for, and how each names an out-of-memory.
#pragma once
#include <ostream>
#include <string>
#include <vector>

#include "harness.h"

namespace gpufence::harness {

struct Way {
  const char* name;
  std::vector<std::string> program;
  const char* out_of_memory;
  // What the findings call the allocation: the runtime's name where the runtime is shared.
  const char* allocation;
};

inline std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.name;
}

inline std::vector<Way> ways() {
  return {{"shared", {probe("vectors_shared")}, "cudaErrorMemoryAllocation", "cudaMalloc"},
          {"static", {probe("vectors_static")}, "cudaErrorMemoryAllocation", "cuMemAlloc"},
          {"driver", {probe("vectors_driver")}, "CUDA_ERROR_OUT_OF_MEMORY", "cuMemAlloc"},
          {"driver_now", {probe("vectors_driver_now")}, "CUDA_ERROR_OUT_OF_MEMORY", "cuMemAlloc"},
          {"ctypes_driver",
           {"python3", probe("ctypes_probe.py"), "driver"},
           "CUDA_ERROR_OUT_OF_MEMORY",
           "cuMemAlloc"},
          {"ctypes_runtime",
           {"python3", probe("ctypes_probe.py"), "runtime"},
           "cudaErrorMemoryAllocation",
           "cudaMalloc"}};
}

}  // namespace gpufence::harness
