// Libraries that a program loads itself: the driver's, under the runtime's names.
#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

namespace {

CUlibrary driver_library(cudaLibrary_t library) {
  return reinterpret_cast<CUlibrary>(library);
}
CUkernel* driver_kernels(cudaKernel_t* kernels) {
  return reinterpret_cast<CUkernel*>(kernels);
}

// The runtime's options have the driver's numbers.
CUjit_option* driver_options(cudaJitOption* options) {
  return reinterpret_cast<CUjit_option*>(options);
}

cudaError_t global(void** out, CUdeviceptr address, CUresult got) {
  if (got == CUDA_SUCCESS && out != nullptr) *out = reinterpret_cast<void*>(address);
  return from_driver(got);
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption* jit_options,
                                void** jit_values, unsigned int jit_count, cudaLibraryOption* options,
                                void** values, unsigned int count) {
  return in_context([&](const Driver& d) {
    return d.cuLibraryLoadData(reinterpret_cast<CUlibrary*>(out), code, driver_options(jit_options),
                               jit_values, jit_count, reinterpret_cast<CUlibraryOption*>(options), values,
                               count);
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* out, const char* path, cudaJitOption* jit_options,
                                    void** jit_values, unsigned int jit_count, cudaLibraryOption* options,
                                    void** values, unsigned int count) {
  return in_context([&](const Driver& d) {
    return d.cuLibraryLoadFromFile(reinterpret_cast<CUlibrary*>(out), path, driver_options(jit_options),
                                   jit_values, jit_count, reinterpret_cast<CUlibraryOption*>(options), values,
                                   count);
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return in_context([&](const Driver& d) { return d.cuLibraryUnload(driver_library(library)); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  return in_context([&](const Driver& d) {
    return d.cuLibraryGetKernel(driver_kernels(out), driver_library(library), name);
  });
}

cudaError_t cudaLibraryGetKernelCount(unsigned int* out, cudaLibrary_t library) {
  return in_context([&](const Driver& d) { return d.cuLibraryGetKernelCount(out, driver_library(library)); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* out, unsigned int room, cudaLibrary_t library) {
  return in_context([&](const Driver& d) {
    return d.cuLibraryEnumerateKernels(driver_kernels(out), room, driver_library(library));
  });
}

cudaError_t cudaLibraryGetGlobal(void** out, size_t* bytes, cudaLibrary_t library, const char* name) {
  return in_context([&](const Driver& d) {
    CUdeviceptr address = 0;
    const CUresult got = d.cuLibraryGetGlobal(&address, bytes, driver_library(library), name);
    return global(out, address, got);
  });
}

cudaError_t cudaLibraryGetManaged(void** out, size_t* bytes, cudaLibrary_t library, const char* name) {
  return in_context([&](const Driver& d) {
    CUdeviceptr address = 0;
    const CUresult got = d.cuLibraryGetManaged(&address, bytes, driver_library(library), name);
    return global(out, address, got);
  });
}

cudaError_t cudaLibraryGetUnifiedFunction(void** out, cudaLibrary_t library, const char* symbol) {
  return in_context(
      [&](const Driver& d) { return d.cuLibraryGetUnifiedFunction(out, driver_library(library), symbol); });
}
