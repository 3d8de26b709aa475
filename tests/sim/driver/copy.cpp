// Copies and memsets, in every version and per-thread twin; each is a function of its own, as programs and
// fences tell entry points apart by address. They are done when the call returns, the Async ones too.
#include <cstring>

#include "driver.h"

using namespace gpufence::sim;

namespace {

// How the caller says an address is to be read: as a device's, as any of the host's, or "find out".
enum class Side { device, host, unified };

bool reachable(uintptr_t address, uint64_t bytes, Side side) {
  Found found;
  if (find(address, found)) {
    if (found.host && side != Side::device) return true;  // the rest of the buffer need not be page-locked
    return bytes <= found.bytes - (address - found.base);
  }
  // Addresses of a GPU that no allocation covers; else memory of the program, which only it can vouch for.
  return side != Side::device && address != 0 && owner_of(address) == nullptr;
}

CUresult copy(uintptr_t to, Side to_side, uintptr_t from, Side from_side, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!reachable(to, bytes, to_side) || !reachable(from, bytes, from_side)) return CUDA_ERROR_INVALID_VALUE;
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

CUresult copy_call(const char* name, uintptr_t to, Side to_side, uintptr_t from, Side from_side,
                   uint64_t bytes, CUstream stream = nullptr) {
  return in_context(name, [&](Context&) {
    Stream* on = nullptr;
    return stream_of(stream, false, *current_context(), &on) == CUDA_SUCCESS ? copy(to, to_side, from, from_side, bytes) : CUDA_ERROR_INVALID_HANDLE;
  });
}

uintptr_t host(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

CUresult peer_copy(const char* name, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                   CUcontext from_context, uint64_t bytes, CUstream stream = nullptr) {
  return in_context(name, [&](Context&) {
    if (Stream* on = nullptr; stream_of(stream, false, *current_context(), &on) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
    if (driver().contexts.check(to_context) == nullptr || driver().contexts.check(from_context) == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
    return copy(to, Side::unified, from, Side::unified, bytes);
  });
}

// One end of a 2D or 3D copy.
struct End {
  uintptr_t base;
  Side side;
  uint64_t x, y, z, pitch, height;

  uint64_t offset(uint64_t row, uint64_t slice) const { return ((z + slice) * height + y + row) * pitch + x; }
};

template <class Copy>
bool end_of(const Copy&, CUmemorytype type, const void* in_host, uint64_t in_device, End& end) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      end.base = host(in_host);
      end.side = Side::host;
      return true;
    case CU_MEMORYTYPE_DEVICE:
      end.base = in_device;
      end.side = Side::device;
      return true;
    case CU_MEMORYTYPE_UNIFIED:
      end.base = in_device;
      end.side = Side::unified;
      return true;
    default:
      return false;  // arrays come with another chapter
  }
}

CUresult copy_box(const End& to, const End& from, uint64_t width, uint64_t height, uint64_t depth) {
  if (width == 0 || height == 0 || depth == 0) return CUDA_SUCCESS;
  for (const End* end : {&to, &from}) {
    // A pitch of 0 is allowed where there is one row, a height of 0 where there is one slice.
    if ((height > 1 || depth > 1 || end->y > 0 || end->z > 0) && end->pitch < end->x + width)
      return CUDA_ERROR_INVALID_VALUE;
    if ((depth > 1 || end->z > 0) && end->height < end->y + height) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t first = end->offset(0, 0), last = end->offset(height - 1, depth - 1) + width;
    if (last < first || !reachable(end->base + first, last - first, end->side))
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (uint64_t slice = 0; slice < depth; ++slice)
    for (uint64_t row = 0; row < height; ++row)
      memmove(reinterpret_cast<void*>(to.base + to.offset(row, slice)),
              reinterpret_cast<const void*>(from.base + from.offset(row, slice)), width);
  return CUDA_SUCCESS;
}

template <class Copy>
CUresult copy_2d(const char* name, const Copy* c, CUstream stream = nullptr) {
  return in_context(name, [&](Context&) {
    if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (Stream* on = nullptr; stream_of(stream, false, *current_context(), &on) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
    End to{0, Side::host, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0};
    End from{0, Side::host, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0};
    if (!end_of(*c, c->dstMemoryType, c->dstHost, c->dstDevice, to) ||
        !end_of(*c, c->srcMemoryType, c->srcHost, c->srcDevice, from))
      return CUDA_ERROR_INVALID_VALUE;
    return copy_box(to, from, c->WidthInBytes, c->Height, 1);
  });
}

// CUDA_MEMCPY3D of both ABIs, and CUDA_MEMCPY3D_PEER.
template <class Copy>
CUresult copy_3d(const char* name, const Copy* c, CUstream stream = nullptr) {
  return in_context(name, [&](Context&) {
    if (c == nullptr || c->srcLOD != 0 || c->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
    if (Stream* on = nullptr; stream_of(stream, false, *current_context(), &on) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
    End to{0, Side::host, c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight};
    End from{0, Side::host, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight};
    if (!end_of(*c, c->dstMemoryType, c->dstHost, c->dstDevice, to) ||
        !end_of(*c, c->srcMemoryType, c->srcHost, c->srcDevice, from))
      return CUDA_ERROR_INVALID_VALUE;
    return copy_box(to, from, c->WidthInBytes, c->Height, c->Depth);
  });
}

template <class Element>
CUresult set_2d(const char* name, uintptr_t to, uint64_t pitch, Element value, uint64_t width,
                uint64_t height, CUstream stream = nullptr) {
  return in_context(name, [&](Context&) {
    if (Stream* on = nullptr; stream_of(stream, false, *current_context(), &on) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    if (to % sizeof(Element) != 0 || width > UINT64_MAX / sizeof(Element)) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t row_bytes = width * sizeof(Element);
    if (height > 1 && (pitch < row_bytes || pitch % sizeof(Element) != 0)) return CUDA_ERROR_INVALID_VALUE;
    if (!reachable(to, (height - 1) * pitch + row_bytes, Side::device)) return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t row = 0; row < height; ++row) {
      auto* at = reinterpret_cast<Element*>(to + row * pitch);
      if constexpr (sizeof(Element) == 1) {
        memset(at, value, width);
      } else {
        for (uint64_t i = 0; i < width; ++i) at[i] = value;
      }
    }
    return CUDA_SUCCESS;
  });
}

template <class Element>
CUresult set(const char* name, uintptr_t to, Element value, uint64_t count, CUstream stream = nullptr) {
  return set_2d(name, to, 0, value, count, 1, stream);
}

}  // namespace

// ---- One row ----

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes);
}
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes, stream);
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes, stream);
}
CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void* from, unsigned int bytes) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 to, const void* from, unsigned int bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, stream);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, stream);
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, stream);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr_v1 from, unsigned int bytes) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes);
}
CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, stream);
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, stream);
}
CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, stream);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, stream);
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, stream);
}

// ---- Between contexts ----

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                      size_t bytes) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes, stream);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                CUcontext from_context, size_t bytes, CUstream stream) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes, stream);
}

// ---- Rows and slices ----

CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1* copy) {
  return copy_2d(__func__, copy);
}
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1* copy) {
  return copy_2d(__func__, copy);
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return copy_2d(__func__, copy);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return copy_2d(__func__, copy);
}
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return copy_2d(__func__, copy);
}
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return copy_2d(__func__, copy);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1* copy, CUstream stream) {
  return copy_2d(__func__, copy, stream);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_2d(__func__, copy, stream);
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_2d(__func__, copy, stream);
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1* copy, CUstream stream) {
  return copy_3d(__func__, copy, stream);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_3d(__func__, copy, stream);
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_3d(__func__, copy, stream);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return copy_3d(__func__, copy, stream);
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return copy_3d(__func__, copy, stream);
}

// ---- Memsets ----

CUresult cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned int count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, stream);
}
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, stream);
}
CUresult cuMemsetD2D8(CUdeviceptr_v1 to, unsigned int pitch, unsigned char value, unsigned int width,
                      unsigned int height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                              size_t height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, stream);
}
CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                size_t height, CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, stream);
}
CUresult cuMemsetD16(CUdeviceptr_v1 to, unsigned short value, unsigned int count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, stream);
}
CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, stream);
}
CUresult cuMemsetD2D16(CUdeviceptr_v1 to, unsigned int pitch, unsigned short value, unsigned int width,
                       unsigned int height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                               size_t height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, stream);
}
CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                 size_t height, CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, stream);
}
CUresult cuMemsetD32(CUdeviceptr_v1 to, unsigned int value, unsigned int count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, stream);
}
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, stream);
}
CUresult cuMemsetD2D32(CUdeviceptr_v1 to, unsigned int pitch, unsigned int value, unsigned int width,
                       unsigned int height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                               size_t height) {
  return set_2d(__func__, to, pitch, value, width, height);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, stream);
}
CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                 size_t height, CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, stream);
}
