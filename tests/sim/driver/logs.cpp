// The driver's error log ("Error Log Management Functions"), which is empty: this driver says what it has to
// say on stderr. Callbacks are registered and never called.
#include <fcntl.h>
#include <unistd.h>

#include <deque>

#include "driver.h"

struct CUlogsCallbackEntry_st {
  std::atomic<uint32_t> live{0};
};

using namespace gpufence::sim;

namespace {

Handles<CUlogsCallbackEntry_st>& callbacks() {
  static auto* made = new Handles<CUlogsCallbackEntry_st>;
  return *made;
}

}  // namespace

CUresult cuLogsRegisterCallback(CUlogsCallback function, void*, CUlogsCallbackHandle* out) {
  return always(__func__, [&] {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUlogsCallbackEntry_st* entry = callbacks().take();
    if (entry == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    callbacks().publish(entry);
    if (out != nullptr) *out = entry;
    return CUDA_SUCCESS;
  });
}
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  return always(__func__, [&] {
    CUlogsCallbackEntry_st* entry = callbacks().check(handle);
    return entry != nullptr && callbacks().retire(entry) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult cuLogsCurrent(CUlogIterator* out, unsigned int flags) {
  return always(__func__, [&] {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuLogsDumpToFile(CUlogIterator*, const char* path, unsigned int flags) {
  return always(__func__, [&] {
    if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return CUDA_ERROR_INVALID_VALUE;
    close(file);
    return CUDA_SUCCESS;
  });
}
CUresult cuLogsDumpToMemory(CUlogIterator*, char* buffer, size_t* size, unsigned int flags) {
  return always(__func__, [&] {
    if (buffer == nullptr || size == nullptr || *size == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *buffer = 0;
    *size = 0;
    return CUDA_SUCCESS;
  });
}
