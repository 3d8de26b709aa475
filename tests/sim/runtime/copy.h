// Copies as the runtime's calls describe them, in the driver's words and back. For graphs, whose nodes are
// copies that are not made at once.
#pragma once
#include "tests/sim/runtime/runtime.h"

namespace gpufence::sim::runtime {

cudaError_t describe_copy(const Driver& driver, const cudaMemcpy3DParms& asked, CUDA_MEMCPY3D* out);
// Of so many bytes in a row.
cudaError_t describe_row(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D* out);
cudaError_t tell_copy(const Driver& driver, const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* out);

}  // namespace gpufence::sim::runtime
