// Copies and memsets, in every version and per-thread twin; each is a function of its own, as programs and
// fences tell entry points apart by address. What is checked is checked at the call; when a call returns, and
// what the copy waits for, follows "API synchronization behavior" of the CUDA driver API's documentation.
#include <optional>

#include "array.h"
#include "batch.h"
#include "capture.h"
#include "copy.h"
#include "driver.h"
#include "queue.h"

using namespace gpufence::sim;

namespace {

// Where a call puts its work: the calling form decides the stream and whether the caller waits.
struct Where {
  CUstream stream = nullptr;
  bool per_thread = false;
  bool async = false;
};
constexpr Where kPerThread = {nullptr, true, false};
Where on(CUstream stream) {
  return {stream, false, true};
}
Where on_ptsz(CUstream stream) {
  return {stream, true, true};
}

// Runs body with the stream, in the current context. What the caller has to see done can't be captured.
template <class Body>
CUresult with_stream(const char* name, Where where, Body&& body) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(where.stream, where.per_thread, current, &stream,
                                     where.async ? InCapture::captured : InCapture::refused);
    if (found != CUDA_SUCCESS) return found;
    if (!where.async)
      if (const CUresult refused = unsafe_refusal(); refused != CUDA_SUCCESS) return refused;
    return body(*stream);
  });
}

bool in_host(MemoryKind kind) {
  return kind == MemoryKind::pageable || kind == MemoryKind::pinned;
}

// Work of that size is done sooner than a worker is awake.
constexpr uint64_t kShort = 65536;
// More than that is not staged: the call waits for the stream instead, as drivers do when their staging is
// full.
constexpr uint64_t kMostStaged = uint64_t{64} << 20;

void start(Stream& stream, uint64_t bytes, Operation operation) {
  if (bytes <= kShort)
    enqueue_short(stream, std::move(operation));
  else
    enqueue(stream, std::move(operation));
}

CUresult copy_box(Stream& stream, bool async, Box box) {
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  if (is_capturing(stream)) return capture_copy(stream, box);
  if (const CUresult bad = box.check(); bad != CUDA_SUCCESS) return bad;
  const MemoryKind to = box.to.kind, from = box.from.kind;
  // "Any host memory to any host memory: fully synchronous", in both forms.
  bool wait = in_host(to) && in_host(from);
  if (!async) {
    // Only "from device memory to device memory" is there no synchronisation with the host; managed memory is
    // the host's as well ("all transfers involving Unified Memory regions are fully synchronous", up to CUDA
    // 11).
    wait = wait || in_host(to) || in_host(from) || to == MemoryKind::managed || from == MemoryKind::managed;
  } else if (from == MemoryKind::pageable && !in_host(to)) {
    // "Staged to pinned memory": the source may be written again when the call returns.
    if (box.bytes() <= kMostStaged && !idle(stream)) {
      start(stream, box.bytes(), box.staged());
      return CUDA_SUCCESS;
    }
    wait = true;
  } else if (to == MemoryKind::pageable) {
    wait = true;  // "might be synchronous with respect to the host"
  }
  if (wait) return run_here(stream, [&box] { return box.move(); });
  start(stream, box.bytes(), [box] { return box.move(); });
  return CUDA_SUCCESS;
}

Box one_row(uintptr_t to, Side to_side, uintptr_t from, Side from_side, uint64_t bytes) {
  return {{to, to_side, 0, 0, 0, 0, 0}, {from, from_side, 0, 0, 0, 0, 0}, bytes, 1, 1};
}

CUresult copy_call(const char* name, uintptr_t to, Side to_side, uintptr_t from, Side from_side,
                   uint64_t bytes, Where where = {}) {
  return with_stream(name, where, [&](Stream& stream) {
    return copy_box(stream, where.async, one_row(to, to_side, from, from_side, bytes));
  });
}

uintptr_t host(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

// Between the memories of two contexts, peers or not: a real driver stages what it can't copy directly. The
// synchronous form "does not start until all commands previously issued to either device have completed"
// (CUDA C++ Programming Guide, Peer-to-Peer Memory Copy).
CUresult copy_between(Stream& stream, bool async, CUcontext to, CUcontext from, Box box) {
  Context *to_context = driver().contexts.check(to), *from_context = driver().contexts.check(from);
  if (to_context == nullptr || from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (const Context* context : {to_context, from_context})
    if (const CUresult refused = refusal(*context); refused != CUDA_SUCCESS) return refused;
  if (async) return copy_box(stream, true, box);
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  if (const CUresult bad = box.check(); bad != CUDA_SUCCESS) return bad;
  return run_here_after(stream, {to_context, from_context}, [&box] { return box.move(); });
}

CUresult peer_copy(const char* name, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                   CUcontext from_context, uint64_t bytes, Where where = {}) {
  return with_stream(name, where, [&](Stream& stream) {
    return copy_between(stream, where.async, to_context, from_context,
                        one_row(to, Side::unified, from, Side::unified, bytes));
  });
}

// A stretch of an array's memory: what the calls of one row mean by an offset.
CUresult array_stretch(CUarray handle, uint64_t offset, uint64_t bytes, End& end) {
  const Array* found = array_of(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Array& array = *found;
  // "1D CUDA array": what can be sparse has two dimensions or more.
  if (array.backing != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (offset > array.bytes() || bytes > array.bytes() - offset) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = refusal(*array.context); refused != CUDA_SUCCESS) return refused;
  end = {array.base + offset, Side::device, 0, 0, 0, 0, 0, MemoryKind::device, nullptr};
  return CUDA_SUCCESS;
}

struct Stretch {
  CUarray array;
  uint64_t offset;
};

// One of the ends, or both, in an array; the other where `to` or `from` says.
CUresult array_copy(const char* name, std::optional<Stretch> into, uintptr_t to, Side to_side,
                    std::optional<Stretch> out_of, uintptr_t from, Side from_side, uint64_t bytes,
                    Where where = {}) {
  return with_stream(name, where, [&](Stream& stream) {
    if (bytes == 0) return CUDA_SUCCESS;
    if (into && out_of) {
      // "The elements must be the same size; and count must be evenly divisible by that size."
      const Array *source = array_of(out_of->array), *target = array_of(into->array);
      if (source == nullptr || target == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      if (source->element_bytes != target->element_bytes || bytes % source->element_bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    }
    Box box = one_row(to, to_side, from, from_side, bytes);
    for (const auto& [stretch, end] : {std::pair{into, &box.to}, std::pair{out_of, &box.from}}) {
      if (!stretch) continue;
      const CUresult bad = array_stretch(stretch->array, stretch->offset, bytes, *end);
      if (bad != CUDA_SUCCESS) return bad;
    }
    return copy_box(stream, where.async, box);
  });
}

template <class Copy>
CUresult copy_2d(const char* name, const Copy* c, Where where = {}) {
  return with_stream(name, where, [&](Stream& stream) {
    if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Box box{{0, Side::host, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0},
            {0, Side::host, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0},
            c->WidthInBytes,
            c->Height,
            1};
    CUresult bad = place_end(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, box.to);
    if (bad == CUDA_SUCCESS)
      bad = place_end(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, box.from);
    return bad != CUDA_SUCCESS ? bad : copy_box(stream, where.async, box);
  });
}

// CUDA_MEMCPY3D of both ABIs, and CUDA_MEMCPY3D_PEER.
template <class Copy>
CUresult copy_3d(const char* name, const Copy* c, Where where = {}) {
  return with_stream(name, where, [&](Stream& stream) {
    if (c == nullptr || c->srcLOD != 0 || c->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
    Box box{};
    if (const CUresult bad = box_of_fields(*c, box); bad != CUDA_SUCCESS) return bad;
    if constexpr (std::is_same_v<Copy, CUDA_MEMCPY3D_PEER>)
      return copy_between(stream, where.async, c->dstContext, c->srcContext, box);
    else
      return copy_box(stream, where.async, box);
  });
}

// "Asynchronous with respect to the host except when the target memory is pinned host memory. The Async
// versions are always asynchronous." Managed memory, which the host reads as well, is treated like pinned.
template <class Element>
CUresult set_2d(const char* name, uintptr_t to, uint64_t pitch, Element value, uint64_t width,
                uint64_t height, Where where = {}) {
  return with_stream(name, where, [&](Stream& stream) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    Fill fill{to, pitch, value, sizeof(Element), width, height};
    if (is_capturing(stream)) return capture_fill(stream, fill);
    if (const CUresult bad = fill.check(*stream.context); bad != CUDA_SUCCESS) return bad;
    if (!where.async && fill.kind != MemoryKind::device)
      return run_here(stream, [&fill] { return fill.run(); });
    start(stream, fill.bytes(), [fill] { return fill.run(); });
    return CUDA_SUCCESS;
  });
}

template <class Element>
CUresult set(const char* name, uintptr_t to, Element value, uint64_t count, Where where = {}) {
  return set_2d(name, to, 0, value, count, 1, where);
}

}  // namespace

// ---- Arrays ----

#define GPUFENCE_ARRAY_COPIES(suffix, Address, size, where)                                                  \
  CUresult cuMemcpyAtoD##suffix(Address to, CUarray from, size offset, size bytes) {                         \
    return array_copy(__func__, {}, to, Side::device, Stretch{from, offset}, 0, Side::device, bytes, where); \
  }                                                                                                          \
  CUresult cuMemcpyDtoA##suffix(CUarray to, size offset, Address from, size bytes) {                         \
    return array_copy(__func__, Stretch{to, offset}, 0, Side::device, {}, from, Side::device, bytes, where); \
  }                                                                                                          \
  CUresult cuMemcpyAtoH##suffix(void* to, CUarray from, size offset, size bytes) {                           \
    return array_copy(__func__, {}, host(to), Side::host, Stretch{from, offset}, 0, Side::device, bytes,     \
                      where);                                                                                \
  }                                                                                                          \
  CUresult cuMemcpyHtoA##suffix(CUarray to, size offset, const void* from, size bytes) {                     \
    return array_copy(__func__, Stretch{to, offset}, 0, Side::device, {}, host(from), Side::host, bytes,     \
                      where);                                                                                \
  }                                                                                                          \
  CUresult cuMemcpyAtoA##suffix(CUarray to, size to_offset, CUarray from, size from_offset, size bytes) {    \
    return array_copy(__func__, Stretch{to, to_offset}, 0, Side::device, Stretch{from, from_offset}, 0,      \
                      Side::device, bytes, where);                                                           \
  }
GPUFENCE_ARRAY_COPIES(, CUdeviceptr_v1, unsigned int, {})
GPUFENCE_ARRAY_COPIES(_v2, CUdeviceptr, size_t, {})
GPUFENCE_ARRAY_COPIES(_v2_ptds, CUdeviceptr, size_t, kPerThread)

#define GPUFENCE_ARRAY_COPIES_ASYNC(suffix, size, where)                                                 \
  CUresult cuMemcpyAtoHAsync##suffix(void* to, CUarray from, size offset, size bytes, CUstream stream) { \
    return array_copy(__func__, {}, host(to), Side::host, Stretch{from, offset}, 0, Side::device, bytes, \
                      where(stream));                                                                    \
  }                                                                                                      \
  CUresult cuMemcpyHtoAAsync##suffix(CUarray to, size offset, const void* from, size bytes,              \
                                     CUstream stream) {                                                  \
    return array_copy(__func__, Stretch{to, offset}, 0, Side::device, {}, host(from), Side::host, bytes, \
                      where(stream));                                                                    \
  }
GPUFENCE_ARRAY_COPIES_ASYNC(, unsigned int, on)
GPUFENCE_ARRAY_COPIES_ASYNC(_v2, size_t, on)
GPUFENCE_ARRAY_COPIES_ASYNC(_v2_ptsz, size_t, on_ptsz)

// ---- One row ----

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes);
}
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes, kPerThread);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes, on(stream));
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::unified, from, Side::unified, bytes, on_ptsz(stream));
}
CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void* from, unsigned int bytes) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, kPerThread);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 to, const void* from, unsigned int bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, on(stream));
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, on(stream));
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, host(from), Side::host, bytes, on_ptsz(stream));
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr_v1 from, unsigned int bytes) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes);
}
CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, kPerThread);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, on(stream));
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, on(stream));
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, host(to), Side::host, from, Side::device, bytes, on_ptsz(stream));
}
CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, kPerThread);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, on(stream));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, on(stream));
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_call(__func__, to, Side::device, from, Side::device, bytes, on_ptsz(stream));
}

// ---- Between contexts ----

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                      size_t bytes) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes, kPerThread);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes, on(stream));
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                CUcontext from_context, size_t bytes, CUstream stream) {
  return peer_copy(__func__, to, to_context, from, from_context, bytes, on_ptsz(stream));
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
  return copy_2d(__func__, copy, kPerThread);
}
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return copy_2d(__func__, copy, kPerThread);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1* copy, CUstream stream) {
  return copy_2d(__func__, copy, on(stream));
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_2d(__func__, copy, on(stream));
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_2d(__func__, copy, on_ptsz(stream));
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  return copy_3d(__func__, copy, kPerThread);
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1* copy, CUstream stream) {
  return copy_3d(__func__, copy, on(stream));
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_3d(__func__, copy, on(stream));
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_3d(__func__, copy, on_ptsz(stream));
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  return copy_3d(__func__, copy);
}
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* copy) {
  return copy_3d(__func__, copy, kPerThread);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return copy_3d(__func__, copy, on(stream));
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return copy_3d(__func__, copy, on_ptsz(stream));
}

// ---- Memsets ----

CUresult cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned int count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return set(__func__, to, value, count, kPerThread);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, on(stream));
}
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, on_ptsz(stream));
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
  return set_2d(__func__, to, pitch, value, width, height, kPerThread);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, on(stream));
}
CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                size_t height, CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, on_ptsz(stream));
}
CUresult cuMemsetD16(CUdeviceptr_v1 to, unsigned short value, unsigned int count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) {
  return set(__func__, to, value, count, kPerThread);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, on(stream));
}
CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, on_ptsz(stream));
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
  return set_2d(__func__, to, pitch, value, width, height, kPerThread);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, on(stream));
}
CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                 size_t height, CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, on_ptsz(stream));
}
CUresult cuMemsetD32(CUdeviceptr_v1 to, unsigned int value, unsigned int count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return set(__func__, to, value, count);
}
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count) {
  return set(__func__, to, value, count, kPerThread);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, on(stream));
}
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set(__func__, to, value, count, on_ptsz(stream));
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
  return set_2d(__func__, to, pitch, value, width, height, kPerThread);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, on(stream));
}
CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                 size_t height, CUstream stream) {
  return set_2d(__func__, to, pitch, value, width, height, on_ptsz(stream));
}

// ---- Batches ----

namespace {

bool known(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
         order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}
bool known(unsigned flags) {
  return (flags & ~static_cast<unsigned>(CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)) == 0;
}

// A graph's copies may be of memory that it allocates.
Planned planned_in(const Stream& stream) {
  return is_capturing(stream) ? Planned::yes : Planned::no;
}

struct Ordered {
  Box box;
  CUmemcpySrcAccessOrder order;
};

// Unlike the single calls these read pageable memory too in the stream's order, if told to.
CUresult start_in_order(Stream& stream, const Ordered& copy) {
  const Box& box = copy.box;
  if (box.bytes() == 0) return CUDA_SUCCESS;
  if (is_capturing(stream)) return capture_copy(stream, box);
  if (copy.order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) {
    if (box.bytes() <= kMostStaged)
      start(stream, box.bytes(), box.staged());
    else
      run_here(stream, [&box] { return box.move(); });
    return CUDA_SUCCESS;
  }
  start(stream, box.bytes(), [box] { return box.move(); });
  return CUDA_SUCCESS;
}

CUresult start_all(Stream& stream, const std::vector<Ordered>& copies) {
  for (const Ordered& copy : copies)
    if (const CUresult bad = start_in_order(stream, copy); bad != CUDA_SUCCESS) return bad;
  return CUDA_SUCCESS;
}

CUresult copy_batch(const char* name, const CUdeviceptr* to, const CUdeviceptr* from, const size_t* bytes,
                    size_t count, const CUmemcpyAttributes* attributes, const size_t* first_of,
                    size_t attribute_count, size_t* failed, CUstream handle, bool per_thread) {
  return with_stream(name, {handle, per_thread, true}, [&](Stream& stream) {
    if (failed != nullptr) *failed = SIZE_MAX;  // "if the error doesn't pertain to any specific copy"
    if (to == nullptr || from == nullptr || bytes == nullptr || count == 0 || attributes == nullptr ||
        !in_steps(first_of, attribute_count, count) || is_legacy(handle, per_thread))
      return CUDA_ERROR_INVALID_VALUE;
    std::vector<Ordered> copies;
    size_t entry = 0;
    for (size_t i = 0; i < count; ++i) {
      if (entry + 1 < attribute_count && first_of[entry + 1] == i) ++entry;
      Box box = one_row(to[i], Side::unified, from[i], Side::unified, bytes[i]);
      CUresult bad = known(attributes[entry].srcAccessOrder) && known(attributes[entry].flags)
                         ? CUDA_SUCCESS
                         : CUDA_ERROR_INVALID_VALUE;
      if (bad == CUDA_SUCCESS && bytes[i] != 0) bad = box.check(planned_in(stream));
      if (bad != CUDA_SUCCESS) {
        if (failed != nullptr) *failed = i;
        return bad;
      }
      copies.push_back({box, attributes[entry].srcAccessOrder});
    }
    return start_all(stream, copies);
  });
}

CUresult operand(const CUmemcpy3DOperand& given, const CUextent3D& extent, unsigned element, End& end) {
  // In bytes what is given in elements.
  Checked bytes = 0;
  if (given.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const Array* array = array_of(given.op.array.array);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    set_array(end, *array);
    bytes = Checked(given.op.array.offset.x) * element;
    end.x = bytes.value();
    end.y = given.op.array.offset.y;
    end.z = given.op.array.offset.z;
    return bytes.fits() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const size_t row = given.op.ptr.rowLength, layer = given.op.ptr.layerHeight;
  if ((row != 0 && row < extent.width) || (layer != 0 && layer < extent.height))
    return CUDA_ERROR_INVALID_VALUE;
  bytes = Checked(row != 0 ? row : extent.width) * element;
  end = {given.op.ptr.ptr, Side::unified, 0, 0, 0, bytes.value(), layer != 0 ? layer : extent.height};
  return bytes.fits() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// 0: no element size at all; a copy between pointers has elements of one byte.
unsigned element_of(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  unsigned element = 0;
  for (const CUmemcpy3DOperand* end : {&copy.src, &copy.dst}) {
    if (end->type == CU_MEMCPY_OPERAND_TYPE_POINTER) continue;
    const Array* array = end->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? array_of(end->op.array.array) : nullptr;
    if (array == nullptr || (element != 0 && element != array->element_bytes)) return 0;
    element = array->element_bytes;
  }
  return element != 0 ? element : 1;
}

CUresult copy_batch_3d(const char* name, size_t count, const CUDA_MEMCPY3D_BATCH_OP* given, size_t* failed,
                       unsigned long long flags, CUstream handle, bool per_thread) {
  return with_stream(name, {handle, per_thread, true}, [&](Stream& stream) {
    if (failed != nullptr) *failed = SIZE_MAX;
    if (count == 0 || given == nullptr || flags != 0 || is_legacy(handle, per_thread))
      return CUDA_ERROR_INVALID_VALUE;
    std::vector<Ordered> copies;
    for (size_t i = 0; i < count; ++i) {
      const CUDA_MEMCPY3D_BATCH_OP& op = given[i];
      const CUextent3D& extent = op.extent;
      const unsigned element = element_of(op);
      const Checked width = Checked(extent.width) * element;
      Box box{{}, {}, width.value(), extent.height, extent.depth};
      CUresult bad = width.fits() && width.value() != 0 && extent.height != 0 && extent.depth != 0 &&
                             known(op.srcAccessOrder) && known(op.flags)
                         ? CUDA_SUCCESS
                         : CUDA_ERROR_INVALID_VALUE;
      if (bad == CUDA_SUCCESS) bad = operand(op.dst, extent, element, box.to);
      if (bad == CUDA_SUCCESS) bad = operand(op.src, extent, element, box.from);
      if (bad == CUDA_SUCCESS) bad = box.check(planned_in(stream));
      if (bad != CUDA_SUCCESS) {
        if (failed != nullptr) *failed = i;
        return bad;
      }
      copies.push_back({box, op.srcAccessOrder});
    }
    return start_all(stream, copies);
  });
}

}  // namespace

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* first_of, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  return copy_batch(__func__, to, from, bytes, count, attributes, first_of, attribute_count, failed, stream,
                    false);
}
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                 CUmemcpyAttributes* attributes, size_t* first_of, size_t attribute_count,
                                 size_t* failed, CUstream stream) {
  return copy_batch(__func__, to, from, bytes, count, attributes, first_of, attribute_count, failed, stream,
                    true);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* first_of, size_t attribute_count,
                               CUstream stream) {
  return copy_batch(__func__, to, from, bytes, count, attributes, first_of, attribute_count, nullptr, stream,
                    false);
}
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                    CUmemcpyAttributes* attributes, size_t* first_of, size_t attribute_count,
                                    CUstream stream) {
  return copy_batch(__func__, to, from, bytes, count, attributes, first_of, attribute_count, nullptr, stream,
                    true);
}
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  return copy_batch_3d(__func__, count, copies, failed, flags, stream, false);
}
CUresult cuMemcpy3DBatchAsync_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
                                   unsigned long long flags, CUstream stream) {
  return copy_batch_3d(__func__, count, copies, failed, flags, stream, true);
}
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, unsigned long long flags,
                                 CUstream stream) {
  return copy_batch_3d(__func__, count, copies, nullptr, flags, stream, false);
}
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, unsigned long long flags,
                                      CUstream stream) {
  return copy_batch_3d(__func__, count, copies, nullptr, flags, stream, true);
}
