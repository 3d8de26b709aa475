// The driver's error log, under the runtime's names.
#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

namespace {

template <class Body>
cudaError_t with_driver(Body body) {
  return started([&](Runtime& runtime) { return body(runtime.driver()); });
}

}  // namespace

// The two interfaces number the levels alike.
cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t function, void* data, cudaLogsCallbackHandle* out) {
  return with_driver([&](const Driver& d) {
    return d.cuLogsRegisterCallback(reinterpret_cast<CUlogsCallback>(function), data,
                                    reinterpret_cast<CUlogsCallbackHandle*>(out));
  });
}
cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle) {
  return with_driver([&](const Driver& d) {
    return d.cuLogsUnregisterCallback(reinterpret_cast<CUlogsCallbackHandle>(handle));
  });
}
cudaError_t cudaLogsCurrent(cudaLogIterator* out, unsigned int flags) {
  return with_driver([&](const Driver& d) { return d.cuLogsCurrent(out, flags); });
}
cudaError_t cudaLogsDumpToFile(cudaLogIterator* iterator, const char* path, unsigned int flags) {
  return with_driver([&](const Driver& d) { return d.cuLogsDumpToFile(iterator, path, flags); });
}
cudaError_t cudaLogsDumpToMemory(cudaLogIterator* iterator, char* buffer, size_t* size, unsigned int flags) {
  return with_driver([&](const Driver& d) { return d.cuLogsDumpToMemory(iterator, buffer, size, flags); });
}
