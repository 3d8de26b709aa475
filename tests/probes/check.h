// How the small driver-API programs stop at a call that fails; what any such program has.
#pragma once
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

inline const char* name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "unknown result";
}

inline void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s: %s\n", call, name_of(result));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

constexpr size_t kMiB = size_t{1} << 20;
