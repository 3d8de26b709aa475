// The runtime chapter. It annotates and never counts: while a runtime call runs, what the driver hooks below
// find is told in its name and place; ordinals that never reach the driver are caught here. Only where the
// runtime is shared: nvcc links it statically by default, and then these names are out of reach.
#include <cuda_runtime_api.h>

#include "hooks/annotate.h"
#include "hooks/choice.h"
#include "hooks/launch.h"
#include "hooks/mask.h"
#include "hooks/remap.h"

namespace gpufence::hooks {
namespace {

// A launch. The runtime may refuse one in a stream of another GPU without asking the driver to do it.
template <class F, class... Arguments>
cudaError_t launched(const dispatch::RuntimeCall& call, const void* function, cudaStream_t stream,
                     Arguments... arguments) noexcept {
  const observe::InCall in(call.record->name, call.caller);
  const cudaError_t result = dispatch::real_runtime<F>(call, arguments...);
  if (result == cudaSuccess) [[likely]]
    return result;
  note_use(call.record->name, call.caller);
  if (observe::outermost.explained || (rules().needs & dispatch::kFindings) == 0) return result;
  if (result != cudaErrorInvalidResourceHandle && result != cudaErrorInvalidValue &&
      result != cudaErrorDeviceUninitialized)
    return result;
  const char* kernel = nullptr;
  using GetName = cudaError_t (*)(const char**, const void*);
  const auto name = reinterpret_cast<GetName>(dispatch::runtime_symbol(call, "cudaFuncGetName"));
  if (name == nullptr || name(&kernel, function) != cudaSuccess) kernel = nullptr;
  explain_launch(function, stream, {call.record->name, call.caller}, kernel);
  return result;
}

using Launch = cudaError_t (*)(const void*, dim3, dim3, void**, size_t, cudaStream_t);
using LaunchConfigured = cudaError_t (*)(const cudaLaunchConfig_t*, const void*, void**);

using GetProperties = cudaError_t (*)(void* prop, int device);  // its struct differs between releases

}  // namespace

RUNTIME_HOOK(cudaSetDevice, cudaError_t (*)(int), (int device), (device)) {
  check_mask(call.record->name, call.caller);
  const observe::InCall in(call.record->name, call.caller);
  observe::outermost.chooses = true;
  const Ordinals ordinals(call);
  const int real = ordinals.real(device);
  const cudaError_t result = with_ordinal<cudaError_t (*)(int)>(call, device, real, real);
  if (result == cudaSuccess) {
    note_chosen(real, {call.record->name, call.caller});
    note_choice(real);
    ordinals.chose(device, {call.record->name, call.caller});
  }
  return result;
}

RUNTIME_HOOK(cudaGetDevice, cudaError_t (*)(int*), (int* device), (device)) {
  const cudaError_t result = annotated<cudaError_t (*)(int*)>(call, device);
  if (result == cudaSuccess && device != nullptr) *device = Ordinals(call).told(*device);
  return result;
}

// Left true, also with a remap: hooks/remap.h.
RUNTIME_HOOK(cudaGetDeviceCount, cudaError_t (*)(int*), (int* count), (count)) {
  check_mask(call.record->name, call.caller);
  return annotated<cudaError_t (*)(int*)>(call, count);
}

RUNTIME_HOOK(cudaMalloc, cudaError_t (*)(void**, size_t), (void** pointer, size_t size), (pointer, size)) {
  return annotated<cudaError_t (*)(void**, size_t)>(call, pointer, size);
}

RUNTIME_HOOK(cudaFree, cudaError_t (*)(void*), (void* pointer), (pointer)) {
  // cudaFree(0) is how programs initialise; other frees in a forked child give back the parent's and do no
  // harm.
  if (pointer == nullptr) note_use(call.record->name, call.caller);
  const observe::InCall in(call.record->name, call.caller);
  return dispatch::real_runtime<cudaError_t (*)(void*)>(call, pointer);
}

RUNTIME_HOOK(cudaGetDeviceProperties, GetProperties, (void* prop, int device), (prop, device)) {
  const int real = Ordinals(call).real(device);
  return with_ordinal<GetProperties>(call, device, real, prop, real);
}

RUNTIME_12_HOOK(cudaGetDeviceProperties_v2, GetProperties, (void* prop, int device), (prop, device)) {
  const int real = Ordinals(call).real(device);
  return with_ordinal<GetProperties>(call, device, real, prop, real);
}

// Calls that only lend their name and place to what the driver hooks find below them.
#define ANNOTATED(function, like, parameters, arguments)              \
  RUNTIME_HOOK(function, decltype(&::like), parameters, arguments) {  \
    return annotated<decltype(&::like)>(call GPUFENCE_AND arguments); \
  }

ANNOTATED(cudaStreamCreate, cudaStreamCreate, (cudaStream_t * stream), (stream))
ANNOTATED(cudaStreamCreateWithFlags, cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags),
          (stream, flags))
ANNOTATED(cudaStreamCreateWithPriority, cudaStreamCreateWithPriority,
          (cudaStream_t * stream, unsigned int flags, int priority), (stream, flags, priority))
ANNOTATED(cudaEventCreate, cudaEventCreate, (cudaEvent_t * event), (event))
ANNOTATED(cudaEventCreateWithFlags, cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
          (event, flags))
ANNOTATED(cudaEventRecord, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
ANNOTATED(cudaEventRecord_ptsz, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
ANNOTATED(cudaEventRecordWithFlags, cudaEventRecordWithFlags,
          (cudaEvent_t event, cudaStream_t stream, unsigned int flags), (event, stream, flags))
ANNOTATED(cudaEventRecordWithFlags_ptsz, cudaEventRecordWithFlags,
          (cudaEvent_t event, cudaStream_t stream, unsigned int flags), (event, stream, flags))
ANNOTATED(cudaEventElapsedTime, cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end),
          (ms, start, end))

// Memory. The kind of a copy decides which driver call it becomes.
ANNOTATED(cudaMallocManaged, cudaMallocManaged, (void** pointer, size_t size, unsigned int flags),
          (pointer, size, flags))
ANNOTATED(cudaMallocPitch, cudaMallocPitch, (void** pointer, size_t* pitch, size_t width, size_t height),
          (pointer, pitch, width, height))
ANNOTATED(cudaMallocHost, cudaMallocHost, (void** pointer, size_t size), (pointer, size))
ANNOTATED(cudaHostAlloc, cudaHostAlloc, (void** pointer, size_t size, unsigned int flags),
          (pointer, size, flags))
ANNOTATED(cudaMalloc3D, cudaMalloc3D, (cudaPitchedPtr * pointer, cudaExtent extent), (pointer, extent))
ANNOTATED(cudaMallocArray, cudaMallocArray,
          (cudaArray_t * array, const cudaChannelFormatDesc* format, size_t width, size_t height,
           unsigned int flags),
          (array, format, width, height, flags))
ANNOTATED(cudaMalloc3DArray, cudaMalloc3DArray,
          (cudaArray_t * array, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned int flags),
          (array, format, extent, flags))
ANNOTATED(cudaMallocMipmappedArray, cudaMallocMipmappedArray,
          (cudaMipmappedArray_t * array, const cudaChannelFormatDesc* format, cudaExtent extent,
           unsigned int levels, unsigned int flags),
          (array, format, extent, levels, flags))
ANNOTATED(cudaHostRegister, cudaHostRegister, (void* memory, size_t size, unsigned int flags),
          (memory, size, flags))
// What may be a thread's first call, and makes its context, is named too.
ANNOTATED(cudaFuncGetAttributes, cudaFuncGetAttributes,
          (cudaFuncAttributes * attributes, const void* function), (attributes, function))
ANNOTATED(cudaFuncSetAttribute, cudaFuncSetAttribute,
          (const void* function, cudaFuncAttribute attribute, int value), (function, attribute, value))
ANNOTATED(cudaOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
          (int* blocks, const void* function, int block_size, size_t shared),
          (blocks, function, block_size, shared))
ANNOTATED(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
          cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
          (int* blocks, const void* function, int block_size, size_t shared, unsigned int flags),
          (blocks, function, block_size, shared, flags))
ANNOTATED(cudaMemGetInfo, cudaMemGetInfo, (size_t * free, size_t* total), (free, total))

#define ANNOTATED_TWINS(function, twin, parameters, arguments) \
  ANNOTATED(function, function, parameters, arguments)         \
  ANNOTATED(twin, function, parameters, arguments)

ANNOTATED_TWINS(cudaMallocAsync, cudaMallocAsync_ptsz, (void** pointer, size_t size, cudaStream_t stream),
                (pointer, size, stream))
ANNOTATED_TWINS(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz,
                (void** pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream),
                (pointer, size, pool, stream))
ANNOTATED_TWINS(cudaMemcpy, cudaMemcpy_ptds, (void* to, const void* from, size_t size, cudaMemcpyKind kind),
                (to, from, size, kind))
ANNOTATED_TWINS(cudaMemcpyAsync, cudaMemcpyAsync_ptsz,
                (void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream),
                (to, from, size, kind, stream))
ANNOTATED_TWINS(cudaMemcpy2D, cudaMemcpy2D_ptds,
                (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind),
                (to, to_pitch, from, from_pitch, width, height, kind))
ANNOTATED_TWINS(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz,
                (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind, cudaStream_t stream),
                (to, to_pitch, from, from_pitch, width, height, kind, stream))
ANNOTATED_TWINS(cudaMemset, cudaMemset_ptds, (void* to, int value, size_t count), (to, value, count))
ANNOTATED_TWINS(cudaMemsetAsync, cudaMemsetAsync_ptsz,
                (void* to, int value, size_t count, cudaStream_t stream), (to, value, count, stream))
ANNOTATED_TWINS(cudaMemset2D, cudaMemset2D_ptds,
                (void* to, size_t pitch, int value, size_t width, size_t height),
                (to, pitch, value, width, height))
ANNOTATED_TWINS(cudaMemset2DAsync, cudaMemset2DAsync_ptsz,
                (void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
                (to, pitch, value, width, height, stream))

// Between two GPUs, each named by its ordinal.
RUNTIME_HOOK(cudaMemcpyPeer, decltype(&::cudaMemcpyPeer),
             (void* to, int to_device, const void* from, int from_device, size_t size),
             (to, to_device, from, from_device, size)) {
  const Ordinals ordinals(call);
  return annotated<decltype(&::cudaMemcpyPeer)>(call, to, ordinals.real(to_device), from,
                                                ordinals.real(from_device), size);
}
RUNTIME_HOOK(cudaMemcpyPeerAsync, decltype(&::cudaMemcpyPeerAsync),
             (void* to, int to_device, const void* from, int from_device, size_t size, cudaStream_t stream),
             (to, to_device, from, from_device, size, stream)) {
  const Ordinals ordinals(call);
  return annotated<decltype(&::cudaMemcpyPeerAsync)>(call, to, ordinals.real(to_device), from,
                                                     ordinals.real(from_device), size, stream);
}

// Where a fault of an earlier launch comes out.
ANNOTATED(cudaDeviceSynchronize, cudaDeviceSynchronize, (), ())
ANNOTATED_TWINS(cudaStreamSynchronize, cudaStreamSynchronize_ptsz, (cudaStream_t stream), (stream))
ANNOTATED(cudaEventSynchronize, cudaEventSynchronize, (cudaEvent_t event), (event))

#define LAUNCH(hook, function)                                                                            \
  hook(function, Launch,                                                                                  \
       (const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream), \
       (kernel, grid, block, arguments, shared, stream)) {                                                \
    return launched<Launch>(call, kernel, stream, kernel, grid, block, arguments, shared, stream);        \
  }

LAUNCH(RUNTIME_HOOK, cudaLaunchKernel)
LAUNCH(RUNTIME_HOOK, cudaLaunchKernel_ptsz)
LAUNCH(RUNTIME_HOOK, cudaLaunchCooperativeKernel)
LAUNCH(RUNTIME_HOOK, cudaLaunchCooperativeKernel_ptsz)
// What nvcc 13 makes of kernel<<<>>>; the first parameter is the driver's CUkernel.
LAUNCH(RUNTIME_13_HOOK, __cudaLaunchKernel)
LAUNCH(RUNTIME_13_HOOK, __cudaLaunchKernel_ptsz)

#define LAUNCH_CONFIGURED(function)                                                                       \
  RUNTIME_HOOK(function, LaunchConfigured,                                                                \
               (const cudaLaunchConfig_t* config, const void* kernel, void** arguments),                  \
               (config, kernel, arguments)) {                                                             \
    return launched<LaunchConfigured>(call, kernel, config != nullptr ? config->stream : nullptr, config, \
                                      kernel, arguments);                                                 \
  }

LAUNCH_CONFIGURED(cudaLaunchKernelExC)
LAUNCH_CONFIGURED(cudaLaunchKernelExC_ptsz)

}  // namespace gpufence::hooks
