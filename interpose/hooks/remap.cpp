// See remap.h. Every call of the CUDA 11, 12 and 13 runtimes that takes or returns an ordinal is here or in
// runtime.cpp; abi/runtime_ordinals.inc, made from the header, is what a test holds against them. What the
// program passes is copied before an ordinal in it is changed: it may be constant, or another thread's to
// read.
#include "hooks/remap.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <memory>
#include <new>

#include "dispatch/dispatch.h"
#include "hooks/annotate.h"

namespace gpufence::hooks {
namespace {

using dispatch::RuntimeCall;

constexpr int kMostDevices = 64;  // CUDA itself knows no more in one process
// cudaMemLocationTypeDeviceLocalityDomain of later releases of CUDA 13: a part of a GPU; the ordinal is the
// low byte.
constexpr int kLocalityDomain = 6;

// By CUDA's ordinal, what this thread called that GPU last, and one more: 0 is nothing.
struct Asked {
  int chosen[kMostDevices];  // by cudaSetDevice
  int named[kMostDevices];   // in a location
};
constinit thread_local Asked asked_here{};

bool known(int device) noexcept {
  return device >= 0 && device < kMostDevices;
}

int counted(const RuntimeCall& call) noexcept {
  if (const Visible* seen = visible()) return static_cast<int>(seen->devices.size());
  // CUDA has not started yet, and starts when it is asked this.
  const auto ask =
      reinterpret_cast<decltype(&::cudaGetDeviceCount)>(dispatch::runtime_symbol(call, "cudaGetDeviceCount"));
  int count = 0;
  return ask != nullptr && ask(&count) == cudaSuccess ? count : 0;
}

// An array of the program's, to be changed on the way. `failed()`: there is no memory for a copy.
template <class T>
class Copy {
 public:
  Copy(const T* from, std::size_t count) noexcept : from_(from) {
    if (from == nullptr || count == 0) return;
    if (count > kOnStack) {
      many_.reset(new (std::nothrow) T[count]);
      if (many_ == nullptr) return;
    }
    count_ = count;
    std::memcpy(data(), from, count * sizeof(T));
  }
  [[nodiscard]] bool failed(std::size_t count) const noexcept { return from_ != nullptr && count != count_; }
  [[nodiscard]] T* data() noexcept {
    if (from_ == nullptr) return nullptr;
    return many_ != nullptr ? many_.get() : few_;
  }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + count_; }

 private:
  static constexpr std::size_t kOnStack = 8;
  const T* from_;
  std::size_t count_ = 0;
  T few_[kOnStack];
  std::unique_ptr<T[]> many_;
};

}  // namespace

Ordinals::Ordinals(const RuntimeCall& call) noexcept : map_(rules().remap ? &*rules().remap : nullptr) {
  if (map_ != nullptr && map_->wrap) gpus_ = counted(call);
}

int Ordinals::real(int asked) const noexcept {
  return map_ != nullptr ? map_->real(asked, gpus_) : asked;
}

int Ordinals::told(int real) const noexcept {
  if (map_ == nullptr) return real;
  return map_->told(real, gpus_, known(real) ? asked_here.chosen[real] - 1 : -1);
}

int Ordinals::real_place(int asked) const noexcept {
  const int means = real(asked);
  if (map_ != nullptr && known(means)) asked_here.named[means] = asked + 1;
  return means;
}

int Ordinals::told_place(int real) const noexcept {
  if (map_ == nullptr) return real;
  const int last = known(real) ? asked_here.named[real] - 1 : -1;
  // A name of this GPU, else as any ordinal is told.
  return last >= 0 && map_->real(last, gpus_) == real ? last : told(real);
}

cudaMemLocation Ordinals::real(cudaMemLocation asked) const noexcept {
  if (asked.type == cudaMemLocationTypeDevice) asked.id = real_place(asked.id);
  if (static_cast<int>(asked.type) == kLocalityDomain)
    asked.id = (asked.id & ~0xff) | (real_place(asked.id & 0xff) & 0xff);
  return asked;
}

cudaMemLocation Ordinals::told(cudaMemLocation real) const noexcept {
  if (real.type == cudaMemLocationTypeDevice) real.id = told_place(real.id);
  if (static_cast<int>(real.type) == kLocalityDomain)
    real.id = (real.id & ~0xff) | (told_place(real.id & 0xff) & 0xff);
  return real;
}

void Ordinals::chose(int asked, const observe::Call& call) const noexcept {
  if (map_ == nullptr) return;
  const int means = real(asked);
  if (known(means)) asked_here.chosen[means] = asked + 1;
  if (means == asked || (rules().needs & dispatch::kFindings) == 0) return;
  const Visible* now = visible();
  if (now == nullptr) return;
  const int unmeant = now->has(asked) ? asked : -1;
  try {
    explain({.code = "GF107",
             .severity = journal::Severity::info,
             .call = call,
             .device = means,
             .other_device = unmeant,
             .subject = std::to_string(asked)},
            [&](const Visible& seen) {
              return "ordinal " + std::to_string(asked) + " asked for, which means " + gpu_text(seen, means) +
                     " (--remap " + policies::to_text(*map_) + "); " +
                     (unmeant >= 0 ? "it does not mean " + gpu_text(seen, unmeant)
                                   : "there is no CUDA " + std::to_string(asked) + " here");
            });
  } catch (...) {
    // A finding that can't be worded is lost; the program is not.
  }
}

void note_not_remapped(const char* api, const void* caller) noexcept {
  if ((rules().needs & dispatch::kRemap) == 0 ||
      (observe::in_runtime_call() && observe::outermost.watched == 0))
    return;
  const gpufence_gate* gate = dispatch::gate();
  Dl_info info{};
  void* object = nullptr;
  if (gate == nullptr || gate->dladdr1(caller, &info, &object, RTLD_DL_LINKMAP) == 0) return;
  if (gate->object_kind(object, nullptr) != GPUFENCE_OBJECT_OTHER) return;
  // cuBLAS and its kin have a runtime inside that works on whatever GPU is current.
  if (observe::is_of_cuda(caller)) return;
  try {
    const std::string name = observe::object_text(caller), once = "not remapped " + name;
    if (rules().journal->counted_again("GF107", once)) return;
    journal::Finding finding;
    finding.code = "GF107";
    finding.severity = journal::Severity::warning;
    finding.once = once;
    finding.message =
        "not remapped: the ordinals of " + name +
        ", which calls the driver itself or has a CUDA runtime linked statically (--remap acts on the shared "
        "runtime alone); link it with nvcc -cudart shared, or choose GPUs with --devices; " +
        observe::text({api, caller});
    say_of(finding, {api, caller});
  } catch (...) {
    // A finding that can't be worded is lost; the program is not.
  }
}

namespace {

// ---- One ordinal, or two, on the way in

#define REMAP_HOOK(majors, function, type, parameters, arguments) \
  RUNTIME_HOOK_FOR(dispatch::kRemap, majors, function, type, parameters, arguments)

#define TAKES_ORDINAL(majors, function, type, ordinal, parameters, arguments) \
  REMAP_HOOK(majors, function, type, parameters, arguments) {                 \
    const int asked = ordinal;                                                \
    ordinal = Ordinals(call).real(asked);                                     \
    return with_ordinal<type>(call, asked, ordinal GPUFENCE_AND arguments);   \
  }
#define TAKES_ORDINALS(majors, function, type, one, other, parameters, arguments) \
  REMAP_HOOK(majors, function, type, parameters, arguments) {                     \
    const Ordinals ordinals(call);                                                \
    one = ordinals.real(one);                                                     \
    other = ordinals.real(other);                                                 \
    return annotated<type>(call GPUFENCE_AND arguments);                          \
  }

}  // namespace

// By name, where the header has no other signature of it in any release.
#define OF(function) decltype(&::function)

TAKES_ORDINAL(SINCE_12, cudaInitDevice, OF(cudaInitDevice), device,
              (int device, unsigned int device_flags, unsigned int flags), (device, device_flags, flags))
TAKES_ORDINAL(ALL, cudaDeviceGetAttribute, OF(cudaDeviceGetAttribute), device,
              (int* value, cudaDeviceAttr attribute, int device), (value, attribute, device))
TAKES_ORDINAL(ALL, cudaDeviceGetPCIBusId, OF(cudaDeviceGetPCIBusId), device,
              (char* id, int length, int device), (id, length, device))
TAKES_ORDINAL(ALL, cudaDeviceGetDefaultMemPool, OF(cudaDeviceGetDefaultMemPool), device,
              (cudaMemPool_t * pool, int device), (pool, device))
TAKES_ORDINAL(ALL, cudaDeviceGetMemPool, OF(cudaDeviceGetMemPool), device, (cudaMemPool_t * pool, int device),
              (pool, device))
TAKES_ORDINAL(ALL, cudaDeviceSetMemPool, OF(cudaDeviceSetMemPool), device, (int device, cudaMemPool_t pool),
              (device, pool))
TAKES_ORDINAL(ALL, cudaDeviceGetGraphMemAttribute, OF(cudaDeviceGetGraphMemAttribute), device,
              (int device, cudaGraphMemAttributeType attribute, void* value), (device, attribute, value))
TAKES_ORDINAL(ALL, cudaDeviceSetGraphMemAttribute, OF(cudaDeviceSetGraphMemAttribute), device,
              (int device, cudaGraphMemAttributeType attribute, void* value), (device, attribute, value))
TAKES_ORDINAL(ALL, cudaDeviceGraphMemTrim, OF(cudaDeviceGraphMemTrim), device, (int device), (device))
TAKES_ORDINAL(ALL, cudaDeviceGetNvSciSyncAttributes, OF(cudaDeviceGetNvSciSyncAttributes), device,
              (void* attributes, int device, int flags), (attributes, device, flags))
TAKES_ORDINAL(ALL, cudaDeviceGetTexture1DLinearMaxWidth, OF(cudaDeviceGetTexture1DLinearMaxWidth), device,
              (size_t * width, const cudaChannelFormatDesc* format, int device), (width, format, device))
TAKES_ORDINAL(ALL, cudaArrayGetMemoryRequirements, OF(cudaArrayGetMemoryRequirements), device,
              (cudaArrayMemoryRequirements * needed, cudaArray_t array, int device), (needed, array, device))
TAKES_ORDINAL(ALL, cudaMipmappedArrayGetMemoryRequirements, OF(cudaMipmappedArrayGetMemoryRequirements),
              device, (cudaArrayMemoryRequirements * needed, cudaMipmappedArray_t array, int device),
              (needed, array, device))
TAKES_ORDINAL(ALL, cudaDeviceEnablePeerAccess, OF(cudaDeviceEnablePeerAccess), peer,
              (int peer, unsigned int flags), (peer, flags))
TAKES_ORDINAL(ALL, cudaDeviceDisablePeerAccess, OF(cudaDeviceDisablePeerAccess), peer, (int peer), (peer))
TAKES_ORDINAL(SINCE_12, cudaDeviceRegisterAsyncNotification, OF(cudaDeviceRegisterAsyncNotification), device,
              (int device, cudaAsyncCallback function, void* data, cudaAsyncCallbackHandle_t* handle),
              (device, function, data, handle))
TAKES_ORDINAL(SINCE_12, cudaDeviceUnregisterAsyncNotification, OF(cudaDeviceUnregisterAsyncNotification),
              device, (int device, cudaAsyncCallbackHandle_t handle), (device, handle))
TAKES_ORDINAL(SINCE_12, cudaKernelSetAttributeForDevice, cudaError_t (*)(void*, cudaFuncAttribute, int, int),
              device, (void* kernel, cudaFuncAttribute attribute, int value, int device),
              (kernel, attribute, value, device))
// The array of operations has an enumerator for its elements' type, which older headers lack.
TAKES_ORDINAL(ONLY_13, cudaDeviceGetHostAtomicCapabilities,
              cudaError_t (*)(unsigned int*, const void*, unsigned int, int), device,
              (unsigned int* able, const void* operations, unsigned int count, int device),
              (able, operations, count, device))
TAKES_ORDINALS(ONLY_13, cudaDeviceGetP2PAtomicCapabilities,
               cudaError_t (*)(unsigned int*, const void*, unsigned int, int, int), from, to,
               (unsigned int* able, const void* operations, unsigned int count, int from, int to),
               (able, operations, count, from, to))
TAKES_ORDINALS(ALL, cudaDeviceCanAccessPeer, OF(cudaDeviceCanAccessPeer), device, peer,
               (int* can, int device, int peer), (can, device, peer))
TAKES_ORDINALS(ALL, cudaDeviceGetP2PAttribute, OF(cudaDeviceGetP2PAttribute), from, to,
               (int* value, cudaDeviceP2PAttr attribute, int from, int to), (value, attribute, from, to))

// Execution contexts and green contexts, of CUDA 13.1 and later: their types are no business of ours.
TAKES_ORDINAL(ONLY_13, cudaDeviceGetExecutionCtx, cudaError_t (*)(void**, int), device,
              (void** context, int device), (context, device))
TAKES_ORDINAL(ONLY_13, cudaDeviceGetDevResource, cudaError_t (*)(int, void*, int), device,
              (int device, void* resource, int type), (device, resource, type))
TAKES_ORDINAL(ONLY_13, cudaGreenCtxCreate, cudaError_t (*)(void**, void*, int, unsigned int), device,
              (void** context, void* resources, int device, unsigned int flags),
              (context, resources, device, flags))

// What chooses a GPU by a name of old.
#define CHOOSES(function, type, parameters, arguments)                                         \
  REMAP_HOOK(ALL, function, type, parameters, arguments) {                                     \
    const Ordinals ordinals(call);                                                             \
    const int asked = device;                                                                  \
    device = ordinals.real(asked);                                                             \
    const cudaError_t result = with_ordinal<type>(call, asked, device GPUFENCE_AND arguments); \
    if (result == cudaSuccess) ordinals.chose(asked, {call.record->name, call.caller});        \
    return result;                                                                             \
  }
CHOOSES(cudaGLSetGLDevice, cudaError_t (*)(int), (int device), (device))
CHOOSES(cudaVDPAUSetVDPAUDevice, cudaError_t (*)(int, unsigned int, void*),
        (int device, unsigned int vdpau, void* functions), (device, vdpau, functions))

// The list of GPUs that the runtime may try. Those that mean one GPU are that GPU once.
REMAP_HOOK(ALL, cudaSetValidDevices, OF(cudaSetValidDevices), (int* devices, int count), (devices, count)) {
  if (count <= 0) return annotated<OF(cudaSetValidDevices)>(call, devices, count);
  const Ordinals ordinals(call);
  const auto given = static_cast<std::size_t>(count);
  Copy<int> own(devices, given);
  if (own.failed(given)) return cudaErrorMemoryAllocation;
  int left = 0;
  for (const int asked : own) {
    const int means = ordinals.real(asked);
    int at = 0;
    while (at < left && own.data()[at] != means) ++at;
    if (at == left) own.data()[left++] = means;
  }
  return annotated<OF(cudaSetValidDevices)>(call, own.data(), devices != nullptr ? left : count);
}

// ---- An ordinal on the way out

#define RETURNS_ORDINAL(majors, function, type, parameters, arguments)                      \
  REMAP_HOOK(majors, function, type, parameters, arguments) {                               \
    const cudaError_t result = annotated<type>(call GPUFENCE_AND arguments);                \
    if (result == cudaSuccess && device != nullptr) *device = Ordinals(call).told(*device); \
    return result;                                                                          \
  }
RETURNS_ORDINAL(ALL, cudaDeviceGetByPCIBusId, OF(cudaDeviceGetByPCIBusId), (int* device, const char* id),
                (device, id))
// cudaDeviceProp has another size in each release.
RETURNS_ORDINAL(ALL, cudaChooseDevice, cudaError_t (*)(int*, const void*),
                (int* device, const void* properties), (device, properties))
RETURNS_ORDINAL(SINCE_12, cudaStreamGetDevice, cudaError_t (*)(cudaStream_t, int*),
                (cudaStream_t stream, int* device), (stream, device))
RETURNS_ORDINAL(SINCE_12, cudaStreamGetDevice_ptsz, cudaError_t (*)(cudaStream_t, int*),
                (cudaStream_t stream, int* device), (stream, device))
RETURNS_ORDINAL(ONLY_13, cudaExecutionCtxGetDevice, cudaError_t (*)(int*, void*),
                (int* device, void* context), (device, context))
RETURNS_ORDINAL(ALL, cudaVDPAUGetDevice, cudaError_t (*)(int*, unsigned int, void*),
                (int* device, unsigned int vdpau, void* functions), (device, vdpau, functions))

using GlGetDevices = cudaError_t (*)(unsigned int*, int*, unsigned int, int);
REMAP_HOOK(ALL, cudaGLGetDevices, GlGetDevices,
           (unsigned int* count, int* devices, unsigned int room, int list), (count, devices, room, list)) {
  const cudaError_t result = annotated<GlGetDevices>(call, count, devices, room, list);
  if (result != cudaSuccess || count == nullptr || devices == nullptr) return result;
  const Ordinals ordinals(call);
  for (unsigned int i = 0; i < room && i < *count; ++i) devices[i] = ordinals.told(devices[i]);
  return result;
}

REMAP_HOOK(ALL, cudaPointerGetAttributes, OF(cudaPointerGetAttributes),
           (cudaPointerAttributes * attributes, const void* pointer), (attributes, pointer)) {
  const cudaError_t result = annotated<OF(cudaPointerGetAttributes)>(call, attributes, pointer);
  if (result == cudaSuccess && attributes != nullptr)
    attributes->device = Ordinals(call).told(attributes->device);
  return result;
}

// ---- Locations of memory

using AdviseOrdinal = cudaError_t (*)(const void*, size_t, cudaMemoryAdvise, int);
using AdviseLocation = cudaError_t (*)(const void*, size_t, cudaMemoryAdvise, cudaMemLocation);
REMAP_HOOK(UNTIL_12, cudaMemAdvise, AdviseOrdinal,
           (const void* memory, size_t count, cudaMemoryAdvise advice, int device),
           (memory, count, advice, device)) {
  return annotated<AdviseOrdinal>(call, memory, count, advice, Ordinals(call).real_place(device));
}
REMAP_HOOK(ONLY_13, cudaMemAdvise, AdviseLocation,
           (const void* memory, size_t count, cudaMemoryAdvise advice, cudaMemLocation location),
           (memory, count, advice, location)) {
  return annotated<AdviseLocation>(call, memory, count, advice, Ordinals(call).real(location));
}
REMAP_HOOK(ONLY_12, cudaMemAdvise_v2, AdviseLocation,
           (const void* memory, size_t count, cudaMemoryAdvise advice, cudaMemLocation location),
           (memory, count, advice, location)) {
  return annotated<AdviseLocation>(call, memory, count, advice, Ordinals(call).real(location));
}

using PrefetchToOrdinal = cudaError_t (*)(const void*, size_t, int, cudaStream_t);
using PrefetchToLocation = cudaError_t (*)(const void*, size_t, cudaMemLocation, unsigned int, cudaStream_t);
#define PREFETCH_TO_ORDINAL(function)                                                                    \
  REMAP_HOOK(UNTIL_12, function, PrefetchToOrdinal,                                                      \
             (const void* memory, size_t count, int device, cudaStream_t stream),                        \
             (memory, count, device, stream)) {                                                          \
    return annotated<PrefetchToOrdinal>(call, memory, count, Ordinals(call).real_place(device), stream); \
  }
#define PREFETCH_TO_LOCATION(majors, function)                                                               \
  REMAP_HOOK(                                                                                                \
      majors, function, PrefetchToLocation,                                                                  \
      (const void* memory, size_t count, cudaMemLocation location, unsigned int flags, cudaStream_t stream), \
      (memory, count, location, flags, stream)) {                                                            \
    return annotated<PrefetchToLocation>(call, memory, count, Ordinals(call).real(location), flags, stream); \
  }
PREFETCH_TO_ORDINAL(cudaMemPrefetchAsync)
PREFETCH_TO_ORDINAL(cudaMemPrefetchAsync_ptsz)
PREFETCH_TO_LOCATION(ONLY_13, cudaMemPrefetchAsync)
PREFETCH_TO_LOCATION(ONLY_13, cudaMemPrefetchAsync_ptsz)
PREFETCH_TO_LOCATION(ONLY_12, cudaMemPrefetchAsync_v2)
PREFETCH_TO_LOCATION(ONLY_12, cudaMemPrefetchAsync_v2_ptsz)

using PrefetchBatch = cudaError_t (*)(void**, size_t*, size_t, cudaMemLocation*, size_t*, size_t,
                                      unsigned long long, cudaStream_t);
#define PREFETCH_BATCH(function)                                                                             \
  REMAP_HOOK(ONLY_13, function, PrefetchBatch,                                                               \
             (void** memory, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* indices,       \
              size_t places, unsigned long long flags, cudaStream_t stream),                                 \
             (memory, sizes, count, locations, indices, places, flags, stream)) {                            \
    const Ordinals ordinals(call);                                                                           \
    Copy<cudaMemLocation> own(locations, places);                                                            \
    if (own.failed(places)) return cudaErrorMemoryAllocation;                                                \
    for (cudaMemLocation & location : own) location = ordinals.real(location);                               \
    return annotated<PrefetchBatch>(call, memory, sizes, count, own.data(), indices, places, flags, stream); \
  }
PREFETCH_BATCH(cudaMemPrefetchBatchAsync)
PREFETCH_BATCH(cudaMemPrefetchBatchAsync_ptsz)
PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync)
PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync_ptsz)

namespace {

// Where a range lies, as the program names it. Of a location's id the attribute before it tells the type.
void tell_range(const RuntimeCall& call, cudaMemRangeAttribute attribute, void* data, std::size_t bytes,
                const void* memory, std::size_t count) noexcept {
  if (data == nullptr) return;
  const Ordinals ordinals(call);
  int* values = static_cast<int*>(data);
  switch (attribute) {
    case cudaMemRangeAttributePreferredLocation:
    case cudaMemRangeAttributeAccessedBy:  // as many as there is room for; cudaInvalidDeviceId behind the
                                           // last
    case cudaMemRangeAttributeLastPrefetchLocation:
      for (std::size_t i = 0; i < bytes / sizeof(int); ++i) values[i] = ordinals.told_place(values[i]);
      return;
    case cudaMemRangeAttributePreferredLocationId:
    case cudaMemRangeAttributeLastPrefetchLocationId: {
      const auto ask = reinterpret_cast<OF(cudaMemRangeGetAttribute)>(
          dispatch::runtime_symbol(call, "cudaMemRangeGetAttribute"));
      cudaMemLocation location{};
      const auto type_of = static_cast<cudaMemRangeAttribute>(attribute - 1);
      if (bytes < sizeof(int) || ask == nullptr ||
          ask(&location.type, sizeof location.type, type_of, memory, count) != cudaSuccess)
        return;
      location.id = values[0];
      values[0] = ordinals.told(location).id;
      return;
    }
    default:
      return;
  }
}

}  // namespace

REMAP_HOOK(ALL, cudaMemRangeGetAttribute, OF(cudaMemRangeGetAttribute),
           (void* data, size_t bytes, cudaMemRangeAttribute attribute, const void* memory, size_t count),
           (data, bytes, attribute, memory, count)) {
  const cudaError_t result =
      annotated<OF(cudaMemRangeGetAttribute)>(call, data, bytes, attribute, memory, count);
  if (result == cudaSuccess) tell_range(call, attribute, data, bytes, memory, count);
  return result;
}

REMAP_HOOK(ALL, cudaMemRangeGetAttributes, OF(cudaMemRangeGetAttributes),
           (void** data, size_t* bytes, cudaMemRangeAttribute* attributes, size_t number, const void* memory,
            size_t count),
           (data, bytes, attributes, number, memory, count)) {
  const cudaError_t result =
      annotated<OF(cudaMemRangeGetAttributes)>(call, data, bytes, attributes, number, memory, count);
  if (result != cudaSuccess || data == nullptr || bytes == nullptr || attributes == nullptr) return result;
  for (std::size_t i = 0; i < number; ++i) tell_range(call, attributes[i], data[i], bytes[i], memory, count);
  return result;
}

// Of CUDA 13.1 and later: a location each `step` bytes.
using GetLocations = cudaError_t (*)(void*, size_t, size_t, size_t, cudaMemLocation*);
REMAP_HOOK(ONLY_13, cudaMemGetLocationInfo, GetLocations,
           (void* memory, size_t bytes, size_t step, size_t sampled, cudaMemLocation* locations),
           (memory, bytes, step, sampled, locations)) {
  const cudaError_t result = annotated<GetLocations>(call, memory, bytes, step, sampled, locations);
  if (result != cudaSuccess || locations == nullptr || step == 0) return result;
  const Ordinals ordinals(call);
  for (std::size_t i = 0; i < bytes / step + (bytes % step != 0 ? 1 : 0); ++i)
    locations[i] = ordinals.told(locations[i]);
  return result;
}

// ---- Pools

using OfLocation = cudaError_t (*)(cudaMemPool_t*, cudaMemLocation*, int);
#define POOL_OF_LOCATION(function)                                                                        \
  REMAP_HOOK(ONLY_13, function, OfLocation, (cudaMemPool_t * pool, cudaMemLocation * location, int type), \
             (pool, location, type)) {                                                                    \
    cudaMemLocation own{};                                                                                \
    if (location != nullptr) own = Ordinals(call).real(*location);                                        \
    return annotated<OfLocation>(call, pool, location != nullptr ? &own : nullptr, type);                 \
  }
POOL_OF_LOCATION(cudaMemGetDefaultMemPool)
POOL_OF_LOCATION(cudaMemGetMemPool)

using SetPool = cudaError_t (*)(cudaMemLocation*, int, cudaMemPool_t);
REMAP_HOOK(ONLY_13, cudaMemSetMemPool, SetPool, (cudaMemLocation * location, int type, cudaMemPool_t pool),
           (location, type, pool)) {
  cudaMemLocation own{};
  if (location != nullptr) own = Ordinals(call).real(*location);
  return annotated<SetPool>(call, location != nullptr ? &own : nullptr, type, pool);
}

REMAP_HOOK(ALL, cudaMemPoolCreate, OF(cudaMemPoolCreate),
           (cudaMemPool_t * pool, const cudaMemPoolProps* given), (pool, given)) {
  if (given == nullptr) return annotated<OF(cudaMemPoolCreate)>(call, pool, given);
  cudaMemPoolProps own = *given;
  own.location = Ordinals(call).real(own.location);
  return annotated<OF(cudaMemPoolCreate)>(call, pool, &own);
}

REMAP_HOOK(ALL, cudaMemPoolSetAccess, OF(cudaMemPoolSetAccess),
           (cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count), (pool, list, count)) {
  const Ordinals ordinals(call);
  Copy<cudaMemAccessDesc> own(list, count);
  if (own.failed(count)) return cudaErrorMemoryAllocation;
  for (cudaMemAccessDesc& one : own) one.location = ordinals.real(one.location);
  return annotated<OF(cudaMemPoolSetAccess)>(call, pool, own.data(), count);
}

REMAP_HOOK(ALL, cudaMemPoolGetAccess, OF(cudaMemPoolGetAccess),
           (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
           (flags, pool, location)) {
  cudaMemLocation own{};
  if (location != nullptr) own = Ordinals(call).real(*location);
  return annotated<OF(cudaMemPoolGetAccess)>(call, flags, pool, location != nullptr ? &own : nullptr);
}

// Of a pool's attributes one is its location's id, in CUDA 13.1 and later; the next is the location's type.
REMAP_HOOK(ALL, cudaMemPoolGetAttribute, OF(cudaMemPoolGetAttribute),
           (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value), (pool, attribute, value)) {
  constexpr int kLocationId = 11, kLocationType = 12;
  const cudaError_t result = annotated<OF(cudaMemPoolGetAttribute)>(call, pool, attribute, value);
  if (result != cudaSuccess || value == nullptr || static_cast<int>(attribute) != kLocationId) return result;
  cudaMemLocation location{};
  if (dispatch::real_runtime<OF(cudaMemPoolGetAttribute)>(
          call, pool, static_cast<cudaMemPoolAttr>(kLocationType), &location.type) != cudaSuccess)
    return result;
  location.id = *static_cast<int*>(value);
  *static_cast<int*>(value) = Ordinals(call).told(location).id;
  return result;
}

// ---- Copies between two GPUs, and copies with hints where memory lies

#define COPY_3D_PEER(function, like, parameters, arguments)                        \
  REMAP_HOOK(ALL, function, OF(like), parameters, arguments) {                     \
    if (given == nullptr) return annotated<OF(like)>(call GPUFENCE_AND arguments); \
    const Ordinals ordinals(call);                                                 \
    cudaMemcpy3DPeerParms own = *given;                                            \
    own.srcDevice = ordinals.real(own.srcDevice);                                  \
    own.dstDevice = ordinals.real(own.dstDevice);                                  \
    given = &own;                                                                  \
    return annotated<OF(like)>(call GPUFENCE_AND arguments);                       \
  }
COPY_3D_PEER(cudaMemcpy3DPeer, cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms* given), (given))
COPY_3D_PEER(cudaMemcpy3DPeer_ptds, cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms* given), (given))
COPY_3D_PEER(cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync,
             (const cudaMemcpy3DPeerParms* given, cudaStream_t stream), (given, stream))
COPY_3D_PEER(cudaMemcpy3DPeerAsync_ptsz, cudaMemcpy3DPeerAsync,
             (const cudaMemcpy3DPeerParms* given, cudaStream_t stream), (given, stream))

namespace {

void mean(const Ordinals& ordinals, cudaMemcpyAttributes& attributes) noexcept {
  attributes.srcLocHint = ordinals.real(attributes.srcLocHint);
  attributes.dstLocHint = ordinals.real(attributes.dstLocHint);
}
void mean(const Ordinals& ordinals, cudaMemcpy3DOperand& operand) noexcept {
  if (operand.type == cudaMemcpyOperandTypePointer)
    operand.op.ptr.locHint = ordinals.real(operand.op.ptr.locHint);
}
void mean(const Ordinals& ordinals, cudaMemcpy3DBatchOp& operation) noexcept {
  mean(ordinals, operation.src);
  mean(ordinals, operation.dst);
}

}  // namespace

// `given` and `number`: the array that holds locations.
#define COPIES_HINTED(majors, function, type, element, given, number, parameters, arguments) \
  REMAP_HOOK(majors, function, type, parameters, arguments) {                                \
    const Ordinals ordinals(call);                                                           \
    Copy<element> own(given, number);                                                        \
    if (own.failed(number)) return cudaErrorMemoryAllocation;                                \
    for (element & one : own) mean(ordinals, one);                                           \
    given = own.data();                                                                      \
    return annotated<type>(call GPUFENCE_AND arguments);                                     \
  }

using Batch12 = cudaError_t (*)(void**, void**, size_t*, size_t, cudaMemcpyAttributes*, size_t*, size_t,
                                size_t*, cudaStream_t);
using Batch13 = cudaError_t (*)(void* const*, const void* const*, const size_t*, size_t,
                                cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t);
#define COPY_BATCH(function)                                                                        \
  COPIES_HINTED(ONLY_12, function, Batch12, cudaMemcpyAttributes, given, number,                    \
                (void** to, void** from, size_t* sizes, size_t count, cudaMemcpyAttributes* given,  \
                 size_t* indices, size_t number, size_t* failed, cudaStream_t stream),              \
                (to, from, sizes, count, given, indices, number, failed, stream))                   \
  COPIES_HINTED(ONLY_13, function, Batch13, cudaMemcpyAttributes, given, number,                    \
                (void* const* to, const void* const* from, const size_t* sizes, size_t count,       \
                 cudaMemcpyAttributes* given, size_t* indices, size_t number, cudaStream_t stream), \
                (to, from, sizes, count, given, indices, number, stream))
COPY_BATCH(cudaMemcpyBatchAsync)
COPY_BATCH(cudaMemcpyBatchAsync_ptsz)

using Batch3d12 = cudaError_t (*)(size_t, cudaMemcpy3DBatchOp*, size_t*, unsigned long long, cudaStream_t);
using Batch3d13 = cudaError_t (*)(size_t, cudaMemcpy3DBatchOp*, unsigned long long, cudaStream_t);
#define COPY_3D_BATCH(function)                                                                              \
  COPIES_HINTED(ONLY_12, function, Batch3d12, cudaMemcpy3DBatchOp, given, number,                            \
                (size_t number, cudaMemcpy3DBatchOp * given, size_t * failed, unsigned long long flags,      \
                 cudaStream_t stream),                                                                       \
                (number, given, failed, flags, stream))                                                      \
  COPIES_HINTED(ONLY_13, function, Batch3d13, cudaMemcpy3DBatchOp, given, number,                            \
                (size_t number, cudaMemcpy3DBatchOp * given, unsigned long long flags, cudaStream_t stream), \
                (number, given, flags, stream))
COPY_3D_BATCH(cudaMemcpy3DBatchAsync)
COPY_3D_BATCH(cudaMemcpy3DBatchAsync_ptsz)

// Of CUDA 13.2 and later: one copy with its attributes.
using CopyWith = cudaError_t (*)(void*, const void*, size_t, cudaMemcpyAttributes*, cudaStream_t);
using Copy3dWith = cudaError_t (*)(cudaMemcpy3DBatchOp*, unsigned long long, cudaStream_t);
#define COPY_WITH_ATTRIBUTES(function)                                                                       \
  COPIES_HINTED(ONLY_13, function, CopyWith, cudaMemcpyAttributes, given, 1u,                                \
                (void* to, const void* from, size_t size, cudaMemcpyAttributes* given, cudaStream_t stream), \
                (to, from, size, given, stream))
#define COPY_3D_WITH_ATTRIBUTES(function)                                                     \
  COPIES_HINTED(ONLY_13, function, Copy3dWith, cudaMemcpy3DBatchOp, given, 1u,                \
                (cudaMemcpy3DBatchOp * given, unsigned long long flags, cudaStream_t stream), \
                (given, flags, stream))
COPY_WITH_ATTRIBUTES(cudaMemcpyWithAttributesAsync)
COPY_WITH_ATTRIBUTES(cudaMemcpyWithAttributesAsync_ptsz)
COPY_3D_WITH_ATTRIBUTES(cudaMemcpy3DWithAttributesAsync)
COPY_3D_WITH_ATTRIBUTES(cudaMemcpy3DWithAttributesAsync_ptsz)

// ---- Memory of graphs

namespace {

// `add` gets the parameters with the ordinals that are meant; CUDA writes the new memory's address into them.
template <class Parameters, class Add>
cudaError_t with_memory(const RuntimeCall& call, Parameters* given, Add add) noexcept {
  if (given == nullptr) return add(given);
  const Ordinals ordinals(call);
  Parameters own = *given;
  own.poolProps.location = ordinals.real(own.poolProps.location);
  Copy<cudaMemAccessDesc> access(own.accessDescs, own.accessDescCount);
  if (access.failed(own.accessDescCount)) return cudaErrorMemoryAllocation;
  for (cudaMemAccessDesc& one : access) one.location = ordinals.real(one.location);
  own.accessDescs = access.data();
  const cudaError_t result = add(&own);
  given->dptr = own.dptr;
  return result;
}

// A node of any kind, of which only those that allocate hold ordinals.
template <class Add>
cudaError_t with_node(const RuntimeCall& call, cudaGraphNodeParams* given, Add add) noexcept {
  if (given == nullptr || given->type != cudaGraphNodeTypeMemAlloc) return add(given);
  cudaGraphNodeParams own = *given;
  return with_memory(call, &given->alloc, [&](auto* parameters) {
    own.alloc = *parameters;
    const cudaError_t result = add(&own);
    parameters->dptr = own.alloc.dptr;
    return result;
  });
}

// A list that CUDA handed out and keeps, in the program's words. Ours has to live as long, and nobody says
// how long that is: lists of one content share a copy, and copies are leaked, so that there are few.
struct List {
  List* next;
  std::size_t count;
  cudaMemAccessDesc* access;
};
constinit std::atomic<List*> lists{nullptr};

const cudaMemAccessDesc* told_list(const Ordinals& ordinals, const cudaMemAccessDesc* access,
                                   std::size_t count) noexcept {
  Copy<cudaMemAccessDesc> own(access, count);
  if (access == nullptr || count == 0 || own.failed(count)) return access;
  bool changed = false;
  for (cudaMemAccessDesc& one : own) {
    const int before = one.location.id;
    one.location = ordinals.told(one.location);
    changed = changed || one.location.id != before;
  }
  if (!changed) return access;
  List* first = lists.load(std::memory_order_acquire);
  for (const List* list = first; list != nullptr; list = list->next)
    if (list->count == count && std::memcmp(list->access, own.data(), count * sizeof *access) == 0)
      return list->access;
  auto kept = std::unique_ptr<List>(new (std::nothrow) List{first, count, nullptr});
  auto* copy = new (std::nothrow) cudaMemAccessDesc[count];
  if (kept == nullptr || copy == nullptr) {
    delete[] copy;
    return access;
  }
  std::memcpy(copy, own.data(), count * sizeof *access);
  kept->access = copy;
  while (!lists.compare_exchange_weak(kept->next, kept.get(), std::memory_order_acq_rel)) {
  }
  return kept.release()->access;
}

template <class Parameters>
void tell_memory(const RuntimeCall& call, Parameters& out) noexcept {
  const Ordinals ordinals(call);
  out.poolProps.location = ordinals.told(out.poolProps.location);
  out.accessDescs = told_list(ordinals, out.accessDescs, out.accessDescCount);
}

}  // namespace

REMAP_HOOK(ALL, cudaGraphAddMemAllocNode, OF(cudaGraphAddMemAllocNode),
           (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
            cudaMemAllocNodeParams* given),
           (node, graph, after, count, given)) {
  return with_memory(call, given, [&](cudaMemAllocNodeParams* own) {
    return annotated<OF(cudaGraphAddMemAllocNode)>(call, node, graph, after, count, own);
  });
}

REMAP_HOOK(ALL, cudaGraphMemAllocNodeGetParams, OF(cudaGraphMemAllocNodeGetParams),
           (cudaGraphNode_t node, cudaMemAllocNodeParams* out), (node, out)) {
  const cudaError_t result = annotated<OF(cudaGraphMemAllocNodeGetParams)>(call, node, out);
  if (result == cudaSuccess && out != nullptr) tell_memory(call, *out);
  return result;
}

using AddNode12 = cudaError_t (*)(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t,
                                  cudaGraphNodeParams*);
using AddNode13 = cudaError_t (*)(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*,
                                  const cudaGraphEdgeData*, size_t, cudaGraphNodeParams*);
REMAP_HOOK(ONLY_12, cudaGraphAddNode, AddNode12,
           (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
            cudaGraphNodeParams* given),
           (node, graph, after, count, given)) {
  return with_node(call, given, [&](cudaGraphNodeParams* own) {
    return annotated<AddNode12>(call, node, graph, after, count, own);
  });
}
#define ADD_NODE(majors, function)                                                       \
  REMAP_HOOK(majors, function, AddNode13,                                                \
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* after,   \
              const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* given), \
             (node, graph, after, edges, count, given)) {                                \
    return with_node(call, given, [&](cudaGraphNodeParams* own) {                        \
      return annotated<AddNode13>(call, node, graph, after, edges, count, own);          \
    });                                                                                  \
  }
ADD_NODE(ONLY_12, cudaGraphAddNode_v2)
ADD_NODE(ONLY_13, cudaGraphAddNode)

using SetNode = cudaError_t (*)(cudaGraphNode_t, cudaGraphNodeParams*);
REMAP_HOOK(SINCE_12, cudaGraphNodeSetParams, SetNode, (cudaGraphNode_t node, cudaGraphNodeParams* given),
           (node, given)) {
  return with_node(call, given,
                   [&](cudaGraphNodeParams* own) { return annotated<SetNode>(call, node, own); });
}
using SetNodeOf = cudaError_t (*)(cudaGraphExec_t, cudaGraphNode_t, cudaGraphNodeParams*);
REMAP_HOOK(SINCE_12, cudaGraphExecNodeSetParams, SetNodeOf,
           (cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraphNodeParams* given), (graph, node, given)) {
  return with_node(call, given,
                   [&](cudaGraphNodeParams* own) { return annotated<SetNodeOf>(call, graph, node, own); });
}
// Of CUDA 13.2 and later.
REMAP_HOOK(ONLY_13, cudaGraphNodeGetParams, SetNode, (cudaGraphNode_t node, cudaGraphNodeParams* out),
           (node, out)) {
  const cudaError_t result = annotated<SetNode>(call, node, out);
  if (result == cudaSuccess && out != nullptr && out->type == cudaGraphNodeTypeMemAlloc)
    tell_memory(call, out->alloc);
  return result;
}

}  // namespace gpufence::hooks
