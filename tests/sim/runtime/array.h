// What the runtime's copies need to know of arrays.
#pragma once
#include "tests/sim/runtime/runtime.h"

namespace gpufence::sim::runtime {

inline CUarray driver_array(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

struct ArrayShape {
  size_t element_bytes = 0;
  size_t row_bytes = 0;
};
// cudaErrorInvalidResourceHandle for what is no array.
cudaError_t shape_of(const Driver& driver, cudaArray_const_t array, ArrayShape* out);

}  // namespace gpufence::sim::runtime
