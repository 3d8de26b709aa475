// Copies and fills. The kind picks the driver's call as the genuine runtime's does; cudaMemcpyDefault and
// host to host leave it to the unified call. Each function has a twin for programs compiled with a default
// stream per thread; both are one body that picks the driver's twin.
#include "tests/sim/runtime/copy.h"

#include "tests/sim/driver/checked.h"
#include "tests/sim/runtime/array.h"
#include "tests/sim/runtime/runtime.h"

#include <cstddef>

using namespace gpufence::sim::runtime;

namespace {

// Whose default stream a null stream means.
enum class Default { kLegacy, kPerThread };

template <typename Entry>
Entry pick(Default stream, Entry legacy, Entry per_thread) {
  return stream == Default::kPerThread ? per_thread : legacy;
}

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

bool valid(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

cudaError_t copy(Default stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0) return cudaSuccess;
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return from_driver(pick(stream, d.cuMemcpyHtoD_v2, d.cuMemcpyHtoD_v2_ptds)(address(to), from, bytes));
      case cudaMemcpyDeviceToHost:
        return from_driver(pick(stream, d.cuMemcpyDtoH_v2, d.cuMemcpyDtoH_v2_ptds)(to, address(from), bytes));
      case cudaMemcpyDeviceToDevice:
        return from_driver(
            pick(stream, d.cuMemcpyDtoD_v2, d.cuMemcpyDtoD_v2_ptds)(address(to), address(from), bytes));
      default:
        return from_driver(pick(stream, d.cuMemcpy, d.cuMemcpy_ptds)(address(to), address(from), bytes));
    }
  });
}

cudaError_t copy_async(Default def, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0) return cudaSuccess;
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return from_driver(
            pick(def, d.cuMemcpyHtoDAsync_v2, d.cuMemcpyHtoDAsync_v2_ptsz)(address(to), from, bytes, stream));
      case cudaMemcpyDeviceToHost:
        return from_driver(
            pick(def, d.cuMemcpyDtoHAsync_v2, d.cuMemcpyDtoHAsync_v2_ptsz)(to, address(from), bytes, stream));
      case cudaMemcpyDeviceToDevice:
        return from_driver(pick(def, d.cuMemcpyDtoDAsync_v2, d.cuMemcpyDtoDAsync_v2_ptsz)(
            address(to), address(from), bytes, stream));
      default:
        return from_driver(
            pick(def, d.cuMemcpyAsync, d.cuMemcpyAsync_ptsz)(address(to), address(from), bytes, stream));
    }
  });
}

struct Sides {
  CUmemorytype from;
  CUmemorytype to;
};

Sides sides(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
    case cudaMemcpyHostToDevice:
      return {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
    case cudaMemcpyDeviceToHost:
      return {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    case cudaMemcpyDeviceToDevice:
      return {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
    default:
      return {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
  }
}

// Which of the two address fields counts follows from the memory type; both are filled.
cudaError_t describe_2d(CUDA_MEMCPY2D& c, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                        size_t width, size_t height, cudaMemcpyKind kind) {
  if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  const Sides side = sides(kind);
  c = {};
  c.srcMemoryType = side.from;
  c.srcHost = from;
  c.srcDevice = address(from);
  c.srcPitch = from_pitch;
  c.dstMemoryType = side.to;
  c.dstHost = to;
  c.dstDevice = address(to);
  c.dstPitch = to_pitch;
  c.WidthInBytes = width;
  c.Height = height;
  return cudaSuccess;
}

cudaError_t copy_2d(Default stream, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                    size_t width, size_t height, cudaMemcpyKind kind) {
  return in_context([&](const Driver& d) -> cudaError_t {
    CUDA_MEMCPY2D c;
    const cudaError_t fits = describe_2d(c, to, to_pitch, from, from_pitch, width, height, kind);
    if (fits != cudaSuccess || width == 0 || height == 0) return fits;
    return from_driver(pick(stream, d.cuMemcpy2DUnaligned_v2, d.cuMemcpy2DUnaligned_v2_ptds)(&c));
  });
}

cudaError_t copy_2d_async(Default def, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                          size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return in_context([&](const Driver& d) -> cudaError_t {
    CUDA_MEMCPY2D c;
    const cudaError_t fits = describe_2d(c, to, to_pitch, from, from_pitch, width, height, kind);
    if (fits != cudaSuccess || width == 0 || height == 0) return fits;
    return from_driver(pick(def, d.cuMemcpy2DAsync_v2, d.cuMemcpy2DAsync_v2_ptsz)(&c, stream));
  });
}

// The geometry that CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER share, under the same field names.
template <typename DriverCopy, typename RuntimeCopy>
void describe_linear_3d(DriverCopy& c, const RuntimeCopy& asked, Sides side) {
  c.srcXInBytes = asked.srcPos.x;
  c.srcY = asked.srcPos.y;
  c.srcZ = asked.srcPos.z;
  c.srcMemoryType = side.from;
  c.srcHost = asked.srcPtr.ptr;
  c.srcDevice = address(asked.srcPtr.ptr);
  c.srcPitch = asked.srcPtr.pitch;
  c.srcHeight = asked.srcPtr.ysize;
  c.dstXInBytes = asked.dstPos.x;
  c.dstY = asked.dstPos.y;
  c.dstZ = asked.dstPos.z;
  c.dstMemoryType = side.to;
  c.dstHost = asked.dstPtr.ptr;
  c.dstDevice = address(asked.dstPtr.ptr);
  c.dstPitch = asked.dstPtr.pitch;
  c.dstHeight = asked.dstPtr.ysize;
  c.WidthInBytes = asked.extent.width;
  c.Height = asked.extent.height;
  c.Depth = asked.extent.depth;
}

bool empty(const cudaExtent& extent) {
  return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

// Makes bytes of elements; false: of more than there can be.
bool in_bytes(size_t& elements, const ArrayShape& shape) {
  const auto bytes = gpufence::sim::Checked(elements) * shape.element_bytes;
  elements = bytes.value();
  return bytes.fits();
}

// "If a CUDA array is participating in the copy, the extent is defined in terms of that array's elements",
// and so are the positions in it; only the driver knows how large these are.
template <typename DriverCopy, typename RuntimeCopy>
cudaError_t describe_arrays_3d(const Driver& driver, DriverCopy& c, const RuntimeCopy& asked) {
  ArrayShape source, target;
  if (asked.srcArray != nullptr) {
    if (const cudaError_t bad = shape_of(driver, asked.srcArray, &source); bad != cudaSuccess) return bad;
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = driver_array(asked.srcArray);
    if (!in_bytes(c.srcXInBytes, source)) return cudaErrorInvalidValue;
  }
  if (asked.dstArray != nullptr) {
    if (const cudaError_t bad = shape_of(driver, asked.dstArray, &target); bad != cudaSuccess) return bad;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = driver_array(asked.dstArray);
    if (!in_bytes(c.dstXInBytes, target)) return cudaErrorInvalidValue;
  }
  // "If both are arrays, they must have the same element size."
  if (asked.srcArray != nullptr && asked.dstArray != nullptr && source.element_bytes != target.element_bytes)
    return cudaErrorInvalidValue;
  if ((asked.srcArray != nullptr || asked.dstArray != nullptr) &&
      !in_bytes(c.WidthInBytes, asked.srcArray != nullptr ? source : target))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

template <typename Call>
cudaError_t copy_3d(const cudaMemcpy3DParms* asked, Call call) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (asked == nullptr) return cudaErrorInvalidValue;
    if (!valid(asked->kind)) return cudaErrorInvalidMemcpyDirection;
    if (empty(asked->extent)) return cudaSuccess;
    CUDA_MEMCPY3D c{};
    if (const cudaError_t bad = describe_copy(d, *asked, &c); bad != cudaSuccess) return bad;
    return from_driver(call(d, &c));
  });
}

template <typename Call>
cudaError_t copy_3d_peer(const cudaMemcpy3DPeerParms* asked, Call call) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (asked == nullptr) return cudaErrorInvalidValue;
    if (!runtime.valid(asked->srcDevice) || !runtime.valid(asked->dstDevice)) return cudaErrorInvalidDevice;
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    CUDA_MEMCPY3D_PEER c{};
    if (const cudaError_t got = runtime.primary(asked->srcDevice, &c.srcContext); got != cudaSuccess)
      return got;
    if (const cudaError_t got = runtime.primary(asked->dstDevice, &c.dstContext); got != cudaSuccess)
      return got;
    if (empty(asked->extent)) return cudaSuccess;
    describe_linear_3d(c, *asked, {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE});
    if (const cudaError_t bad = describe_arrays_3d(runtime.driver(), c, *asked); bad != cudaSuccess)
      return bad;
    return from_driver(call(runtime.driver(), &c));
  });
}

cudaError_t fill(Default stream, void* to, int value, size_t bytes) {
  return in_context([&](const Driver& d) {
    if (bytes == 0) return CUDA_SUCCESS;
    return pick(stream, d.cuMemsetD8_v2, d.cuMemsetD8_v2_ptds)(address(to), static_cast<unsigned char>(value),
                                                               bytes);
  });
}

cudaError_t fill_async(Default def, void* to, int value, size_t bytes, cudaStream_t stream) {
  return in_context([&](const Driver& d) {
    if (bytes == 0) return CUDA_SUCCESS;
    return pick(def, d.cuMemsetD8Async, d.cuMemsetD8Async_ptsz)(
        address(to), static_cast<unsigned char>(value), bytes, stream);
  });
}

cudaError_t fill_2d(Default stream, void* to, size_t pitch, int value, size_t width, size_t height) {
  return in_context([&](const Driver& d) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return pick(stream, d.cuMemsetD2D8_v2, d.cuMemsetD2D8_v2_ptds)(
        address(to), pitch, static_cast<unsigned char>(value), width, height);
  });
}

cudaError_t fill_2d_async(Default def, void* to, size_t pitch, int value, size_t width, size_t height,
                          cudaStream_t stream) {
  return in_context([&](const Driver& d) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return pick(def, d.cuMemsetD2D8Async, d.cuMemsetD2D8Async_ptsz)(
        address(to), pitch, static_cast<unsigned char>(value), width, height, stream);
  });
}

// The driver has no fill of three dimensions: one of two for each slice, or one in all where slices touch.
template <typename Fill2d>
cudaError_t fill_3d(cudaPitchedPtr to, cudaExtent extent, Fill2d fill_slice) {
  if (empty(extent)) return fill_slice(to.ptr, size_t{0}, size_t{0});
  const auto last = gpufence::sim::Checked(extent.depth - 1) * to.pitch * to.ysize + address(to.ptr);
  const auto rows = gpufence::sim::Checked(extent.height) * extent.depth;
  if (!last.fits() || !rows.fits()) return in_context([](const Driver&) { return cudaErrorInvalidValue; });
  if (extent.height == to.ysize) return fill_slice(to.ptr, extent.width, rows.value());
  for (size_t z = 0; z < extent.depth; ++z) {
    void* slice = static_cast<char*>(to.ptr) + z * to.pitch * to.ysize;
    if (const cudaError_t filled = fill_slice(slice, extent.width, extent.height); filled != cudaSuccess)
      return filled;
  }
  return cudaSuccess;
}

template <typename Call>
cudaError_t copy_peer(int to_device, int from_device, Call call) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (!runtime.valid(to_device) || !runtime.valid(from_device)) return cudaErrorInvalidDevice;
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    if (const cudaError_t got = runtime.primary(to_device, &to); got != cudaSuccess) return got;
    if (const cudaError_t got = runtime.primary(from_device, &from); got != cudaSuccess) return got;
    return from_driver(call(runtime.driver(), to, from));
  });
}

}  // namespace

namespace gpufence::sim::runtime {

cudaError_t describe_copy(const Driver& driver, const cudaMemcpy3DParms& asked, CUDA_MEMCPY3D* out) {
  if (!valid(asked.kind)) return cudaErrorInvalidMemcpyDirection;
  *out = {};
  describe_linear_3d(*out, asked, sides(asked.kind));
  return describe_arrays_3d(driver, *out, asked);
}

cudaError_t describe_row(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D* out) {
  if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
  cudaMemcpy3DParms asked{};
  asked.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  asked.dstPtr = {to, bytes, bytes, 1};
  asked.extent = {bytes, 1, 1};
  asked.kind = kind;
  *out = {};
  describe_linear_3d(*out, asked, sides(kind));
  return cudaSuccess;
}

cudaError_t tell_copy(const Driver& driver, const CUDA_MEMCPY3D& c, cudaMemcpy3DParms* out) {
  *out = {};
  ArrayShape source{1, 0}, target{1, 0};
  out->srcArray = reinterpret_cast<cudaArray_t>(c.srcArray);
  out->dstArray = reinterpret_cast<cudaArray_t>(c.dstArray);
  if (c.srcArray != nullptr)
    if (const cudaError_t bad = shape_of(driver, out->srcArray, &source); bad != cudaSuccess) return bad;
  if (c.dstArray != nullptr)
    if (const cudaError_t bad = shape_of(driver, out->dstArray, &target); bad != cudaSuccess) return bad;
  const auto pointer = [](CUmemorytype type, const void* host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  };
  if (c.srcArray == nullptr)
    out->srcPtr = {pointer(c.srcMemoryType, c.srcHost, c.srcDevice), c.srcPitch, c.WidthInBytes, c.srcHeight};
  if (c.dstArray == nullptr)
    out->dstPtr = {pointer(c.dstMemoryType, c.dstHost, c.dstDevice), c.dstPitch, c.WidthInBytes, c.dstHeight};
  out->srcPos = {c.srcXInBytes / source.element_bytes, c.srcY, c.srcZ};
  out->dstPos = {c.dstXInBytes / target.element_bytes, c.dstY, c.dstZ};
  out->extent = {c.WidthInBytes / (c.srcArray != nullptr ? source.element_bytes : target.element_bytes),
                 c.Height, c.Depth};
  const bool from_host = c.srcMemoryType == CU_MEMORYTYPE_HOST,
             to_host = c.dstMemoryType == CU_MEMORYTYPE_HOST;
  const bool found_out = c.srcMemoryType == CU_MEMORYTYPE_UNIFIED || c.dstMemoryType == CU_MEMORYTYPE_UNIFIED;
  out->kind = found_out              ? cudaMemcpyDefault
              : from_host && to_host ? cudaMemcpyHostToHost
              : from_host            ? cudaMemcpyHostToDevice
              : to_host              ? cudaMemcpyDeviceToHost
                                     : cudaMemcpyDeviceToDevice;
  return cudaSuccess;
}

}  // namespace gpufence::sim::runtime

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(Default::kLegacy, to, from, bytes, kind);
}
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(Default::kPerThread, to, from, bytes, kind);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_async(Default::kLegacy, to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return copy_async(Default::kPerThread, to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return copy_2d(Default::kLegacy, to, to_pitch, from, from_pitch, width, height, kind);
}
cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind) {
  return copy_2d(Default::kPerThread, to, to_pitch, from, from_pitch, width, height, kind);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d_async(Default::kLegacy, to, to_pitch, from, from_pitch, width, height, kind, stream);
}
cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_2d_async(Default::kPerThread, to, to_pitch, from, from_pitch, width, height, kind, stream);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* asked) {
  return copy_3d(asked, [](const Driver& d, const CUDA_MEMCPY3D* c) { return d.cuMemcpy3D_v2(c); });
}
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* asked) {
  return copy_3d(asked, [](const Driver& d, const CUDA_MEMCPY3D* c) { return d.cuMemcpy3D_v2_ptds(c); });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* asked, cudaStream_t stream) {
  return copy_3d(asked,
                 [&](const Driver& d, const CUDA_MEMCPY3D* c) { return d.cuMemcpy3DAsync_v2(c, stream); });
}
cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms* asked, cudaStream_t stream) {
  return copy_3d(
      asked, [&](const Driver& d, const CUDA_MEMCPY3D* c) { return d.cuMemcpy3DAsync_v2_ptsz(c, stream); });
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* asked) {
  return copy_3d_peer(asked,
                      [](const Driver& d, const CUDA_MEMCPY3D_PEER* c) { return d.cuMemcpy3DPeer(c); });
}
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* asked) {
  return copy_3d_peer(asked,
                      [](const Driver& d, const CUDA_MEMCPY3D_PEER* c) { return d.cuMemcpy3DPeer_ptds(c); });
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* asked, cudaStream_t stream) {
  return copy_3d_peer(
      asked, [&](const Driver& d, const CUDA_MEMCPY3D_PEER* c) { return d.cuMemcpy3DPeerAsync(c, stream); });
}
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const cudaMemcpy3DPeerParms* asked, cudaStream_t stream) {
  return copy_3d_peer(asked, [&](const Driver& d, const CUDA_MEMCPY3D_PEER* c) {
    return d.cuMemcpy3DPeerAsync_ptsz(c, stream);
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return copy_peer(to_device, from_device,
                   [&](const Driver& d, CUcontext to_context, CUcontext from_context) {
                     if (bytes == 0) return CUDA_SUCCESS;
                     return d.cuMemcpyPeer(address(to), to_context, address(from), from_context, bytes);
                   });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return copy_peer(
      to_device, from_device, [&](const Driver& d, CUcontext to_context, CUcontext from_context) {
        if (bytes == 0) return CUDA_SUCCESS;
        return d.cuMemcpyPeerAsync(address(to), to_context, address(from), from_context, bytes, stream);
      });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return fill(Default::kLegacy, to, value, bytes);
}
cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return fill(Default::kPerThread, to, value, bytes);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill_async(Default::kLegacy, to, value, bytes, stream);
}
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill_async(Default::kPerThread, to, value, bytes, stream);
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill_2d(Default::kLegacy, to, pitch, value, width, height);
}
cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill_2d(Default::kPerThread, to, pitch, value, width, height);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill_2d_async(Default::kLegacy, to, pitch, value, width, height, stream);
}
cudaError_t cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t stream) {
  return fill_2d_async(Default::kPerThread, to, pitch, value, width, height, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return fill_3d(to, extent, [&](void* slice, size_t width, size_t height) {
    return fill_2d(Default::kLegacy, slice, to.pitch, value, width, height);
  });
}
cudaError_t cudaMemset3D_ptds(cudaPitchedPtr to, int value, cudaExtent extent) {
  return fill_3d(to, extent, [&](void* slice, size_t width, size_t height) {
    return fill_2d(Default::kPerThread, slice, to.pitch, value, width, height);
  });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return fill_3d(to, extent, [&](void* slice, size_t width, size_t height) {
    return fill_2d_async(Default::kLegacy, slice, to.pitch, value, width, height, stream);
  });
}
cudaError_t cudaMemset3DAsync_ptsz(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return fill_3d(to, extent, [&](void* slice, size_t width, size_t height) {
    return fill_2d_async(Default::kPerThread, slice, to.pitch, value, width, height, stream);
  });
}

}  // extern "C"

// ---- Batches; the two interfaces lay operations and attributes out alike ----

static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
static_assert(offsetof(cudaMemcpy3DBatchOp, srcAccessOrder) ==
              offsetof(CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder));

namespace {

// The driver's declarations promise less than they keep: it changes none of these.
template <class To, class From>
To* drivers(From* given) {
  return const_cast<To*>(reinterpret_cast<const To*>(given));
}

}  // namespace

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes, size_t count,
                                 cudaMemcpyAttributes* attributes, size_t* first_of, size_t attribute_count,
                                 cudaStream_t stream) {
  return in_context([&](const Driver& d) {
    return d.cuMemcpyBatchAsync_v2(drivers<CUdeviceptr>(to), drivers<CUdeviceptr>(from),
                                   drivers<size_t>(bytes), count, drivers<CUmemcpyAttributes>(attributes),
                                   first_of, attribute_count, stream);
  });
}
cudaError_t cudaMemcpyBatchAsync_ptsz(void* const* to, const void* const* from, const size_t* bytes,
                                      size_t count, cudaMemcpyAttributes* attributes, size_t* first_of,
                                      size_t attribute_count, cudaStream_t stream) {
  return in_context([&](const Driver& d) {
    return d.cuMemcpyBatchAsync_v2_ptsz(
        drivers<CUdeviceptr>(to), drivers<CUdeviceptr>(from), drivers<size_t>(bytes), count,
        drivers<CUmemcpyAttributes>(attributes), first_of, attribute_count, stream);
  });
}
cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp* copies, unsigned long long flags,
                                   cudaStream_t stream) {
  return in_context([&](const Driver& d) {
    return d.cuMemcpy3DBatchAsync_v2(count, drivers<CUDA_MEMCPY3D_BATCH_OP>(copies), flags, stream);
  });
}
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t count, cudaMemcpy3DBatchOp* copies, unsigned long long flags,
                                        cudaStream_t stream) {
  return in_context([&](const Driver& d) {
    return d.cuMemcpy3DBatchAsync_v2_ptsz(count, drivers<CUDA_MEMCPY3D_BATCH_OP>(copies), flags, stream);
  });
}
