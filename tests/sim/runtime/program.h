// What nvcc's host code registered, and the way from a kernel's or variable's host address to the driver's
// handle. A registered fatbin becomes a library of the driver when something of it is first used.
#pragma once
#include "tests/sim/runtime/runtime.h"

namespace gpufence::sim::runtime {

// The kernel that a host function stands for, that __cudaGetKernel handed out, or that the program got from
// the driver or from a library. cudaErrorInvalidDeviceFunction for anything else. A context must be current.
cudaError_t find_kernel(const Driver& driver, const void* function, CUkernel* kernel);

// What a program knows the kernel by: its host function, or the handle itself.
void* known_as(CUkernel kernel);

// The address of a __device__, __constant__ or __managed__ variable on the current device;
// cudaErrorInvalidSymbol for anything else.
cudaError_t find_symbol(const Driver& driver, const void* symbol, CUdeviceptr* address, size_t* bytes);

// With eager loading: all registered programs, into the context that just came to be.
void load_programs(const Driver& driver);

// At the process's end, before the contexts go.
void unload_programs(const Driver& driver);

}  // namespace gpufence::sim::runtime
