// Copies and fills. A copy between GPUs without peer access goes through the host's memory, slowly and in
// silence; a fill of another GPU's memory fails with "invalid argument" and no word on whose it is. Copies
// are counted for the report by the GPU whose memory they write or read. Here too: who asks by which address
// a kernel may use memory, and is told that there is none.
#include "hooks/arguments.h"
#include "hooks/choice.h"
#include "hooks/reach.h"

namespace gpufence::hooks {
namespace {

constexpr unsigned kBetween = dispatch::kFindings | dispatch::kReport;
constexpr unsigned kCounted = dispatch::kFindings | dispatch::kReport | dispatch::kPointers;
constexpr unsigned kFilled = dispatch::kFindings;

// 0: the memory of an array, which lies on the GPU that the thread works on.
void count_copy(const Visible& seen, CUdeviceptr memory) noexcept {
  const auto device = [&] { return memory != 0 ? device_of(memory) : current_device(); };
  note_work(device);
  if (seen.tally == nullptr) return;
  seen.tally->copy(seen.devices.size() == 1 ? 0 : device());
}

// One end is the host's.
CUresult copied(CUresult result, CUdeviceptr memory) noexcept {
  if (result != CUDA_SUCCESS) {
    explain_fault(result);
    return result;
  }
  if (const Visible* seen = visible(); seen != nullptr) count_copy(*seen, memory);
  return result;
}

CUresult copied_between(CUresult result, CUdeviceptr to, CUdeviceptr from, const char* api,
                        const void* caller) noexcept {
  const Visible* seen = visible();
  if (result != CUDA_SUCCESS || seen == nullptr) {
    if (result != CUDA_SUCCESS) explain_fault(result);
    return result;
  }
  if (seen->devices.size() == 1) {
    if (seen->tally != nullptr) seen->tally->copy(0);
    return result;
  }
  int target = device_of(to);
  int source = device_of(from);
  note_work([&] { return target; });
  note_work([&] { return source; });
  if (seen->tally != nullptr) seen->tally->copy(target >= 0 ? target : source);
  if (target == source || target < 0 || source < 0 || (rules().needs & dispatch::kFindings) == 0)
    return result;
  if (reaches(target, source) || reaches(source, target)) return result;
  target = device_of_now(to);
  source = device_of_now(from);
  if (target == source || target < 0 || source < 0) return result;
  const int here = current_device();
  if ((here == target && usable_here(from)) || (here == source && usable_here(to))) return result;
  explain({.code = "GF206",
           .severity = journal::Severity::info,
           .call = observe::current(api, caller),
           .device = target,
           .other_device = source},
          [&](const Visible& to_say) {
            return "a copy from " + gpu_text(to_say, source) + " to " + gpu_text(to_say, target) +
                   " goes through the host: " + peer_text(target, source);
          });
  return result;
}

// The device addresses of a two- or three-dimensional copy; an end in host memory or an array gives 0.
template <class Copy>
CUresult copied_box(CUresult result, const Copy* copy, const char* api, const void* caller) noexcept {
  if (copy == nullptr) return result;
  const auto end = [](CUmemorytype type, CUdeviceptr address) {
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? address : 0;
  };
  const CUdeviceptr to = end(copy->dstMemoryType, copy->dstDevice);
  const CUdeviceptr from = end(copy->srcMemoryType, copy->srcDevice);
  if (to == 0 || from == 0) return copied(result, to != 0 ? to : from);
  return copied_between(result, to, from, api, caller);
}

CUresult filled(CUresult result, CUdeviceptr to, CUstream stream, const char* api,
                const void* caller) noexcept {
  if (result == CUDA_SUCCESS) {
    note_work([&] { return device_of(to); });
    if (const Visible* seen = visible(); seen != nullptr && seen->tally != nullptr)
      seen->tally->touch(seen->devices.size() == 1 ? 0 : device_of(to));
  }
  if (result == CUDA_SUCCESS || owners() == nullptr) return result;
  const int device = place_of_stream(stream).device;
  const int owner = device_of_now(to);
  if (device < 0 || owner < 0 || device == owner || reaches(device, owner)) return result;
  explain({.code = "GF205", .call = observe::current(api, caller), .device = device, .other_device = owner},
          [&](const Visible& seen) {
            return "memory of " + gpu_text(seen, owner) + allocation_text(seen, to) + ", filled on " +
                   gpu_text(seen, device) + "; " + peer_text(device, owner);
          });
  return result;
}

// By which address kernels here may use the memory: what Triton asks of each argument, and takes "invalid
// argument" for host memory.
CUresult asked_for_address(CUresult result, CUdeviceptr memory, const void* caller) noexcept {
  if (result != CUDA_ERROR_INVALID_VALUE || owners() == nullptr) return result;
  const int device = current_device();
  const int owner = device_of_now(memory);
  if (device < 0 || owner < 0 || device == owner || reaches(device, owner)) return result;
  explain({.code = "GF205",
           .call = observe::current("cuPointerGetAttribute", caller),
           .device = device,
           .other_device = owner},
          [&](const Visible& seen) {
            return "memory of " + gpu_text(seen, owner) + allocation_text(seen, memory) +
                   ", meant for a kernel on " + gpu_text(seen, device) + "; " + peer_text(device, owner);
          });
  return result;
}

}  // namespace

HOOK(cuPointerGetAttribute, dispatch::kFindings,
     (void* data, CUpointer_attribute attribute, CUdeviceptr ptr)) {
  const CUresult result = real<&::cuPointerGetAttribute>(data, attribute, ptr);
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER) return result;
  return asked_for_address(result, ptr, __builtin_return_address(0));
}

#define TO_DEVICE(function)                                                              \
  HOOK(function, kCounted, (CUdeviceptr dstDevice, const void* srcHost, size_t bytes)) { \
    return copied(real<&::function>(dstDevice, srcHost, bytes), dstDevice);              \
  }
#define TO_DEVICE_ASYNC(function)                                                                         \
  HOOK(function, kCounted, (CUdeviceptr dstDevice, const void* srcHost, size_t bytes, CUstream stream)) { \
    return copied(real<&::function>(dstDevice, srcHost, bytes, stream), dstDevice);                       \
  }
#define TO_HOST(function)                                                          \
  HOOK(function, kCounted, (void* dstHost, CUdeviceptr srcDevice, size_t bytes)) { \
    return copied(real<&::function>(dstHost, srcDevice, bytes), srcDevice);        \
  }
#define TO_HOST_ASYNC(function)                                                                     \
  HOOK(function, kCounted, (void* dstHost, CUdeviceptr srcDevice, size_t bytes, CUstream stream)) { \
    return copied(real<&::function>(dstHost, srcDevice, bytes, stream), srcDevice);                 \
  }
TO_DEVICE(cuMemcpyHtoD_v2)
TO_DEVICE(cuMemcpyHtoD_v2_ptds)
TO_DEVICE_ASYNC(cuMemcpyHtoDAsync_v2)
TO_DEVICE_ASYNC(cuMemcpyHtoDAsync_v2_ptsz)
TO_HOST(cuMemcpyDtoH_v2)
TO_HOST(cuMemcpyDtoH_v2_ptds)
TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2)
TO_HOST_ASYNC(cuMemcpyDtoHAsync_v2_ptsz)

#define BETWEEN(function)                                                          \
  HOOK(function, kBetween, (CUdeviceptr dst, CUdeviceptr src, size_t bytes)) {     \
    return copied_between(real<&::function>(dst, src, bytes), dst, src, #function, \
                          __builtin_return_address(0));                            \
  }
#define BETWEEN_ASYNC(function)                                                                 \
  HOOK(function, kBetween, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) { \
    return copied_between(real<&::function>(dst, src, bytes, stream), dst, src, #function,      \
                          __builtin_return_address(0));                                         \
  }
BETWEEN(cuMemcpy)
BETWEEN(cuMemcpy_ptds)
BETWEEN(cuMemcpyDtoD_v2)
BETWEEN(cuMemcpyDtoD_v2_ptds)
BETWEEN_ASYNC(cuMemcpyAsync)
BETWEEN_ASYNC(cuMemcpyAsync_ptsz)
BETWEEN_ASYNC(cuMemcpyDtoDAsync_v2)
BETWEEN_ASYNC(cuMemcpyDtoDAsync_v2_ptsz)

#define BETWEEN_PEERS(function)                                                                            \
  HOOK(function, kBetween,                                                                                 \
       (CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t bytes)) {     \
    return copied_between(real<&::function>(dst, dstContext, src, srcContext, bytes), dst, src, #function, \
                          __builtin_return_address(0));                                                    \
  }
#define BETWEEN_PEERS_ASYNC(function)                                                                   \
  HOOK(function, kBetween,                                                                              \
       (CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t bytes,     \
        CUstream stream)) {                                                                             \
    return copied_between(real<&::function>(dst, dstContext, src, srcContext, bytes, stream), dst, src, \
                          #function, __builtin_return_address(0));                                      \
  }
BETWEEN_PEERS(cuMemcpyPeer)
BETWEEN_PEERS(cuMemcpyPeer_ptds)
BETWEEN_PEERS_ASYNC(cuMemcpyPeerAsync)
BETWEEN_PEERS_ASYNC(cuMemcpyPeerAsync_ptsz)

#define BOX(function, Copy)                                                                   \
  HOOK(function, kBetween, (const Copy* copy)) {                                              \
    return copied_box(real<&::function>(copy), copy, #function, __builtin_return_address(0)); \
  }
#define BOX_ASYNC(function, Copy)                                                                     \
  HOOK(function, kBetween, (const Copy* copy, CUstream stream)) {                                     \
    return copied_box(real<&::function>(copy, stream), copy, #function, __builtin_return_address(0)); \
  }
BOX(cuMemcpy2D_v2, CUDA_MEMCPY2D)
BOX(cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D)
BOX(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D)
BOX(cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D)
BOX_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D)
BOX_ASYNC(cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D)
BOX(cuMemcpy3D_v2, CUDA_MEMCPY3D)
BOX(cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D)
BOX_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D)
BOX_ASYNC(cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D)
BOX(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER)
BOX(cuMemcpy3DPeer_ptds, CUDA_MEMCPY3D_PEER)
BOX_ASYNC(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER)
BOX_ASYNC(cuMemcpy3DPeerAsync_ptsz, CUDA_MEMCPY3D_PEER)

#define FILL(function, Value)                                                                                \
  HOOK(function, kFilled, (CUdeviceptr to, Value value, size_t count)) {                                     \
    return filled(real<&::function>(to, value, count), to, nullptr, #function, __builtin_return_address(0)); \
  }
#define FILL_ASYNC(function, Value)                                                       \
  HOOK(function, kFilled, (CUdeviceptr to, Value value, size_t count, CUstream stream)) { \
    return filled(real<&::function>(to, value, count, stream), to, stream, #function,     \
                  __builtin_return_address(0));                                           \
  }
#define FILL_2D(function, Value)                                                                      \
  HOOK(function, kFilled, (CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height)) { \
    return filled(real<&::function>(to, pitch, value, width, height), to, nullptr, #function,         \
                  __builtin_return_address(0));                                                       \
  }
#define FILL_2D_ASYNC(function, Value)                                                               \
  HOOK(function, kFilled,                                                                            \
       (CUdeviceptr to, size_t pitch, Value value, size_t width, size_t height, CUstream stream)) {  \
    return filled(real<&::function>(to, pitch, value, width, height, stream), to, stream, #function, \
                  __builtin_return_address(0));                                                      \
  }
#define FILLS(bits, Value)                       \
  FILL(cuMemsetD##bits##_v2, Value)              \
  FILL(cuMemsetD##bits##_v2_ptds, Value)         \
  FILL_ASYNC(cuMemsetD##bits##Async, Value)      \
  FILL_ASYNC(cuMemsetD##bits##Async_ptsz, Value) \
  FILL_2D(cuMemsetD2D##bits##_v2, Value)         \
  FILL_2D(cuMemsetD2D##bits##_v2_ptds, Value)    \
  FILL_2D_ASYNC(cuMemsetD2D##bits##Async, Value) \
  FILL_2D_ASYNC(cuMemsetD2D##bits##Async_ptsz, Value)
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)

}  // namespace gpufence::hooks
