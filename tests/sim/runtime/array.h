// What the runtime's copies need to know of arrays.
#pragma once
#include "tests/sim/runtime/runtime.h"

namespace gpufence::sim::runtime {

inline CUarray driver_array(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

inline CUmipmappedArray driver_array(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

// A channel description in the driver's words.
struct Format {
  CUarray_format format;
  unsigned channels;
};
// False for a description that no array can have.
bool format_of(const cudaChannelFormatDesc& d, Format* out);
cudaChannelFormatDesc description_of(CUarray_format format, unsigned channels);

struct ArrayShape {
  size_t element_bytes = 0;
  size_t row_bytes = 0;
};
// cudaErrorInvalidResourceHandle for what is no array.
cudaError_t shape_of(const Driver& driver, cudaArray_const_t array, ArrayShape* out);

}  // namespace gpufence::sim::runtime
