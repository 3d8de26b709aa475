// Arrays that go with their scope.
#pragma once
#include "driver.h"

namespace conform {

// Extents in elements; zero for a dimension that it lacks.
inline CUDA_ARRAY3D_DESCRIPTOR descriptor(size_t width, size_t height, size_t depth = 0,
                                          CUarray_format format = CU_AD_FORMAT_FLOAT, unsigned channels = 1,
                                          unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Width = width;
  d.Height = height;
  d.Depth = depth;
  d.Format = format;
  d.NumChannels = channels;
  d.Flags = flags;
  return d;
}

class Array {
 public:
  explicit Array(const CUDA_ARRAY3D_DESCRIPTOR& of) { OK(cuArray3DCreate(&handle_, &of)); }
  Array(const Array&) = delete;
  ~Array() { OK(cuArrayDestroy(handle_)); }
  operator CUarray() const { return handle_; }

 private:
  CUarray handle_ = nullptr;
};

class Mipmapped {
 public:
  Mipmapped(const CUDA_ARRAY3D_DESCRIPTOR& of, unsigned levels) {
    OK(cuMipmappedArrayCreate(&handle_, &of, levels));
  }
  Mipmapped(const Mipmapped&) = delete;
  ~Mipmapped() { OK(cuMipmappedArrayDestroy(handle_)); }
  operator CUmipmappedArray() const { return handle_; }
  CUarray level(unsigned n) const {
    CUarray array = nullptr;
    OK(cuMipmappedArrayGetLevel(&array, handle_, n));
    return array;
  }

 private:
  CUmipmappedArray handle_ = nullptr;
};

}  // namespace conform
