// The optional observer: subscribes to CUPTI's callbacks of the runtime API and tells the core which runtime
// call each thread is in (observe/watch.h). Only for `--diagnose all`. CUPTI admits one subscriber, so
// everything here is about not being in the way: libcupti is never needed by this file, only opened; the core
// opens this library late and not where a profiler is; and when another comes, it finds our cuptiSubscribe
// first, which leaves and calls the true one. No exceptions, no C++ library, no lock: callbacks run inside
// the program's calls.
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "observe/watch.h"

namespace {

constinit std::atomic<const gpufence_watch_core*> core{nullptr};
constinit std::atomic<void*> library{nullptr};
constinit std::atomic<CUpti_SubscriberHandle> subscriber{nullptr};
constinit std::atomic<pid_t> owner{0};  // a forked child inherits the subscription, and must not touch it

// ---- Which calls

struct Watched {
  const char* name = nullptr;  // null: nobody asked
  unsigned does = 0;
};

struct Table {
  Watched calls[CUPTI_RUNTIME_TRACE_CBID_SIZE];
};

// By callback id. A call has a new id with each new signature; those of the runtimes 11, 12 and 13 are here.
constexpr Table make_table() {
  Table table{};
  const auto add = [&](CUpti_runtime_api_trace_cbid id, const char* name, unsigned does = 0) {
    table.calls[id] = {name, does};
  };
#define WATCH(function, version, ...) \
  add(CUPTI_RUNTIME_TRACE_CBID_##function##_v##version, #function __VA_OPT__(, ) __VA_ARGS__)
#define WATCH_TWINS(function, twin, plain_version, twin_version, ...) \
  WATCH(function, plain_version __VA_OPT__(, ) __VA_ARGS__);          \
  add(CUPTI_RUNTIME_TRACE_CBID_##function##_##twin##_v##twin_version, #function __VA_OPT__(, ) __VA_ARGS__)
  WATCH(cudaSetDevice, 3020,
        GPUFENCE_WATCHED_CHOOSES | GPUFENCE_WATCHED_ORDINAL | GPUFENCE_WATCHED_READS_MASK);
  WATCH(cudaGetDevice, 3020);
  WATCH(cudaGetDeviceCount, 3020, GPUFENCE_WATCHED_READS_MASK);
  WATCH(cudaGetDeviceProperties, 3020, GPUFENCE_WATCHED_ORDINAL);
  WATCH(cudaGetDeviceProperties, 12000, GPUFENCE_WATCHED_ORDINAL);
  WATCH(cudaDeviceGetAttribute, 5000, GPUFENCE_WATCHED_ORDINAL);
  WATCH(cudaDeviceSynchronize, 3020);
  WATCH(cudaDeviceReset, 3020);
  WATCH(cudaDeviceEnablePeerAccess, 4000);

  WATCH(cudaMalloc, 3020);
  WATCH(cudaMallocManaged, 6000);
  WATCH(cudaMallocPitch, 3020);
  WATCH(cudaMalloc3D, 3020);
  WATCH(cudaMallocArray, 3020);
  WATCH(cudaMallocHost, 3020);
  WATCH(cudaHostAlloc, 3020);
  WATCH(cudaHostRegister, 4000);
  WATCH(cudaMemGetInfo, 3020);
  WATCH(cudaFree, 3020, GPUFENCE_WATCHED_GIVES_BACK);
  WATCH_TWINS(cudaMallocAsync, ptsz, 11020, 11020);
  WATCH_TWINS(cudaMallocFromPoolAsync, ptsz, 11020, 11020);
  WATCH_TWINS(cudaFreeAsync, ptsz, 11020, 11020, GPUFENCE_WATCHED_GIVES_BACK);

  WATCH_TWINS(cudaMemcpy, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemcpyAsync, ptsz, 3020, 7000);
  WATCH_TWINS(cudaMemcpy2D, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemcpy2DAsync, ptsz, 3020, 7000);
  WATCH_TWINS(cudaMemcpy3D, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemcpy3DAsync, ptsz, 3020, 7000);
  WATCH(cudaMemcpyPeer, 4000);
  WATCH(cudaMemcpyPeerAsync, 4000);
  WATCH_TWINS(cudaMemcpyToSymbol, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemcpyToSymbolAsync, ptsz, 3020, 7000);
  WATCH_TWINS(cudaMemcpyFromSymbol, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemcpyFromSymbolAsync, ptsz, 3020, 7000);
  WATCH_TWINS(cudaMemset, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemsetAsync, ptsz, 3020, 7000);
  WATCH_TWINS(cudaMemset2D, ptds, 3020, 7000);
  WATCH_TWINS(cudaMemset2DAsync, ptsz, 3020, 7000);

  WATCH(cudaStreamCreate, 3020);
  WATCH(cudaStreamCreateWithFlags, 5000);
  WATCH(cudaStreamCreateWithPriority, 5050);
  WATCH_TWINS(cudaStreamSynchronize, ptsz, 3020, 7000);
  WATCH_TWINS(cudaStreamWaitEvent, ptsz, 3020, 7000);
  WATCH(cudaEventCreate, 3020);
  WATCH(cudaEventCreateWithFlags, 3020);
  WATCH_TWINS(cudaEventRecord, ptsz, 3020, 7000);
  WATCH_TWINS(cudaEventRecordWithFlags, ptsz, 11010, 11010);
  WATCH(cudaEventSynchronize, 3020);
  WATCH(cudaEventElapsedTime, 3020);

  WATCH_TWINS(cudaLaunchKernel, ptsz, 7000, 7000, GPUFENCE_WATCHED_LAUNCHES);
  WATCH_TWINS(cudaLaunchCooperativeKernel, ptsz, 9000, 9000, GPUFENCE_WATCHED_LAUNCHES);
  WATCH_TWINS(cudaLaunchKernelExC, ptsz, 11060, 11060, GPUFENCE_WATCHED_LAUNCHES);
#if CUPTI_API_VERSION >= 130000
  WATCH_TWINS(__cudaLaunchKernel, ptsz, 13000, 13000, GPUFENCE_WATCHED_LAUNCHES);
  WATCH(cudaEventElapsedTime, 12080);
#endif
#undef WATCH_TWINS
#undef WATCH
  return table;
}
constexpr Table kTable = make_table();

// ---- Their arguments

void read_launch(gpufence_watched_call& call, const void* function, const void* stream) {
  call.function = function;
  call.stream = stream;
}

// kernel<<<>>> as nvcc 13 compiles it. NVIDIA's header has no struct for it; in all of those that it has, the
// fields are the parameters.
struct Chevrons {
  const void* kernel;
  dim3 grid, block;
  void** arguments;
  size_t shared;
  cudaStream_t stream;
};

void read_arguments(gpufence_watched_call& call, CUpti_CallbackId id, const void* params) {
  if (params == nullptr) return;
#define FROM(function, ...)                                             \
  case CUPTI_RUNTIME_TRACE_CBID_##function: {                           \
    const auto& given = *static_cast<const function##_params*>(params); \
    __VA_ARGS__;                                                        \
    break;                                                              \
  }
#define LAUNCH(function) FROM(function, read_launch(call, given.func, given.stream))
#define LAUNCH_CONFIGURED(function) \
  FROM(function, read_launch(call, given.func, given.config != nullptr ? given.config->stream : nullptr))
  switch (id) {
    FROM(cudaSetDevice_v3020, call.device = given.device)
    FROM(cudaGetDeviceProperties_v12000, call.device = given.device)
    FROM(cudaDeviceGetAttribute_v5000, call.device = given.device)
    LAUNCH(cudaLaunchKernel_v7000)
    LAUNCH(cudaLaunchKernel_ptsz_v7000)
    LAUNCH(cudaLaunchCooperativeKernel_v9000)
    LAUNCH(cudaLaunchCooperativeKernel_ptsz_v9000)
    LAUNCH_CONFIGURED(cudaLaunchKernelExC_v11060)
    LAUNCH_CONFIGURED(cudaLaunchKernelExC_ptsz_v11060)
    case CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceProperties_v3020:
      // The same fields, whatever the struct that it fills.
      call.device = static_cast<const cudaGetDeviceProperties_v12000_params*>(params)->device;
      break;
#if CUPTI_API_VERSION >= 130000
    case CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000:
    case CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000: {
      const auto& given = *static_cast<const Chevrons*>(params);
      read_launch(call, given.kernel, given.stream);
      break;
    }
#endif
    default:
      break;
  }
#undef LAUNCH_CONFIGURED
#undef LAUNCH
#undef FROM
}

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) noexcept {
  const gpufence_watch_core* to = core.load(std::memory_order_acquire);
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API || id >= CUPTI_RUNTIME_TRACE_CBID_SIZE || data == nullptr ||
      to == nullptr)
    return;
  const Watched& watched = kTable.calls[id];
  if (watched.name == nullptr) return;
  const auto& told = *static_cast<const CUpti_CallbackData*>(data);
  gpufence_watched_call call{};
  call.name = watched.name;
  call.does = watched.does;
  // The runtime keeps the parameters where its function was called: on its stack frame.
  call.frame = told.functionParams != nullptr ? told.functionParams : told.correlationData;
  if (told.callbackSite == CUPTI_API_ENTER) {
    to->entered(&call);
    return;
  }
  call.device = -1;
  call.kernel = told.symbolName;
  read_arguments(call, id, told.functionParams);
  const auto* result = static_cast<const cudaError_t*>(told.functionReturnValue);
  to->left(&call, result != nullptr ? *result : cudaSuccess);
}

// ---- Coming and going

template <class Function>
Function* find(void* from, const char* name) {
  return from != nullptr ? reinterpret_cast<Function*>(core.load()->dlsym(from, name)) : nullptr;
}

// CUPTI goes with drivers of its own major release and newer ones.
struct Release {
  const char* file;
  int least_driver;  // as cuDriverGetVersion tells
};
constexpr Release kReleases[] = {
    {"libcupti.so.13", 13000},   {"libcupti.so.12", 12000},   {"libcupti.so.11.8", 11080},
    {"libcupti.so.11.7", 11070}, {"libcupti.so.11.6", 11060}, {"libcupti.so.11.5", 11050},
    {"libcupti.so.11.4", 11040}, {"libcupti.so.11.3", 11030}, {"libcupti.so.11.2", 11020},
    {"libcupti.so.11.1", 11010}, {"libcupti.so.11.0", 11000}};

// One reason a process, in static storage.
char reason[512];
const char* because(const char* file, const char* what, const char* detail = "", const char* rest = "") {
  std::size_t at = 0;
  for (const char* part : {file, what, detail, rest}) {
    for (; *part != '\0' && at + 1 < sizeof reason; ++part) reason[at++] = *part;
  }
  reason[at] = '\0';
  return reason;
}

void stop() {
  if (owner.load(std::memory_order_relaxed) != getpid()) return;
  CUpti_SubscriberHandle mine = subscriber.exchange(nullptr, std::memory_order_acq_rel);
  if (mine == nullptr) return;
  if (auto* leave = find<decltype(cuptiUnsubscribe)>(library.load(), "cuptiUnsubscribe"); leave != nullptr)
    leave(mine);
}

const char* start(const gpufence_watch_core* to, int driver_version) {
  if (to->version != GPUFENCE_WATCH_VERSION)
    return "libgpufence-cupti.so is of another version than the fence";
  core.store(to, std::memory_order_release);
  const Release* release = nullptr;
  const char* newest = nullptr;
  void* opened = nullptr;
  for (const Release& one : kReleases) {
    if (driver_version < one.least_driver) continue;
    if (newest == nullptr) newest = one.file;
    release = &one;
    opened = to->dlopen(one.file, RTLD_NOW | RTLD_LOCAL);
    if (opened != nullptr) break;
  }
  if (newest == nullptr) return "no CUPTI goes with a driver that old";
  if (opened == nullptr)
    return because(
        newest,
        " can't be opened; it comes with the CUDA toolkit (extras/CUPTI/lib64, package cuda-cupti) and as "
        "Python's nvidia-cuda-cupti: put its directory into LD_LIBRARY_PATH");
  library.store(opened);
  auto* subscribe = find<decltype(cuptiSubscribe)>(opened, "cuptiSubscribe");
  auto* enable = find<decltype(cuptiEnableCallback)>(opened, "cuptiEnableCallback");
  auto* words = find<decltype(cuptiGetResultString)>(opened, "cuptiGetResultString");
  if (subscribe == nullptr || enable == nullptr || find<void()>(opened, "cuptiUnsubscribe") == nullptr)
    return because(release->file, " lacks the callback API");
  CUpti_SubscriberHandle mine = nullptr;
  const CUptiResult result = subscribe(&mine, called, nullptr);
  if (result != CUPTI_SUCCESS) {
    const char* name = nullptr;
    if (words == nullptr || words(result, &name) != CUPTI_SUCCESS || name == nullptr)
      name = "an error without a name";
    // NOT_INITIALIZED stands for a driver of another release.
    const char* meaning = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                              ? ": another tool has subscribed, and CUPTI admits one"
                          : result == CUPTI_ERROR_NOT_INITIALIZED || result == CUPTI_ERROR_NOT_COMPATIBLE
                              ? ": it does not go with this driver"
                              : "";
    return because(release->file, " answers ", name, meaning);
  }
  owner.store(getpid(), std::memory_order_relaxed);
  subscriber.store(mine, std::memory_order_release);
  for (std::uint32_t id = 0; id < CUPTI_RUNTIME_TRACE_CBID_SIZE; ++id) {
    // An older CUPTI does not know the newest ids, and nobody calls what they stand for.
    if (kTable.calls[id].name != nullptr) enable(1, mine, CUPTI_CB_DOMAIN_RUNTIME_API, id);
  }
  // Registered now, so that it runs before libcupti's own destructors.
  std::atexit(stop);
  return nullptr;
}

constexpr gpufence_watch kWatch{GPUFENCE_WATCH_VERSION, start, stop};

// ---- Giving way
//
// The core opens this library RTLD_GLOBAL, so that whatever is loaded later and linked to libcupti finds
// these names here first. (What looks them up by dlsym is noticed by the gate.) Each leaves, then calls the
// function that its caller meant: of the release under whose version node it was asked for.

void* meant(const char* file, const char* name, const void* caller) {
  const gpufence_watch_core* to = core.load(std::memory_order_acquire);
  if (to == nullptr) return nullptr;
  to->give_way(name, caller);
  void* from = to->dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  return from != nullptr ? to->dlsym(from, name) : nullptr;
}

}  // namespace

// One definition a version node; assembler names keep them apart, because C++ has one cuptiSubscribe.
#define GIVES_WAY(function, release, is_default, parameters, arguments)                                  \
  extern "C"                                                                                             \
      [[gnu::visibility("default"),                                                                      \
        gnu::used]] CUptiResult gpufence_##function##_##release parameters __asm__("gpufence_" #function \
                                                                                   "_" #release);        \
  __asm__(".symver gpufence_" #function "_" #release "," #function is_default "libcupti.so." #release);  \
  CUptiResult gpufence_##function##_##release parameters {                                               \
    void* true_one = meant("libcupti.so." #release, #function, __builtin_return_address(0));             \
    if (true_one == nullptr) return CUPTI_ERROR_NOT_SUPPORTED;                                           \
    return reinterpret_cast<CUptiResult(CUPTIAPI*) parameters>(true_one) arguments;                      \
  }
#define GIVE_WAY(function, parameters, arguments)      \
  GIVES_WAY(function, 13, "@@", parameters, arguments) \
  GIVES_WAY(function, 12, "@", parameters, arguments)

GIVE_WAY(cuptiSubscribe, (CUpti_SubscriberHandle * handle, CUpti_CallbackFunc callback, void* data),
         (handle, callback, data))
GIVE_WAY(cuptiSubscribe_v2,
         (CUpti_SubscriberHandle * handle, CUpti_CallbackFunc callback, void* data, void* params),
         (handle, callback, data, params))
GIVE_WAY(cuptiActivityRegisterCallbacks,
         (CUpti_BuffersCallbackRequestFunc requested, CUpti_BuffersCallbackCompleteFunc completed),
         (requested, completed))
GIVE_WAY(cuptiActivityEnable, (CUpti_ActivityKind kind), (kind))
GIVE_WAY(cuptiFinalize, (), ())

extern "C" [[gnu::visibility("default")]] const gpufence_watch* gpufence_watch_entry_point() __asm__(
    "gpufence_watch");
const gpufence_watch* gpufence_watch_entry_point() {
  return &kWatch;
}
