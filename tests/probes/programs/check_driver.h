// check.h for calls of the driver API.
#pragma once
#include <cuda.h>

#include "check.h"

static inline void driver_must(CUresult result, const char* call, int line) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  printf("line %d: %s: %s\n", line, call, name);
  exit(1);
}
#define CU(...) driver_must((__VA_ARGS__), #__VA_ARGS__, __LINE__)
#define CU_ANSWERS(call, wanted) HOLDS((call) == (wanted), "%s", #wanted)
