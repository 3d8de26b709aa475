// cuda.h as the driver's own sources see it: every export is declared under its exported name, the v1 and
// per-thread ones included, without the macros that rename them for programs, and visible outside this
// library.
#pragma once
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT
#include <cuda.h>
