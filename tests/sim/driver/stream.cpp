// Streams and events: their handles, whose they are, and what goes wrong across GPUs. What waits for what is
// queue.cpp's affair.
#include "capture.h"
#include "driver.h"
#include "ipc.h"
#include "output.h"
#include "pool.h"
#include "queue.h"

namespace gpufence::sim {
namespace {

// The calling thread's default stream of the context it used last; plain data, as a thread's end runs nothing
// of ours. Context ids are never used again.
constinit thread_local struct {
  unsigned long long context_id;
  Stream* stream;
} last_used = {0, nullptr};

// Made at its first use. A thread that gets the id of one that ended gets its stream too: idle, or with work
// that comes first, which no program can tell from a stream of its own.
Stream* per_thread_stream(Context& context) {
  if (last_used.context_id == context.id) return last_used.stream;
  Stream* stream = nullptr;
  {
    std::lock_guard<std::mutex> order(context.order);
    if (auto it = context.per_thread.find(pthread_self()); it != context.per_thread.end())
      stream = it->second.get();
  }
  if (stream == nullptr) {
    auto made = std::make_unique<Stream>();
    made->context = &context;
    made->id = driver().next_id++;
    open_queue(*made);
    std::lock_guard<std::mutex> order(context.order);
    stream = (context.per_thread[pthread_self()] = std::move(made)).get();
  }
  last_used = {context.id, stream};
  return stream;
}

}  // namespace

namespace {

// What it holds, when nobody can ask it any more.
void forget(Event& event) {
  std::lock_guard<std::mutex> held(event.lock);
  event.mark = nullptr;
  event.shared = nullptr;
  event.captured = nullptr;
}

}  // namespace

void destroy_streams_of(Context& context) {
  driver().streams.each_live([&](Stream* stream) {
    if (stream->context == &context) driver().streams.retire(stream);
  });
  driver().events.each_live([&](Event* event) {
    if (event->context == &context && driver().events.retire(event)) forget(*event);
  });
}

CUresult stream_of(CUstream handle, bool per_thread, Context& current, Stream** out, InCapture in_capture) {
  if (handle == nullptr) handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) {
    *out = &current.legacy;
  } else if (handle == CU_STREAM_PER_THREAD) {
    *out = per_thread_stream(current);
  } else {
    *out = driver().streams.check(handle);
    if (*out == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  Stream& stream = **out;
  Context& context = *stream.context;
  if (const CUresult refused = refusal(context); refused != CUDA_SUCCESS) return refused;
  if (in_capture == InCapture::ignored) return CUDA_SUCCESS;
  if (&stream == &context.legacy && context.blocking_captures.load(std::memory_order_acquire) != 0)
    return refuse_legacy_stream(context);
  return in_capture == InCapture::refused && is_capturing(stream) ? refuse_in_capture(stream) : CUDA_SUCCESS;
}

CUresult create_event(Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared, CUevent* out) {
  Event* event = driver().events.take();
  if (event == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  event->context = &context;
  event->flags = flags;
  event->shared = std::move(shared);
  driver().events.publish(event);
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

namespace {

enum class Null { legacy, per_thread };  // whose default stream a NULL handle means

// Runs body with the stream, in the current context.
template <class Body>
CUresult with_stream(const char* name, Null null, CUstream handle, InCapture in_capture, Body&& body) {
  return in_context(name, [&](Context& current) {
    Stream* stream = nullptr;
    const CUresult found = stream_of(handle, null == Null::per_thread, current, &stream, in_capture);
    return found != CUDA_SUCCESS ? found : body(*stream);
  });
}

// The event's own context counts too: if that is dead, so is the event.
template <class Body>
CUresult with_event(const char* name, CUevent handle, Body&& body) {
  return in_context(name, [&](Context&) {
    Event* event = driver().events.check(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = refusal(*event->context);
    return refused != CUDA_SUCCESS ? refused : body(*event);
  });
}

// What an event holds now: of this process's record, or of the last one of all processes.
struct Held {
  std::shared_ptr<Mark> mark;
  std::shared_ptr<SharedEvent> shared;
  uint64_t number = 0;  // of the record of `shared`

  [[nodiscard]] bool done() const {
    return shared != nullptr ? shared->done(number) : mark == nullptr || mark->ticket.done();
  }
};

Held held_by(Event& event) {
  std::lock_guard<std::mutex> held(event.lock);
  if (event.shared != nullptr) return {nullptr, event.shared, event.shared->last()};
  return {event.mark, nullptr, 0};
}

// A context that dies ends the waiting, as it ends all its work.
void wait_in(Context& context, const Held& held) {
  held.shared->wait(held.number, [&] { return context.cancel.load() || !context.active.load(); });
}

// Done with the stream's work so far, or when that is dropped.
void record_shared(Stream& stream, std::shared_ptr<SharedEvent> shared) {
  struct Record {
    std::shared_ptr<SharedEvent> event;
    uint64_t number;
    Record(std::shared_ptr<SharedEvent> of) : event(std::move(of)), number(event->record()) {}
    Record(const Record&) = delete;
    ~Record() { event->complete(number); }
  };
  enqueue_short(stream, [record = std::make_shared<Record>(std::move(shared))] { return CUDA_SUCCESS; });
}

std::shared_ptr<const CapturedEvent> last_captured(Event& event) {
  std::lock_guard<std::mutex> held(event.lock);
  return event.captured;
}

CUresult create_stream(Context& context, CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = driver().streams.take();
  if (stream == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->context = &context;
  stream->flags = flags;
  stream->priority = clamped_priority(priority);
  stream->id = driver().next_id++;
  open_queue(*stream);
  driver().streams.publish(stream);
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

// Work that is pending goes on.
CUresult destroy_stream(CUstream handle) {
  Stream* stream = driver().streams.check(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Queue* queue = stream->queue;
  if (is_capturing(*stream)) leave_capture(*stream);
  if (!driver().streams.retire(stream)) return CUDA_ERROR_INVALID_HANDLE;
  retire_queue(*queue);
  return CUDA_SUCCESS;
}

CUresult destroy_event(CUevent handle) {
  Event* event = driver().events.check(handle);
  if (event == nullptr || !driver().events.retire(event)) return CUDA_ERROR_INVALID_HANDLE;
  forget(*event);
  return CUDA_SUCCESS;
}

CUresult query(const char* name, Null null, CUstream handle) {
  return with_stream(name, null, handle, InCapture::refused, [](Stream& stream) {
    if (const CUresult refused = unsafe_refusal(); refused != CUDA_SUCCESS) return refused;
    const bool done = idle(stream);
    const CUresult fault = stream.context->fault;
    return fault != CUDA_SUCCESS ? fault : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult synchronise_call(const char* name, Null null, CUstream handle) {
  return with_stream(name, null, handle, InCapture::refused, [](Stream& stream) {
    if (const CUresult refused = unsafe_refusal(); refused != CUDA_SUCCESS) return refused;
    synchronise(stream);
    trim_pools_after_synchronise();
    return stream.context->fault.load();
  });
}

}  // namespace

namespace {

void keep(Event& event, std::shared_ptr<Mark> mark) {
  std::shared_ptr<const CapturedEvent> before;
  std::lock_guard<std::mutex> held(event.lock);
  before = std::move(event.captured);
  event.captured = nullptr;
  event.mark = std::move(mark);
}

}  // namespace

CUresult gpufence::sim::record_event(CUevent handle, Stream& stream) {
  Event* event = driver().events.check(handle);
  if (event == nullptr || event->context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
  if (std::shared_ptr<SharedEvent> shared = held_by(*event).shared; shared != nullptr)
    record_shared(stream, std::move(shared));
  else
    keep(*event, mark(stream));
  return CUDA_SUCCESS;
}

namespace {

// For the calls that mean all streams of a context. "The API will return
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the specified context has a stream in the capture mode. In such a
// case, the call will invalidate all the conflicting captures."
template <class Body>
CUresult with_context(const char* name, CUcontext given, CUevent handle, Body&& body) {
  return initialised(name, [&] {
    Context* context = driver().contexts.check(given);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult refused = refusal(*context); refused != CUDA_SUCCESS) return refused;
    Event* event = driver().events.check(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (invalidate_captures_of(*context)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return body(*context, *event);
  });
}

}  // namespace

CUresult cuCtxRecordEvent(CUcontext given, CUevent handle) {
  return with_context(__func__, given, handle, [](Context& context, Event& event) {
    if (event.context != &context) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Mark> all = mark(context);
    if (std::shared_ptr<SharedEvent> shared = held_by(event).shared; shared != nullptr)
      record_shared(context.gathering, std::move(shared));
    else
      keep(event, std::move(all));
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult record(const char* name, Null null, CUevent handle, CUstream stream_handle, unsigned flags) {
  return with_stream(name, null, stream_handle, InCapture::captured, [&](Stream& stream) {
    // CU_EVENT_RECORD_EXTERNAL: "invalid outside of stream capture".
    const bool capturing = is_capturing(stream), external = flags == CU_EVENT_RECORD_EXTERNAL;
    if (flags != 0 && !(external && capturing)) return CUDA_ERROR_INVALID_VALUE;
    if (!capturing) return record_event(handle, stream);
    Event* event = driver().events.check(handle);
    if (event == nullptr || event->context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
    return capture_event_record(stream, *event, handle, external);
  });
}

// What the event holds now is what is waited for.
void wait_for_event(Stream& stream, Event& event) {
  const Held last = held_by(event);
  if (last.mark != nullptr) wait_for(stream, last.mark->ticket);
  if (last.shared != nullptr && !last.done())
    enqueue(stream, [last, context = stream.context] {
      wait_in(*context, last);
      return CUDA_SUCCESS;
    });
}

// A stream may wait for an event of another context or GPU.
CUresult wait(const char* name, Null null, CUstream stream_handle, CUevent handle, unsigned flags) {
  return with_stream(name, null, stream_handle, InCapture::captured, [&](Stream& stream) {
    const bool capturing = is_capturing(stream), external = flags == CU_EVENT_WAIT_EXTERNAL;
    if (flags != 0 && !(external && capturing)) return CUDA_ERROR_INVALID_VALUE;  // as above
    Event* event = driver().events.check(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = refusal(*event->context);
    if (refused != CUDA_SUCCESS) return refused;
    if (capturing) return capture_event_wait(stream, handle, external);
    if (const std::shared_ptr<const CapturedEvent> captured = last_captured(*event))
      return join_capture(stream, captured);
    wait_for_event(stream, *event);
    return CUDA_SUCCESS;
  });
}

}  // namespace

// "hEvent may be from a different context or device than hCtx."
CUresult cuCtxWaitEvent(CUcontext given, CUevent handle) {
  return with_context(__func__, given, handle, [](Context& context, Event& event) {
    if (const CUresult refused = refusal(*event.context); refused != CUDA_SUCCESS) return refused;
    if (refuse_captured_event(event) != CUDA_SUCCESS) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    wait_for_event(context.barrier, event);
    hold_back(context);
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult elapsed(float* out, CUevent first, CUevent second) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Event *from = driver().events.check(first), *to = driver().events.check(second);
  if (from == nullptr || to == nullptr || from->context != to->context) return CUDA_ERROR_INVALID_HANDLE;
  if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  for (Event* event : {from, to})
    if (const CUresult refused = refuse_captured_event(*event); refused != CUDA_SUCCESS) return refused;
  const std::shared_ptr<Mark> start = held_by(*from).mark, end = held_by(*to).mark;
  if (start == nullptr || end == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool done = start->ticket.done() && end->ticket.done();
  if (const CUresult refused = refusal(*from->context); refused != CUDA_SUCCESS) return refused;
  if (!done) return CUDA_ERROR_NOT_READY;
  const auto ns = static_cast<int64_t>(end->ns.load() - start->ns.load());
  *out = static_cast<float>(static_cast<double>(ns) / 1e6);
  return CUDA_SUCCESS;
}

template <class Value, class Ask>
CUresult tell(const char* name, Null null, CUstream handle, Value* out, Ask&& ask) {
  return with_stream(name, null, handle, InCapture::ignored, [&](Stream& stream) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = ask(stream);
    return CUDA_SUCCESS;
  });
}

CUresult stream_flags(const char* name, Null null, CUstream handle, unsigned* out) {
  return tell(name, null, handle, out, [](Stream& stream) { return stream.flags; });
}

CUresult stream_priority(const char* name, Null null, CUstream handle, int* out) {
  return tell(name, null, handle, out, [](Stream& stream) { return stream.priority.load(); });
}

CUresult stream_id(const char* name, Null null, CUstream handle, unsigned long long* out) {
  return tell(name, null, handle, out, [](Stream& stream) { return stream.id; });
}

CUresult stream_device(const char* name, Null null, CUstream handle, CUdevice* out) {
  return tell(name, null, handle, out, [](Stream& stream) { return stream.context->device->ordinal; });
}

CUresult stream_context(const char* name, Null null, CUstream handle, CUcontext* out, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return tell(name, null, handle, out,
              [](Stream& stream) { return reinterpret_cast<CUcontext>(stream.context); });
}

CUresult launch_host(const char* name, Null null, CUstream handle, CUhostFn function, void* data) {
  return with_stream(name, null, handle, InCapture::captured, [&](Stream& stream) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (is_capturing(stream)) return capture_host(stream, function, data);
    enqueue_host(stream, false, [function, data](CUresult) { function(data); });
    return CUDA_SUCCESS;
  });
}

CUresult add_callback(const char* name, Null null, CUstream handle, CUstreamCallback callback, void* data,
                      unsigned flags) {
  return with_stream(name, null, handle, InCapture::refused, [&](Stream& stream) {
    if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    enqueue_host(stream, true, [=](CUresult state) { callback(handle, state, data); });
    return CUDA_SUCCESS;
  });
}

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
  return query(__func__, Null::legacy, stream);
}
CUresult cuStreamQuery_ptsz(CUstream stream) {
  return query(__func__, Null::per_thread, stream);
}
CUresult cuStreamSynchronize(CUstream stream) {
  return synchronise_call(__func__, Null::legacy, stream);
}
CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return synchronise_call(__func__, Null::per_thread, stream);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return wait(__func__, Null::legacy, stream, event, flags);
}
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return wait(__func__, Null::per_thread, stream, event, flags);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int* out) {
  return stream_flags(__func__, Null::legacy, stream, out);
}
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int* out) {
  return stream_flags(__func__, Null::per_thread, stream, out);
}
CUresult cuStreamGetPriority(CUstream stream, int* out) {
  return stream_priority(__func__, Null::legacy, stream, out);
}
CUresult cuStreamGetPriority_ptsz(CUstream stream, int* out) {
  return stream_priority(__func__, Null::per_thread, stream, out);
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* out) {
  return stream_id(__func__, Null::legacy, stream, out);
}
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* out) {
  return stream_id(__func__, Null::per_thread, stream, out);
}
CUresult cuStreamGetDevice(CUstream stream, CUdevice* out) {
  return stream_device(__func__, Null::legacy, stream, out);
}
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* out) {
  return stream_device(__func__, Null::per_thread, stream, out);
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* out) {
  return stream_context(__func__, Null::legacy, stream, out, nullptr);
}
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* out) {
  return stream_context(__func__, Null::per_thread, stream, out, nullptr);
}
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* out, CUgreenCtx* green) {
  return stream_context(__func__, Null::legacy, stream, out, green);
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* out, CUgreenCtx* green) {
  return stream_context(__func__, Null::per_thread, stream, out, green);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return launch_host(__func__, Null::legacy, stream, function, data);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* data) {
  return launch_host(__func__, Null::per_thread, stream, function, data);
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned int flags) {
  return add_callback(__func__, Null::legacy, stream, callback, data, flags);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* data,
                                  unsigned int flags) {
  return add_callback(__func__, Null::per_thread, stream, callback, data, flags);
}

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  return in_context(__func__, [&](Context& context) {
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<SharedEvent> shared;
    if ((flags & CU_EVENT_INTERPROCESS) != 0 && (shared = SharedEvent::make()) == nullptr)
      return CUDA_ERROR_OUT_OF_MEMORY;
    return create_event(context, flags, std::move(shared), out);
  });
}
CUresult cuEventDestroy(CUevent event) {
  return in_context(__func__, [&](Context&) { return destroy_event(event); });
}
CUresult cuEventDestroy_v2(CUevent event) {
  return in_context(__func__, [&](Context&) { return destroy_event(event); });
}
CUresult cuEventQuery(CUevent event) {
  return with_event(__func__, event, [](Event& asked) {
    if (const CUresult refused = refuse_captured_event(asked); refused != CUDA_SUCCESS) return refused;
    if (const CUresult refused = unsafe_refusal(); refused != CUDA_SUCCESS) return refused;
    const bool done = held_by(asked).done();
    const CUresult fault = asked.context->fault;
    return fault != CUDA_SUCCESS ? fault : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}
// Spinning or blocking (CU_EVENT_BLOCKING_SYNC) is a matter of cost that no program can tell.
CUresult cuEventSynchronize(CUevent event) {
  return with_event(__func__, event, [](Event& asked) {
    if (const CUresult refused = refuse_captured_event(asked); refused != CUDA_SUCCESS) return refused;
    if (const CUresult refused = unsafe_refusal(); refused != CUDA_SUCCESS) return refused;
    const Held last = held_by(asked);
    if (last.mark != nullptr) last.mark->ticket.wait();
    if (last.shared != nullptr) wait_in(*asked.context, last);
    flush_output(*asked.context);
    trim_pools_after_synchronise();
    return asked.context->fault.load();
  });
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record(__func__, Null::legacy, event, stream, 0);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return record(__func__, Null::per_thread, event, stream, 0);
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return record(__func__, Null::legacy, event, stream, flags);
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
  return record(__func__, Null::per_thread, event, stream, flags);
}
CUresult cuEventElapsedTime(float* out, CUevent first, CUevent second) {
  return in_context(__func__, [&](Context&) { return elapsed(out, first, second); });
}
CUresult cuEventElapsedTime_v2(float* out, CUevent first, CUevent second) {
  return in_context(__func__, [&](Context&) { return elapsed(out, first, second); });
}
