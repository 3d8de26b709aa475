// Arrays of the runtime API: each is the driver's cuArray3DCreate or cuMipmappedArrayCreate, with the
// runtime's words for a format; and the copies into and out of them.
#include "tests/sim/runtime/array.h"

#include "tests/sim/driver/checked.h"

#include <algorithm>
#include <type_traits>

using namespace gpufence::sim::runtime;

bool gpufence::sim::runtime::format_of(const cudaChannelFormatDesc& d, Format* out) {
  const int bits[] = {d.x, d.y, d.z, d.w};
  unsigned channels = 0;
  while (channels < 4 && bits[channels] != 0) ++channels;
  // Behind the last channel there is none, and all are of one width.
  for (unsigned i = 0; i < 4; ++i)
    if (bits[i] != (i < channels ? d.x : 0)) return false;
  const auto choose = [&](CUarray_format one, CUarray_format two, CUarray_format four) {
    if (d.x != 8 && d.x != 16 && d.x != 32) return false;
    *out = {d.x == 8 ? one : d.x == 16 ? two : four, channels};
    return out->format != CU_AD_FORMAT_MAX && channels != 3 && channels != 0;
  };
  switch (d.f) {
    case cudaChannelFormatKindSigned:
      return choose(CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32);
    case cudaChannelFormatKindUnsigned:
      return choose(CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32);
    case cudaChannelFormatKindFloat:
      return choose(CU_AD_FORMAT_MAX, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT);
    case cudaChannelFormatKindNV12:
      *out = {CU_AD_FORMAT_NV12, 3};
      return d.x == 8 && d.y == 8 && d.z == 8 && d.w == 0;
    default:
      break;
  }
  // The normalised formats say their width and channels in their names, and stand in both lists in one order.
  constexpr unsigned kChannels[] = {1, 2, 4};
  const auto named = [&](int first, CUarray_format of, int width) {
    const int at = static_cast<int>(d.f) - first;
    if (at < 0 || at > 2) return false;
    *out = {static_cast<CUarray_format>(of + at), kChannels[at]};
    return d.x == width && channels == kChannels[at];
  };
  return named(cudaChannelFormatKindUnsignedNormalized8X1, CU_AD_FORMAT_UNORM_INT8X1, 8) ||
         named(cudaChannelFormatKindUnsignedNormalized16X1, CU_AD_FORMAT_UNORM_INT16X1, 16) ||
         named(cudaChannelFormatKindSignedNormalized8X1, CU_AD_FORMAT_SNORM_INT8X1, 8) ||
         named(cudaChannelFormatKindSignedNormalized16X1, CU_AD_FORMAT_SNORM_INT16X1, 16);
}

cudaChannelFormatDesc gpufence::sim::runtime::description_of(CUarray_format format, unsigned channels) {
  const auto made = [&](int bits, cudaChannelFormatKind kind) {
    return cudaChannelFormatDesc{bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0,
                                 channels > 3 ? bits : 0, kind};
  };
  const auto named = [&](CUarray_format first, int bits, int kind) {
    return made(bits, static_cast<cudaChannelFormatKind>(kind + (format - first)));
  };
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return made(8, cudaChannelFormatKindUnsigned);
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return made(16, cudaChannelFormatKindUnsigned);
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return made(32, cudaChannelFormatKindUnsigned);
    case CU_AD_FORMAT_SIGNED_INT8:
      return made(8, cudaChannelFormatKindSigned);
    case CU_AD_FORMAT_SIGNED_INT16:
      return made(16, cudaChannelFormatKindSigned);
    case CU_AD_FORMAT_SIGNED_INT32:
      return made(32, cudaChannelFormatKindSigned);
    case CU_AD_FORMAT_HALF:
      return made(16, cudaChannelFormatKindFloat);
    case CU_AD_FORMAT_FLOAT:
      return made(32, cudaChannelFormatKindFloat);
    case CU_AD_FORMAT_NV12:
      return {8, 8, 8, 0, cudaChannelFormatKindNV12};
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
      return named(CU_AD_FORMAT_UNORM_INT8X1, 8, cudaChannelFormatKindUnsignedNormalized8X1);
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
      return named(CU_AD_FORMAT_UNORM_INT16X1, 16, cudaChannelFormatKindUnsignedNormalized16X1);
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return named(CU_AD_FORMAT_SNORM_INT8X1, 8, cudaChannelFormatKindSignedNormalized8X1);
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return named(CU_AD_FORMAT_SNORM_INT16X1, 16, cudaChannelFormatKindSignedNormalized16X1);
    default:
      return {};
  }
}

namespace {

cudaError_t describe(CUDA_ARRAY3D_DESCRIPTOR* out, const cudaChannelFormatDesc* d, const cudaExtent& extent,
                     unsigned flags) {
  Format format{};
  if (d == nullptr) return cudaErrorInvalidValue;
  if (!format_of(*d, &format)) return cudaErrorInvalidChannelDescriptor;
  *out = {extent.width, extent.height, extent.depth, format.format, format.channels, flags};
  return cudaSuccess;
}

cudaError_t malloc_array(cudaArray_t* out, const cudaChannelFormatDesc* d, const cudaExtent& extent,
                         unsigned flags) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    if (out == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = describe(&descriptor, d, extent, flags); bad != cudaSuccess) return bad;
    return from_driver(driver.cuArray3DCreate_v2(reinterpret_cast<CUarray*>(out), &descriptor));
  });
}

cudaError_t array_info(const Driver& driver, cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR* out) {
  return from_driver(driver.cuArray3DGetDescriptor_v2(out, driver_array(array)));
}

template <class Ask>
cudaError_t tell_requirements(cudaArrayMemoryRequirements* out, int device, Ask ask) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    Runtime& runtime = Runtime::get();
    CUDA_ARRAY_MEMORY_REQUIREMENTS told{};
    if (!runtime.valid(device)) return cudaErrorInvalidDevice;
    if (out == nullptr) return cudaErrorInvalidValue;
    if (const CUresult bad = ask(driver, &told, runtime.handle(device)); bad != CUDA_SUCCESS)
      return from_driver(bad);
    *out = {};
    out->size = told.size;
    out->alignment = told.alignment;
    return cudaSuccess;
  });
}

template <class Ask>
cudaError_t tell_properties(cudaArraySparseProperties* out, Ask ask) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUDA_ARRAY_SPARSE_PROPERTIES told{};
    if (out == nullptr) return cudaErrorInvalidValue;
    if (const CUresult bad = ask(driver, &told); bad != CUDA_SUCCESS) return from_driver(bad);
    *out = {};
    out->tileExtent.width = told.tileExtent.width;
    out->tileExtent.height = told.tileExtent.height;
    out->tileExtent.depth = told.tileExtent.depth;
    out->miptailFirstLevel = told.miptailFirstLevel;
    out->miptailSize = told.miptailSize;
    out->flags = told.flags;
    return cudaSuccess;
  });
}

// ---- Copies ----

enum class Default { kLegacy, kPerThread };

// Where a copy is put: in a stream, or done before the call returns.
struct How {
  Default stream;
  bool async;
  cudaStream_t handle;
};
constexpr How kNow = {Default::kLegacy, false, nullptr};
constexpr How kNowPerThread = {Default::kPerThread, false, nullptr};
How in(cudaStream_t stream) {
  return {Default::kLegacy, true, stream};
}
How in_ptsz(cudaStream_t stream) {
  return {Default::kPerThread, true, stream};
}

cudaError_t submit(const Driver& d, const CUDA_MEMCPY2D& c, const How& how) {
  if (c.WidthInBytes == 0 || c.Height == 0) return cudaSuccess;
  const bool per_thread = how.stream == Default::kPerThread;
  if (how.async)
    return from_driver((per_thread ? d.cuMemcpy2DAsync_v2_ptsz : d.cuMemcpy2DAsync_v2)(&c, how.handle));
  return from_driver((per_thread ? d.cuMemcpy2DUnaligned_v2_ptds : d.cuMemcpy2DUnaligned_v2)(&c));
}

// Which kinds of memory an array may face.
bool outward(cudaMemcpyKind kind) {  // from an array
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}
bool inward(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

void set_source(CUDA_MEMCPY2D& c, const void* from, size_t pitch, cudaMemcpyKind kind) {
  c.srcMemoryType = kind == cudaMemcpyHostToDevice     ? CU_MEMORYTYPE_HOST
                    : kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                       : CU_MEMORYTYPE_UNIFIED;
  c.srcHost = from;
  c.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  c.srcPitch = pitch;
}
void set_target(CUDA_MEMCPY2D& c, void* to, size_t pitch, cudaMemcpyKind kind) {
  c.dstMemoryType = kind == cudaMemcpyDeviceToHost     ? CU_MEMORYTYPE_HOST
                    : kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                       : CU_MEMORYTYPE_UNIFIED;
  c.dstHost = to;
  c.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  c.dstPitch = pitch;
}
void set_source(CUDA_MEMCPY2D& c, cudaArray_const_t from, size_t x, size_t y) {
  c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  c.srcArray = driver_array(from);
  c.srcXInBytes = x;
  c.srcY = y;
}
void set_target(CUDA_MEMCPY2D& c, cudaArray_t to, size_t x, size_t y) {
  c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  c.dstArray = driver_array(to);
  c.dstXInBytes = x;
  c.dstY = y;
}

cudaError_t to_array_2d(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                        size_t height, cudaMemcpyKind kind, const How& how) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (!inward(kind)) return cudaErrorInvalidMemcpyDirection;
    if (width > pitch && height > 1) return cudaErrorInvalidPitchValue;
    CUDA_MEMCPY2D c{};
    set_source(c, from, pitch, kind);
    set_target(c, to, x, y);
    c.WidthInBytes = width;
    c.Height = height;
    return submit(d, c, how);
  });
}

cudaError_t from_array_2d(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                          size_t height, cudaMemcpyKind kind, const How& how) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (!outward(kind)) return cudaErrorInvalidMemcpyDirection;
    if (width > pitch && height > 1) return cudaErrorInvalidPitchValue;
    CUDA_MEMCPY2D c{};
    set_source(c, from, x, y);
    set_target(c, to, pitch, kind);
    c.WidthInBytes = width;
    c.Height = height;
    return submit(d, c, how);
  });
}

cudaError_t array_to_array_2d(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                              size_t from_y, size_t width, size_t height, cudaMemcpyKind kind,
                              const How& how) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    CUDA_MEMCPY2D c{};
    set_source(c, from, from_x, from_y);
    set_target(c, to, to_x, to_y);
    c.WidthInBytes = width;
    c.Height = height;
    return submit(d, c, how);
  });
}

// A stretch of bytes that begins in a row of an array and runs on into the following ones, as rectangles: the
// rest of the first row, whole rows, the beginning of the last. `rectangle(x, y, width, height, bytes before
// it)`.
template <class Rectangle>
cudaError_t stretch(size_t x, size_t y, size_t bytes, size_t row_bytes, Rectangle rectangle) {
  size_t done = 0;
  if (x >= row_bytes) return bytes == 0 ? cudaSuccess : cudaErrorInvalidValue;
  while (done < bytes) {
    const size_t left = bytes - done;
    const bool whole = x == 0 && left >= row_bytes;
    const size_t width = std::min(left, row_bytes - x), height = whole ? left / row_bytes : 1;
    if (const cudaError_t bad = rectangle(x, y, width, height, done); bad != cudaSuccess) return bad;
    done += width * height;
    y += height;
    x = 0;
  }
  return cudaSuccess;
}

cudaError_t to_array(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, cudaMemcpyKind kind,
                     const How& how) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (!inward(kind)) return cudaErrorInvalidMemcpyDirection;
    ArrayShape shape;
    if (const cudaError_t bad = shape_of(d, to, &shape); bad != cudaSuccess) return bad;
    return stretch(x, y, bytes, shape.row_bytes,
                   [&](size_t at_x, size_t at_y, size_t width, size_t height, size_t done) {
                     CUDA_MEMCPY2D c{};
                     set_source(c, static_cast<const char*>(from) + done, width, kind);
                     set_target(c, to, at_x, at_y);
                     c.WidthInBytes = width;
                     c.Height = height;
                     return submit(d, c, how);
                   });
  });
}

cudaError_t from_array(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                       cudaMemcpyKind kind, const How& how) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (!outward(kind)) return cudaErrorInvalidMemcpyDirection;
    ArrayShape shape;
    if (const cudaError_t bad = shape_of(d, from, &shape); bad != cudaSuccess) return bad;
    return stretch(x, y, bytes, shape.row_bytes,
                   [&](size_t at_x, size_t at_y, size_t width, size_t height, size_t done) {
                     CUDA_MEMCPY2D c{};
                     set_source(c, from, at_x, at_y);
                     set_target(c, static_cast<char*>(to) + done, width, kind);
                     c.WidthInBytes = width;
                     c.Height = height;
                     return submit(d, c, how);
                   });
  });
}

}  // namespace

cudaError_t gpufence::sim::runtime::shape_of(const Driver& driver, cudaArray_const_t array, ArrayShape* out) {
  CUDA_ARRAY3D_DESCRIPTOR d{};
  if (const cudaError_t bad = array_info(driver, array, &d); bad != cudaSuccess) return bad;
  const cudaChannelFormatDesc bits = description_of(d.Format, d.NumChannels);
  out->element_bytes = static_cast<size_t>(bits.x + bits.y + bits.z + bits.w) / 8;
  if (d.Format == CU_AD_FORMAT_NV12) out->element_bytes = 1;
  out->row_bytes = out->element_bytes * d.Width;
  return cudaSuccess;
}

cudaError_t cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* d, size_t width, size_t height,
                            unsigned int flags) {
  return malloc_array(out, d, {width, height, 0}, flags);
}
cudaError_t cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* d, cudaExtent extent,
                              unsigned int flags) {
  return malloc_array(out, d, extent, flags);
}
cudaError_t cudaFreeArray(cudaArray_t array) {
  return in_context([&](const Driver& driver) {
    return array == nullptr ? CUDA_SUCCESS : driver.cuArrayDestroy(driver_array(array));
  });
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* d, cudaExtent* extent, unsigned int* flags,
                             cudaArray_t array) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUDA_ARRAY3D_DESCRIPTOR told{};
    if (const cudaError_t bad = array_info(driver, array, &told); bad != cudaSuccess) return bad;
    if (d != nullptr) *d = description_of(told.Format, told.NumChannels);
    if (extent != nullptr) *extent = {told.Width, told.Height, told.Depth};
    if (flags != nullptr) *flags = told.Flags;
    return cudaSuccess;
  });
}
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* d, cudaArray_const_t array) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUDA_ARRAY3D_DESCRIPTOR told{};
    if (d == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = array_info(driver, array, &told); bad != cudaSuccess) return bad;
    *d = description_of(told.Format, told.NumChannels);
    return cudaSuccess;
  });
}
cudaError_t cudaArrayGetPlane(cudaArray_t* out, cudaArray_t array, unsigned int plane) {
  return in_context([&](const Driver& driver) {
    return driver.cuArrayGetPlane(reinterpret_cast<CUarray*>(out), driver_array(array), plane);
  });
}
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* out, const cudaChannelFormatDesc* d,
                                     cudaExtent extent, unsigned int levels, unsigned int flags) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    if (out == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = describe(&descriptor, d, extent, flags); bad != cudaSuccess) return bad;
    return from_driver(
        driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(out), &descriptor, levels));
  });
}
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return in_context([&](const Driver& driver) {
    return array == nullptr ? CUDA_SUCCESS : driver.cuMipmappedArrayDestroy(driver_array(array));
  });
}
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* out, cudaMipmappedArray_const_t array,
                                       unsigned int level) {
  return in_context([&](const Driver& driver) {
    return driver.cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(out), driver_array(array), level);
  });
}

cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* out, cudaArray_t array, int device) {
  return tell_requirements(out, device, [&](const Driver& driver, auto* told, CUdevice handle) {
    return driver.cuArrayGetMemoryRequirements(told, driver_array(array), handle);
  });
}
cudaError_t cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements* out,
                                                    cudaMipmappedArray_t array, int device) {
  return tell_requirements(out, device, [&](const Driver& driver, auto* told, CUdevice handle) {
    return driver.cuMipmappedArrayGetMemoryRequirements(told, driver_array(array), handle);
  });
}
cudaError_t cudaArrayGetSparseProperties(cudaArraySparseProperties* out, cudaArray_t array) {
  return tell_properties(out, [&](const Driver& driver, auto* told) {
    return driver.cuArrayGetSparseProperties(told, driver_array(array));
  });
}
cudaError_t cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties* out,
                                                  cudaMipmappedArray_t array) {
  return tell_properties(out, [&](const Driver& driver, auto* told) {
    return driver.cuMipmappedArrayGetSparseProperties(told, driver_array(array));
  });
}

#define GPUFENCE_ARRAY_COPIES(suffix, how)                                                                  \
  cudaError_t cudaMemcpy2DToArray##suffix(cudaArray_t to, size_t x, size_t y, const void* from,             \
                                          size_t pitch, size_t width, size_t height, cudaMemcpyKind kind) { \
    return to_array_2d(to, x, y, from, pitch, width, height, kind, how);                                    \
  }                                                                                                         \
  cudaError_t cudaMemcpy2DFromArray##suffix(void* to, size_t pitch, cudaArray_const_t from, size_t x,       \
                                            size_t y, size_t width, size_t height, cudaMemcpyKind kind) {   \
    return from_array_2d(to, pitch, from, x, y, width, height, kind, how);                                  \
  }                                                                                                         \
  cudaError_t cudaMemcpy2DArrayToArray##suffix(cudaArray_t to, size_t to_x, size_t to_y,                    \
                                               cudaArray_const_t from, size_t from_x, size_t from_y,        \
                                               size_t width, size_t height, cudaMemcpyKind kind) {          \
    return array_to_array_2d(to, to_x, to_y, from, from_x, from_y, width, height, kind, how);               \
  }                                                                                                         \
  cudaError_t cudaMemcpyToArray##suffix(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes, \
                                        cudaMemcpyKind kind) {                                              \
    return to_array(to, x, y, from, bytes, kind, how);                                                      \
  }                                                                                                         \
  cudaError_t cudaMemcpyFromArray##suffix(void* to, cudaArray_const_t from, size_t x, size_t y,             \
                                          size_t bytes, cudaMemcpyKind kind) {                              \
    return from_array(to, from, x, y, bytes, kind, how);                                                    \
  }
extern "C" {
GPUFENCE_ARRAY_COPIES(, kNow)
GPUFENCE_ARRAY_COPIES(_ptds, kNowPerThread)

#define GPUFENCE_ARRAY_COPIES_ASYNC(suffix, how)                                                             \
  cudaError_t cudaMemcpy2DToArrayAsync##suffix(cudaArray_t to, size_t x, size_t y, const void* from,         \
                                               size_t pitch, size_t width, size_t height,                    \
                                               cudaMemcpyKind kind, cudaStream_t stream) {                   \
    return to_array_2d(to, x, y, from, pitch, width, height, kind, how(stream));                             \
  }                                                                                                          \
  cudaError_t cudaMemcpy2DFromArrayAsync##suffix(void* to, size_t pitch, cudaArray_const_t from, size_t x,   \
                                                 size_t y, size_t width, size_t height, cudaMemcpyKind kind, \
                                                 cudaStream_t stream) {                                      \
    return from_array_2d(to, pitch, from, x, y, width, height, kind, how(stream));                           \
  }                                                                                                          \
  cudaError_t cudaMemcpyToArrayAsync##suffix(cudaArray_t to, size_t x, size_t y, const void* from,           \
                                             size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {       \
    return to_array(to, x, y, from, bytes, kind, how(stream));                                               \
  }                                                                                                          \
  cudaError_t cudaMemcpyFromArrayAsync##suffix(void* to, cudaArray_const_t from, size_t x, size_t y,         \
                                               size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {     \
    return from_array(to, from, x, y, bytes, kind, how(stream));                                             \
  }
GPUFENCE_ARRAY_COPIES_ASYNC(, in)
GPUFENCE_ARRAY_COPIES_ASYNC(_ptsz, in_ptsz)
}

// ---- Bytes from array to array: the driver counts them from each array's start ----

namespace {

cudaError_t array_to_array(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                           size_t from_y, size_t bytes, cudaMemcpyKind kind, bool per_thread) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    ArrayShape to_shape, from_shape;
    if (const cudaError_t bad = shape_of(d, to, &to_shape); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = shape_of(d, from, &from_shape); bad != cudaSuccess) return bad;
    if (to_x >= to_shape.row_bytes || from_x >= from_shape.row_bytes) return cudaErrorInvalidValue;
    const gpufence::sim::Checked into = gpufence::sim::Checked(to_y) * to_shape.row_bytes + to_x;
    const gpufence::sim::Checked out_of = gpufence::sim::Checked(from_y) * from_shape.row_bytes + from_x;
    if (!into.fits() || !out_of.fits()) return cudaErrorInvalidValue;
    return from_driver((per_thread ? d.cuMemcpyAtoA_v2_ptds : d.cuMemcpyAtoA_v2)(
        driver_array(to), into.value(), driver_array(from), out_of.value(), bytes));
  });
}

}  // namespace

cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                   size_t from_x, size_t from_y, size_t bytes, cudaMemcpyKind kind) {
  return array_to_array(to, to_x, to_y, from, from_x, from_y, bytes, kind, false);
}
cudaError_t cudaMemcpyArrayToArray_ptds(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                        size_t from_x, size_t from_y, size_t bytes, cudaMemcpyKind kind) {
  return array_to_array(to, to_x, to_y, from, from_x, from_y, bytes, kind, true);
}
