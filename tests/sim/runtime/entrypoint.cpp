// cudaGetDriverEntryPoint and its kin: the driver's own cuGetProcAddress_v2 answers, the one that the start
// was handed, so that a replaced one is honoured here as well.
#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

namespace {

cudaError_t entry_point(const char* symbol, void** out, unsigned int version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (symbol == nullptr || out == nullptr) return cudaErrorInvalidValue;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult got =
        runtime.driver().cuGetProcAddress_v2(symbol, out, static_cast<int>(version), flags, &found);
    // The two enumerations share their numbers. Without a status to write to, "not found" is the call's own
    // answer.
    if (status != nullptr) {
      *status = static_cast<cudaDriverEntryPointQueryResult>(found);
      return got == CUDA_ERROR_NOT_FOUND ? cudaSuccess : from_driver(got);
    }
    if (got == CUDA_SUCCESS && found != CU_GET_PROC_ADDRESS_SUCCESS) return cudaErrorSymbolNotFound;
    return from_driver(got);
  });
}

unsigned long long per_thread_unless_said(unsigned long long flags) {
  return flags == cudaEnableDefault ? static_cast<unsigned long long>(cudaEnablePerThreadDefaultStream)
                                    : flags;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, out, CUDART_VERSION, flags, status);
}
cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** out, unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, out, CUDART_VERSION, per_thread_unless_said(flags), status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned int version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, out, version, flags, status);
}
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** out, unsigned int version,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, out, version, per_thread_unless_said(flags), status);
}

}  // extern "C"
