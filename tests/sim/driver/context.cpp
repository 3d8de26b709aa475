// Contexts: the thread's stack, created and primary ones. A context costs its GPU context_bytes; its memory,
// streams and events go with it.
#include <cstdlib>

#include "admission.h"
#include "array.h"
#include "capture.h"
#include "code.h"
#include "driver.h"
#include "ipc.h"
#include "output.h"
#include "pool.h"
#include "queue.h"
#include "residency.h"
#include "texture.h"

namespace gpufence::sim {
namespace {

// Plain data, so that a thread's end runs nothing of ours; deeper stacks than any program has leak a few
// words.
struct Stack {
  Context** deep;
  unsigned depth, room;
  Context* shallow[16];
  Context** all() { return deep != nullptr ? deep : shallow; }
};
constinit thread_local Stack stack = {nullptr, 0, 16, {}};

bool push(Context* context) {
  if (stack.depth == stack.room) {
    auto* more = static_cast<Context**>(calloc(stack.room * 2, sizeof(Context*)));
    if (more == nullptr) return false;
    for (unsigned i = 0; i < stack.depth; ++i) more[i] = stack.all()[i];
    free(stack.deep);
    stack.deep = more;
    stack.room *= 2;
  }
  stack.all()[stack.depth++] = context;
  return true;
}

Context* pop() {
  return stack.depth == 0 ? nullptr : stack.all()[--stack.depth];
}

CUcontext handle(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}
Context* checked(CUcontext context) {
  return driver().contexts.check(context);
}

constexpr unsigned kFlags = CU_CTX_FLAGS_MASK;

bool flags_valid(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~kFlags) == 0 && (schedule == 0 || schedule == 1 || schedule == 2 || schedule == 4);
}

CUresult create(CUcontext* out, unsigned flags, CUdevice ordinal, unsigned api_version) {
  if (out == nullptr || !flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  Device* device = driver().device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (is_lost(*device)) return kLost;
  Context* context = activate(*device, nullptr, flags, api_version);
  if (context == nullptr || !push(context)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = handle(context);
  return CUDA_SUCCESS;
}

CUresult destroy(CUcontext given) {
  Context* context = checked(given);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (!driver().contexts.retire(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (current_context() == context) pop();
  deactivate(*context);
  return CUDA_SUCCESS;
}

}  // namespace

Context* current_context() {
  return stack.depth == 0 ? nullptr : stack.all()[stack.depth - 1];
}

Context* activate(Device& device, Context* again, unsigned flags, unsigned api_version) {
  if (!reserve(device, device.gpu->context_bytes)) return nullptr;
  Context* context = again != nullptr ? again : driver().contexts.take();
  if (context == nullptr) {
    driver().occupancy.release(device.host_index, device.gpu->context_bytes);
    return nullptr;
  }
  context->device = &device;
  context->flags = flags;
  context->api_version = api_version;
  context->id = driver().next_id++;
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->fault = CUDA_SUCCESS;
  context->cancel = false;
  context->overdue = false;
  const ptx::DeviceTraits traits = traits_of(device);
  context->admission = std::make_shared<Admission>(
      Room{uint64_t{traits.max_warps_per_multiprocessor} * traits.multiprocessors,
           uint64_t{traits.max_blocks_per_multiprocessor} * traits.multiprocessors,
           uint64_t{traits.shared_bytes_per_multiprocessor} * traits.multiprocessors});
  context->legacy.id = driver().next_id++;
  open_queues(*context);
  notice_exit();
  context->active.store(true, std::memory_order_release);
  if (again == nullptr) driver().contexts.publish(context);
  load_libraries_into(*context);
  return context;
}

void deactivate(Context& context) {
  if (!context.active.exchange(false)) return;
  end_captures_of(context);
  close_queues(context);
  forget_peers_of(context);
  close_output(context);
  unload_code_of(context);
  destroy_objects_of(context);
  destroy_arrays_of(context);
  free_all(context);
  close_imports_of(context);
  free_host_of(context);
  destroy_streams_of(context);
  driver().occupancy.release(context.device->host_index, context.device->gpu->context_bytes);
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice ordinal) {
  return initialised(__func__, [&] { return create(out, flags, ordinal, 3010); });
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice ordinal) {
  return initialised(__func__, [&] { return create(out, flags, ordinal, 3020); });
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count, unsigned int flags,
                        CUdevice ordinal) {
  return initialised(__func__, [&] {
    if (count < 0 || (count > 0 && affinity == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    // Affinity needs MPS, which no simulated GPU runs under.
    if (count > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, ordinal, 3020);
  });
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags, CUdevice ordinal) {
  return initialised(__func__, [&] {
    if (params != nullptr && params->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    if (params != nullptr && params->execAffinityParams != nullptr)
      return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, ordinal, 3020);
  });
}

CUresult cuCtxDestroy(CUcontext context) {
  return initialised(__func__, [&] { return destroy(context); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return initialised(__func__, [&] { return destroy(context); });
}

CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  return in_context(__func__, [&](Context& context) {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    context.attached++;
    *out = handle(&context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDetach(CUcontext given) {
  return in_context(__func__, [&](Context& context) {
    if (given != handle(&context)) return CUDA_ERROR_INVALID_CONTEXT;
    return --context.attached == 0 ? destroy(given) : CUDA_SUCCESS;
  });
}

namespace {

CUresult push_current(CUcontext given) {
  Context* context = checked(given);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pop_current(CUcontext* out) {
  Context* context = pop();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle(context);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuCtxPushCurrent(CUcontext context) {
  return initialised(__func__, [&] { return push_current(context); });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return initialised(__func__, [&] { return push_current(context); });
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  return initialised(__func__, [&] { return pop_current(out); });
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  return initialised(__func__, [&] { return pop_current(out); });
}

CUresult cuCtxSetCurrent(CUcontext given) {
  return initialised(__func__, [&] {
    if (given == nullptr) {
      pop();
      return CUDA_SUCCESS;
    }
    Context* context = checked(given);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth > 0) {
      stack.all()[stack.depth - 1] = context;
      return CUDA_SUCCESS;
    }
    return push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  return initialised(__func__, [&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle(current_context());
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* out) {
  return in_context_even_faulted(__func__, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = context.device->ordinal;
    return CUDA_SUCCESS;
  });
}

namespace {

// For calls that name a context or mean the current one by NULL; a dead context still tells who it is.
template <class Body>
CUresult with_context(const char* name, CUcontext given, Body&& body) {
  if (given == nullptr) return in_context_even_faulted(name, body);
  return initialised(name, [&] {
    Context* context = checked(given);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return context->active ? body(*context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  });
}

}  // namespace

CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext given) {
  return with_context(__func__, given, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = context.device->ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned int* out) {
  return in_context_even_faulted(__func__, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = context.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetFlags(unsigned int flags) {
  return in_context(__func__, [&](Context& context) {
    if (!flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
    context.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext given, unsigned long long* out) {
  return with_context(__func__, given, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = context.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext given, unsigned int* out) {
  return with_context(__func__, given, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = context.api_version;
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult wait_for_all(Context& context) {
  if (invalidate_captures_of(context)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (const CUresult refused = unsafe_refusal(); refused != CUDA_SUCCESS) return refused;
  synchronise(context);
  trim_pools_after_synchronise();
  return context.fault;
}

}  // namespace

CUresult cuCtxSynchronize() {
  return in_context(__func__, wait_for_all);
}

CUresult cuCtxSynchronize_v2(CUcontext given) {
  return with_context(__func__, given, [](Context& context) {
    const CUresult refused = refusal(context);
    return refused != CUDA_SUCCESS ? refused : wait_for_all(context);
  });
}

CUresult cuCtxGetLimit(size_t* out, CUlimit limit) {
  return in_context(__func__, [&](Context& context) {
    if (out == nullptr || limit < 0) return CUDA_ERROR_INVALID_VALUE;
    if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *out = context.limits[limit];
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return in_context(__func__, [&](Context& context) {
    if (limit < 0) return CUDA_ERROR_INVALID_VALUE;
    if (limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    // "only applicable to devices of compute capability < 9.0"
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && context.device->gpu->cc_major >= 9)
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if ((limit == CU_LIMIT_MALLOC_HEAP_SIZE && context.heap_launched) ||
        (limit == CU_LIMIT_PRINTF_FIFO_SIZE && context.printf_launched))
      return CUDA_ERROR_INVALID_VALUE;
    context.limits[limit] = value;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* out) {
  return in_context(__func__, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<CUfunc_cache>(context.cache_config.load());
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return in_context(__func__, [&](Context& context) {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
      return CUDA_ERROR_INVALID_VALUE;
    context.cache_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* out) {
  return in_context(__func__, [&](Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<CUsharedconfig>(context.shared_config.load());
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return in_context(__func__, [&](Context& context) {
    if (config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
      return CUDA_ERROR_INVALID_VALUE;
    context.shared_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context(__func__, [&](Context&) {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return CUDA_SUCCESS;
  });
}

// Affinity needs MPS, which no simulated GPU runs under: no context has any.
CUresult cuCtxGetExecAffinity(CUexecAffinityParam* out, CUexecAffinityType type) {
  return in_context(__func__, [&](Context&) {
    if (out == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  });
}
CUresult cuDeviceGetExecAffinitySupport(int* out, CUexecAffinityType type, CUdevice ordinal) {
  return initialised(__func__, [&] {
    if (out == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
    if (driver().device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *out = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxResetPersistingL2Cache() {
  return in_context(__func__, [](Context&) { return CUDA_SUCCESS; });
}

// ---- Primary contexts: one a device, the same handle for good, active while someone retains it ----

namespace {

template <class Body>
CUresult with_primary(const char* name, CUdevice ordinal, Body&& body) {
  return initialised(name, [&] {
    Device* device = driver().device(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard<std::mutex> held(device->primary_lock);
    return body(*device);
  });
}

bool active(const Device& device) {
  return device.primary != nullptr && device.primary->active;
}

CUresult release(Device& device) {
  if (device.primary_refs == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device.primary_refs == 0) deactivate(*device.primary);
  return CUDA_SUCCESS;
}

// Destroys what the context holds; who retained it may still release it.
CUresult reset(Device& device) {
  if (device.primary != nullptr) deactivate(*device.primary);
  return CUDA_SUCCESS;
}

CUresult set_flags(Device& device, unsigned flags) {
  if (!flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  device.primary_flags = flags;
  if (active(device)) device.primary->flags = flags;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice ordinal) {
  return with_primary(__func__, ordinal, [&](Device& device) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (is_lost(device)) return kLost;
    if (!active(device)) {
      Context* context = activate(device, device.primary, device.primary_flags, 3020);
      if (context == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
      context->primary = true;
      device.primary = context;
    }
    ++device.primary_refs;
    *out = handle(device.primary);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return with_primary(__func__, ordinal, release);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  return with_primary(__func__, ordinal, release);
}
CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) {
  return with_primary(__func__, ordinal, reset);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  return with_primary(__func__, ordinal, reset);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned int flags) {
  return with_primary(__func__, ordinal, [&](Device& device) { return set_flags(device, flags); });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags) {
  return with_primary(__func__, ordinal, [&](Device& device) { return set_flags(device, flags); });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int* flags, int* is_active) {
  return with_primary(__func__, ordinal, [&](Device& device) {
    if (flags == nullptr || is_active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = device.primary_flags;
    *is_active = active(device) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
