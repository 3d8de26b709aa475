// What each of these programs checks with. They were written from NVIDIA's documentation alone, as users
// write theirs; each ends with "right" and 0 when all that it computed is what the host computes and each
// call answered what the documentation says.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static int failures = 0;

// A call that must succeed, or nothing that follows makes sense.
static inline void must(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  printf("line %d: %s: %s (%s)\n", line, call, cudaGetErrorName(error), cudaGetErrorString(error));
  exit(1);
}
#define MUST(...) must((__VA_ARGS__), #__VA_ARGS__, __LINE__)
#define MUST_RUN() (MUST(cudaGetLastError()), MUST(cudaDeviceSynchronize()))

// A call that must answer so; the second forgets what it left as the last error.
static inline void answers(cudaError_t error, cudaError_t wanted, const char* call, int line) {
  if (error == wanted) return;
  ++failures;
  printf("line %d: %s: %s, documented is %s\n", line, call, cudaGetErrorName(error),
         cudaGetErrorName(wanted));
}
#define ANSWERS(call, wanted) answers(call, wanted, #call, __LINE__)
#define REFUSES(call, wanted) (answers(call, wanted, #call, __LINE__), cudaGetLastError())

#define HOLDS(condition, ...)                            \
  do {                                                   \
    if (!(condition) && ++failures < 40) {               \
      printf("line %d: not %s: ", __LINE__, #condition); \
      printf(__VA_ARGS__);                               \
      printf("\n");                                      \
    }                                                    \
  } while (0)

static inline int verdict() {
  if (failures == 0)
    printf("right\n");
  else
    printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
