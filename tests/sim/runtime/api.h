// CUDA's two public interfaces as the stand-in runtime sees them: every exported name literally, the
// versioned and per-thread ones included, which is what __CUDA_API_VERSION_INTERNAL asks the headers for.
// What the shared library exports is what these headers declare; the static archive hides it, as NVIDIA's
// does, so that a shared object linked with the archive does not hand its runtime on to others.
#pragma once

#if defined(GPUFENCE_SIM_RUNTIME_STATIC)
#define GPUFENCE_SIM_RUNTIME_EXPORT __attribute__((visibility("hidden")))
#pragma GCC visibility push(hidden)
#else
#define GPUFENCE_SIM_RUNTIME_EXPORT __attribute__((visibility("default")))
#pragma GCC visibility push(default)
#endif

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#pragma GCC visibility pop

// The calls themselves, under names of their own: each public one tells a tool of itself first (told.cpp).
#if defined(GPUFENCE_SIM_TOLD)
#include "told_names.h"
#endif
