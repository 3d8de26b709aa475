// Execution control: what a launch is checked for, how its parameters are gathered, and the work it becomes.
// A launch that the simulator can't run is refused here, before anything ran (GF601).
#include <algorithm>
#include <cstring>

#include "launch.h"

#include "access.h"
#include "capture.h"
#include "instead.h"
#include "output.h"
#include "residency.h"
#include "texture.h"

namespace gpufence::sim {

namespace {

// What stays of a launch until it ran.
struct Work {
  std::shared_ptr<const KernelPlan> plan;
  ptx::Launch launch;
  std::shared_ptr<const ptx::AccessMap> memory;
  std::unique_ptr<PendingKernel> pending;
};

CUresult error_of(const ptx::Fault& fault) {
  switch (fault.kind) {
    case ptx::Fault::Kind::none:
    case ptx::Fault::Kind::cancelled:
      return CUDA_SUCCESS;
    case ptx::Fault::Kind::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::Fault::Kind::misaligned_address:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::Fault::Kind::illegal_instruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case ptx::Fault::Kind::invalid_pc:
      return CUDA_ERROR_INVALID_PC;
    case ptx::Fault::Kind::assertion:
      return CUDA_ERROR_ASSERT;
    case ptx::Fault::Kind::stack_overflow:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case ptx::Fault::Kind::deadlock:
      // A real GPU would hang until the watchdog.
      say_once("a kernel waits for ever: " + fault.text + ": it answered CUDA_ERROR_LAUNCH_TIMEOUT");
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case ptx::Fault::Kind::invalid_configuration:
    case ptx::Fault::Kind::unsupported:
    case ptx::Fault::Kind::out_of_memory:
      say_once("the simulator could not run a kernel: " + fault.text +
               ": it answered CUDA_ERROR_LAUNCH_FAILED");
      return CUDA_ERROR_LAUNCH_FAILED;
    case ptx::Fault::Kind::trap:
      break;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

uint64_t volume(const unsigned (&dim)[3]) {
  return uint64_t{dim[0]} * dim[1] * dim[2];
}

bool clusters_fit(const KernelRequest& request) {
  for (int axis = 0; axis < 3; ++axis)
    if (request.cluster[axis] == 0 || request.grid[axis] % request.cluster[axis] != 0) return false;
  return true;
}

CUresult check(const KernelRequest& request, const Function& function, const Device& device) {
  const ptx::Function& code = *function.code;
  auto most = [&](CUdevice_attribute which) {
    return static_cast<unsigned>(device_attribute(device, which));
  };
  for (int axis = 0; axis < 3; ++axis) {
    const auto step = static_cast<CUdevice_attribute>(axis);
    if (request.grid[axis] == 0 || request.block[axis] == 0) return CUDA_ERROR_INVALID_VALUE;
    if (request.grid[axis] >
            most(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + step)) ||
        request.block[axis] >
            most(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + step)))
      return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = volume(request.block);
  if (threads > most(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) return CUDA_ERROR_INVALID_VALUE;
  // Beyond what the kernel was compiled for (__launch_bounds__): it has not the registers.
  int bound = 0;
  function_attribute(&bound, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, code, *function.settings,
                     function.module->code(), device);
  if (threads > static_cast<uint64_t>(bound)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (code.required_threads[0] != 0)
    for (size_t axis = 0; axis < 3; ++axis)
      if (request.block[axis] != std::max(code.required_threads[axis], 1u)) return CUDA_ERROR_INVALID_VALUE;
  if (request.shared > static_cast<unsigned>(function.settings->max_dynamic_shared))
    return CUDA_ERROR_INVALID_VALUE;
  if (!clusters_fit(request)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (!request.cooperative) return CUDA_SUCCESS;
  const uint64_t resident =
      uint64_t{blocks_resident(code, static_cast<unsigned>(threads), request.shared, device)} *
      static_cast<uint64_t>(device.gpu->multiprocessors);
  return volume(request.grid) > resident ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

CUresult run_now(Work& work) {
  // What the kernel may touch is what is there when it starts.
  work.memory = access_of(*work.plan->context);
  work.launch.memory = work.memory.get();
  const ObjectsOf objects(*work.plan->context);
  work.launch.objects = &objects;
  const CUresult result = error_of(ptx::run(work.launch));
  // A dead context's synchronisations answer at once: what was printed until then must not wait for one.
  if (result != CUDA_SUCCESS) flush_output(*work.plan->context);
  return result;
}

CUresult run(Work& work) {
  work.pending->enter();
  const CUresult result = run_now(work);
  work.pending = nullptr;
  return result;
}

CUresult gather_params(const ptx::Function& code, void** params, void** extra, std::vector<uint8_t>& out) {
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  out.assign(code.param_bytes, 0);
  if (code.params.empty()) return CUDA_SUCCESS;
  if (params != nullptr) {
    for (size_t i = 0; i < code.params.size(); ++i) {
      if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      memcpy(out.data() + code.params[i].offset, params[i], code.params[i].size);
    }
    return CUDA_SUCCESS;
  }
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (void** at = extra; at != nullptr && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = at[1];
    else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE && at[1] != nullptr)
      bytes = *static_cast<const size_t*>(at[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (buffer == nullptr || bytes < code.param_bytes) return CUDA_ERROR_INVALID_VALUE;
  memcpy(out.data(), buffer, code.param_bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult plan_kernel(Context& context, CUfunction handle, KernelRequest request,
                     std::shared_ptr<const KernelPlan>* out) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto plan = std::make_shared<KernelPlan>();
  {
    std::lock_guard<std::mutex> held(code_table().lock);
    Function* function = nullptr;
    CUresult result = resolve(handle, context, &function);
    if (result != CUDA_SUCCESS) return result;
    if (function->module->context != &context) return CUDA_ERROR_INVALID_HANDLE;
    const ptx::Function& code = *function->code;
    for (size_t axis = 0; axis < 3; ++axis)
      if (request.cluster[axis] == 0) {
        const auto set = static_cast<unsigned>(function->settings->cluster[axis]);
        request.cluster[axis] =
            code.required_cluster[axis] != 0 ? code.required_cluster[axis] : std::max(set, 1u);
      }
    result = check(request, *function, *context.device);
    if (result == CUDA_SUCCESS) result = gather_params(code, request.params, request.extra, plan->params);
    if (result != CUDA_SUCCESS) return result;
    if (!code.unsupported.empty()) {
      say_once("the simulator cannot run kernel " + code.name + ": " + code.unsupported +
               ": it answered CUDA_ERROR_NOT_SUPPORTED; " +
               std::string(instead_of_instruction(code.unsupported)));
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    function->loaded = true;
    plan->resident = function->module->resident;
    plan->launch.module = plan->resident->code.get();
    plan->launch.function = &code;
  }
  Output& output = output_of(context);
  if (plan->launch.function->uses_heap) {
    if (const CUresult opened = output.open_heap(); opened != CUDA_SUCCESS) return opened;
    context.heap_launched = true;
  }
  if (plan->launch.function->prints) context.printf_launched = true;
  plan->context = &context;
  plan->context_id = context.id;
  ptx::Launch& grid = plan->launch;
  for (size_t axis = 0; axis < 3; ++axis) {
    grid.grid[axis] = request.grid[axis];
    grid.block[axis] = request.block[axis];
    grid.cluster[axis] = request.cluster[axis];
  }
  grid.dynamic_shared_bytes = request.shared;
  grid.params = plan->params.data();
  grid.cooperative = request.cooperative;
  grid.global_addresses = plan->resident->addresses;
  grid.sinks = &output;
  grid.device = traits_of(*context.device);
  grid.cancel = &context.cancel;
  const auto threads = static_cast<unsigned>(volume(request.block));
  plan->block = Room{(threads + 31) / 32, 1, grid.function->static_shared_bytes + request.shared};
  plan->blocks = volume(request.grid);
  plan->blocks_at_once = std::max<uint64_t>(
      1, uint64_t{blocks_resident(*grid.function, threads, request.shared, *context.device)} *
             grid.device.multiprocessors);
  *out = std::move(plan);
  return CUDA_SUCCESS;
}

PlannedRun prepare_kernel(const std::shared_ptr<const KernelPlan>& plan, int priority) {
  auto work = std::make_shared<Work>();
  work->plan = plan;
  work->launch = plan->launch;
  work->launch.grid_id = driver().next_id++;
  work->pending = std::make_unique<PendingKernel>(plan->context->admission, plan->block, plan->blocks,
                                                  plan->blocks_at_once, priority);
  work->launch.watcher = work->pending.get();
  // The queue lets go of `due` with the operation, whose work it points into.
  return {[work] { return run(*work); }, [kernel = work->pending.get()] { kernel->due(); }};
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

struct Request : KernelRequest {
  CUstream stream = nullptr;
  bool per_thread = false;
  std::vector<CUevent> events{};  // recorded behind it
};

CUresult capture_launch(Stream& stream, CUfunction handle, const Request& request) {
  CUresult result = capture_kernel(stream, handle, request);
  for (CUevent event : request.events)
    if (result == CUDA_SUCCESS)
      result = capture_event_record(stream, *driver().events.check(event), event, false);
  return result;
}

CUresult launch(Context& current, CUfunction handle, const Request& request) {
  Stream* stream = nullptr;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult found = stream_of(request.stream, request.per_thread, current, &stream, InCapture::captured);
  if (found != CUDA_SUCCESS) return found;
  for (CUevent event : request.events)
    if (driver().events.check(event)->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (is_capturing(*stream)) return capture_launch(*stream, handle, request);
  // A CUkernel runs where its stream is; a CUfunction is of one context, and its stream must be too.
  Context& context = *stream->context;
  std::shared_ptr<const KernelPlan> plan;
  if (const CUresult bad = plan_kernel(context, handle, request, &plan); bad != CUDA_SUCCESS) return bad;
  flush_output(context);
  PlannedRun made = prepare_kernel(plan, request.with_priority ? request.priority : stream->priority.load());
  enqueue(*stream, std::move(made.run), std::move(made.due));
  for (CUevent event : request.events) record_event(event, *stream);
  return CUDA_SUCCESS;
}

// The events of launches "must disable timing" and "must not be an interprocess or interop event". They may
// come as late as the kernel's end: its blocks have triggered them by then.
CUresult check_event(CUevent handle, int flags) {
  const Event* event = driver().events.check(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return flags == 0 && event->flags == CU_EVENT_DISABLE_TIMING ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult launch_call(const char* name, CUfunction function, const Request& request) {
  return in_context(name, [&](Context& context) { return launch(context, function, request); });
}

CUresult launch_config(const char* name, const CUlaunchConfig* config, CUfunction function, void** params,
                       void** extra, bool per_thread) {
  return in_context(name, [&](Context& context) {
    if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    Request request{{{config->gridDimX, config->gridDimY, config->gridDimZ},
                     {config->blockDimX, config->blockDimY, config->blockDimZ}}};
    request.shared = config->sharedMemBytes;
    request.stream = config->hStream;
    request.params = params;
    request.extra = extra;
    request.per_thread = per_thread;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const CUlaunchAttribute& attribute = config->attrs[i];
      switch (attribute.id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
          request.cooperative = attribute.value.cooperative != 0;
          break;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
          request.with_priority = true;
          request.priority = clamped_priority(attribute.value.priority);
          break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
          request.cluster[0] = attribute.value.clusterDim.x;
          request.cluster[1] = attribute.value.clusterDim.y;
          request.cluster[2] = attribute.value.clusterDim.z;
          break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
          const bool at_end = attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
          const CUevent event =
              at_end ? attribute.value.launchCompletionEvent.event : attribute.value.programmaticEvent.event;
          const int flags =
              at_end ? attribute.value.launchCompletionEvent.flags : attribute.value.programmaticEvent.flags;
          if (const CUresult bad = check_event(event, flags); bad != CUDA_SUCCESS) return bad;
          request.events.push_back(event);
          break;
        }
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
          if (attribute.value.deviceUpdatableKernelNode.deviceUpdatable == 0) break;
          say_once(
              "the simulator has no kernel nodes that kernels update: it answered CUDA_ERROR_NOT_SUPPORTED; "
              "cuGraphExecKernelNodeSetParams works");
          return CUDA_ERROR_NOT_SUPPORTED;
        default:
          // Hints, and permission to overlap: a launch that does not is right.
          if (attribute.id < CU_LAUNCH_ATTRIBUTE_IGNORE || attribute.id >= CU_LAUNCH_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
      }
    }
    return launch(context, function, request);
  });
}

Request request_of(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, CUstream stream, void** params, void** extra, bool cooperative,
                   bool per_thread) {
  Request request{{{gx, gy, gz}, {bx, by, bz}}};
  request.shared = shared;
  request.stream = stream;
  request.params = params;
  request.extra = extra;
  request.cooperative = cooperative;
  request.per_thread = per_thread;
  return request;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** params,
                        void** extra) {
  return launch_call(__func__, f,
                     request_of(gx, gy, gz, bx, by, bz, shared, stream, params, extra, false, false));
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                             void** params, void** extra) {
  return launch_call(__func__, f,
                     request_of(gx, gy, gz, bx, by, bz, shared, stream, params, extra, false, true));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  return launch_config(__func__, config, f, params, extra, false);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  return launch_config(__func__, config, f, params, extra, true);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                   CUstream stream, void** params) {
  return launch_call(__func__, f,
                     request_of(gx, gy, gz, bx, by, bz, shared, stream, params, nullptr, true, false));
}
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                        unsigned int bx, unsigned int by, unsigned int bz,
                                        unsigned int shared, CUstream stream, void** params) {
  return launch_call(__func__, f,
                     request_of(gx, gy, gz, bx, by, bz, shared, stream, params, nullptr, true, true));
}

// ---- The calls before cuLaunchKernel: a function keeps its block, shared memory and parameters ----

namespace {

template <class Body>
CUresult with_function(const char* name, CUfunction given, Body&& body) {
  return in_context(name, [&](Context&) {
    std::lock_guard<std::mutex> held(code_table().lock);
    Function* function = code_table().functions.check(given);
    return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*function);
  });
}

CUresult set_param(const char* name, CUfunction given, int offset, const void* value, size_t bytes) {
  return with_function(name, given, [&](Function& function) {
    if (offset < 0 || value == nullptr || static_cast<size_t>(offset) + bytes > 4096)
      return CUDA_ERROR_INVALID_VALUE;
    const size_t end = static_cast<size_t>(offset) + bytes;
    if (function.params.size() < end) function.params.resize(end);
    memcpy(function.params.data() + offset, value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult launch_kept(const char* name, CUfunction given, int width, int height, CUstream stream) {
  return in_context(name, [&](Context& context) {
    if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<uint8_t> params;
    Request request{{{static_cast<unsigned>(width), static_cast<unsigned>(height), 1}, {1, 1, 1}}};
    {
      std::lock_guard<std::mutex> held(code_table().lock);
      Function* function = code_table().functions.check(given);
      if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      for (int axis = 0; axis < 3; ++axis) request.block[axis] = static_cast<unsigned>(function->block[axis]);
      request.shared = function->shared;
      params = function->params;
      params.resize(std::max<size_t>(params.size(), function->code->param_bytes));
    }
    size_t bytes = params.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    request.extra = extra;
    request.stream = stream;
    return launch(context, given, request);
  });
}

}  // namespace

CUresult cuFuncSetBlockShape(CUfunction given, int x, int y, int z) {
  return with_function(__func__, given, [&](Function& function) {
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    function.block[0] = x;
    function.block[1] = y;
    function.block[2] = z;
    return CUDA_SUCCESS;
  });
}
CUresult cuFuncSetSharedSize(CUfunction given, unsigned int bytes) {
  return with_function(__func__, given, [&](Function& function) {
    function.shared = bytes;
    return CUDA_SUCCESS;
  });
}
CUresult cuParamSetSize(CUfunction given, unsigned int bytes) {
  return with_function(__func__, given, [&](Function& function) {
    if (bytes > 4096) return CUDA_ERROR_INVALID_VALUE;
    function.params.resize(bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuParamSeti(CUfunction given, int offset, unsigned int value) {
  return set_param(__func__, given, offset, &value, sizeof value);
}
CUresult cuParamSetf(CUfunction given, int offset, float value) {
  return set_param(__func__, given, offset, &value, sizeof value);
}
CUresult cuParamSetv(CUfunction given, int offset, void* value, unsigned int bytes) {
  return set_param(__func__, given, offset, value, bytes);
}
CUresult cuLaunch(CUfunction given) {
  return launch_kept(__func__, given, 1, 1, nullptr);
}
CUresult cuLaunchGrid(CUfunction given, int width, int height) {
  return launch_kept(__func__, given, width, height, nullptr);
}
CUresult cuLaunchGridAsync(CUfunction given, int width, int height, CUstream stream) {
  return launch_kept(__func__, given, width, height, stream);
}
