// What the launch chapter and the runtime's launches share.
#pragma once

#include "hooks/finding.h"

namespace gpufence::hooks {

// What CUDA answers where a handle is of another GPU. Other codes are the program's own affair.
[[nodiscard]] inline bool may_be_of_another_gpu(CUresult result) noexcept {
  return result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT ||
         result == CUDA_ERROR_INVALID_VALUE;
}

// GF203, if the kernel and the stream are of two GPUs. `function` is a CUfunction or a CUkernel; `kernel` its
// mangled name where the caller knows it.
void explain_launch(const void* function, CUstream stream, const observe::Call& call,
                    const char* kernel = nullptr) noexcept;

// Counts the launch of a graph, if it was one.
CUresult launched_graph(CUresult result) noexcept;

}  // namespace gpufence::hooks
