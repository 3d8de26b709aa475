// Streams and events. Work is done when the call that asked for it returns, so a stream is always idle and an
// event complete once recorded; what is exact is which handles are good, whose they are, and what goes wrong
// across GPUs.
#include <time.h>

#include "driver.h"

namespace gpufence::sim {

void destroy_streams_of(Context& context) {
  driver().streams.each_live([&](Stream* stream) {
    if (stream->context == &context) driver().streams.retire(stream);
  });
  driver().events.each_live([&](Event* event) {
    if (event->context == &context) driver().events.retire(event);
  });
}

bool stream_valid(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
         driver().streams.check(stream) != nullptr;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// What a stream handle is: a created stream, or a default one of the current context.
struct Resolved {
  Context* context;
  Stream* stream;  // nullptr: a default stream
};

// Runs body with what the handle means, in the current context.
template <class Body>
CUresult with_stream(const char* name, CUstream handle, Body&& body) {
  return in_context(name, [&](Context& current) {
    if (is_default(handle)) return body(Resolved{&current, nullptr});
    Stream* stream = driver().streams.check(handle);
    return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(Resolved{stream->context, stream});
  });
}

template <class Body>
CUresult with_event(const char* name, CUevent handle, Body&& body) {
  return in_context(name, [&](Context&) {
    Event* event = driver().events.check(handle);
    return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*event);
  });
}

CUresult create_stream(Context& context, CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = driver().streams.take();
  if (stream == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->context = &context;
  stream->flags = flags;
  stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;  // clamped, as documented
  stream->id = driver().next_id++;
  driver().streams.publish(stream);
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult destroy_stream(CUstream handle) {
  Stream* stream = driver().streams.check(handle);
  return stream != nullptr && driver().streams.retire(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult destroy_event(CUevent handle) {
  Event* event = driver().events.check(handle);
  return event != nullptr && driver().events.retire(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult idle(const char* name, CUstream handle) {
  return with_stream(name, handle, [](Resolved) { return CUDA_SUCCESS; });
}

// Event and stream must be of one context (cuEventRecord's documentation).
CUresult record(const char* name, CUevent handle, CUstream stream, unsigned flags) {
  return with_stream(name, stream, [&](Resolved on) {
    if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
    Event* event = driver().events.check(handle);
    if (event == nullptr || event->context != on.context) return CUDA_ERROR_INVALID_HANDLE;
    event->recorded_ns = now_ns();
    return CUDA_SUCCESS;
  });
}

// A stream may wait for an event of another GPU.
CUresult wait(const char* name, CUstream stream, CUevent handle, unsigned flags) {
  return with_stream(name, stream, [&](Resolved) {
    if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
    return driver().events.check(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}

CUresult elapsed(float* out, CUevent first, CUevent second) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Event *from = driver().events.check(first), *to = driver().events.check(second);
  if (from == nullptr || to == nullptr || from->context != to->context) return CUDA_ERROR_INVALID_HANDLE;
  if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (from->recorded_ns == 0 || to->recorded_ns == 0) return CUDA_ERROR_INVALID_HANDLE;
  const auto ns = static_cast<int64_t>(to->recorded_ns - from->recorded_ns);
  *out = static_cast<float>(static_cast<double>(ns) / 1e6);
  return CUDA_SUCCESS;
}

CUresult stream_flags(const char* name, CUstream handle, unsigned* out) {
  return with_stream(name, handle, [&](Resolved on) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = on.stream == nullptr ? 0 : on.stream->flags;
    return CUDA_SUCCESS;
  });
}

CUresult stream_priority(const char* name, CUstream handle, int* out) {
  return with_stream(name, handle, [&](Resolved on) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = on.stream == nullptr ? 0 : on.stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult stream_id(const char* name, CUstream handle, unsigned long long* out) {
  return with_stream(name, handle, [&](Resolved on) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = on.stream != nullptr ? on.stream->id : on.context->id << 2 | reinterpret_cast<uintptr_t>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult stream_device(const char* name, CUstream handle, CUdevice* out) {
  return with_stream(name, handle, [&](Resolved on) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = on.context->device->ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult stream_context(const char* name, CUstream handle, CUcontext* out, CUgreenCtx* green) {
  return with_stream(name, handle, [&](Resolved on) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUcontext>(on.context);
    if (green != nullptr) *green = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult not_capturing(const char* name, CUstream handle, CUstreamCaptureStatus* status) {
  return with_stream(name, handle, [&](Resolved) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

constinit thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  return in_context(__func__, [&](Context& context) { return create_stream(context, out, flags, 0); });
}
CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  return in_context(__func__, [&](Context& context) { return create_stream(context, out, flags, priority); });
}
CUresult cuStreamDestroy(CUstream stream) {
  return in_context(__func__, [&](Context&) { return destroy_stream(stream); });
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  return in_context(__func__, [&](Context&) { return destroy_stream(stream); });
}

CUresult cuStreamQuery(CUstream stream) {
  return idle(__func__, stream);
}
CUresult cuStreamQuery_ptsz(CUstream stream) {
  return idle(__func__, stream);
}
CUresult cuStreamSynchronize(CUstream stream) {
  return idle(__func__, stream);
}
CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return idle(__func__, stream);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return wait(__func__, stream, event, flags);
}
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return wait(__func__, stream, event, flags);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int* out) {
  return stream_flags(__func__, stream, out);
}
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int* out) {
  return stream_flags(__func__, stream, out);
}
CUresult cuStreamGetPriority(CUstream stream, int* out) {
  return stream_priority(__func__, stream, out);
}
CUresult cuStreamGetPriority_ptsz(CUstream stream, int* out) {
  return stream_priority(__func__, stream, out);
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* out) {
  return stream_id(__func__, stream, out);
}
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* out) {
  return stream_id(__func__, stream, out);
}
CUresult cuStreamGetDevice(CUstream stream, CUdevice* out) {
  return stream_device(__func__, stream, out);
}
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* out) {
  return stream_device(__func__, stream, out);
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* out) {
  return stream_context(__func__, stream, out, nullptr);
}
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* out) {
  return stream_context(__func__, stream, out, nullptr);
}
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* out, CUgreenCtx* green) {
  return stream_context(__func__, stream, out, green);
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* out, CUgreenCtx* green) {
  return stream_context(__func__, stream, out, green);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return not_capturing(__func__, stream, status);
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return not_capturing(__func__, stream, status);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return initialised(__func__, [&] {
    if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    const CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  return in_context(__func__, [&](Context& context) {
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    Event* event = driver().events.take();
    if (event == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    event->context = &context;
    event->flags = flags;
    driver().events.publish(event);
    *out = reinterpret_cast<CUevent>(event);
    return CUDA_SUCCESS;
  });
}
CUresult cuEventDestroy(CUevent event) {
  return in_context(__func__, [&](Context&) { return destroy_event(event); });
}
CUresult cuEventDestroy_v2(CUevent event) {
  return in_context(__func__, [&](Context&) { return destroy_event(event); });
}
CUresult cuEventQuery(CUevent event) {
  return with_event(__func__, event, [](Event&) { return CUDA_SUCCESS; });
}
CUresult cuEventSynchronize(CUevent event) {
  return with_event(__func__, event, [](Event&) { return CUDA_SUCCESS; });
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record(__func__, event, stream, 0);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return record(__func__, event, stream, 0);
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return record(__func__, event, stream, flags);
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
  return record(__func__, event, stream, flags);
}
CUresult cuEventElapsedTime(float* out, CUevent first, CUevent second) {
  return in_context(__func__, [&](Context&) { return elapsed(out, first, second); });
}
CUresult cuEventElapsedTime_v2(float* out, CUevent first, CUevent second) {
  return in_context(__func__, [&](Context&) { return elapsed(out, first, second); });
}
