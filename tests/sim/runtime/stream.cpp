// Streams and events: each runtime call is the driver's call of the same name, in a context. The handles are
// the driver's own, so a program may pass them between the two interfaces, as CUDA allows.
#include "tests/sim/runtime/runtime.h"

using namespace gpufence::sim::runtime;

namespace {

cudaError_t stream_device(Runtime& runtime, decltype(&::cuStreamGetDevice) ask, cudaStream_t stream,
                          int* device) {
  if (device == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
  CUdevice handle = 0;
  const CUresult got = ask(stream, &handle);
  if (got == CUDA_SUCCESS) *device = runtime.ordinal(handle);
  return from_driver(got);
}

// The driver calls back with its own codes.
struct Callback {
  cudaStreamCallback_t function;
  void* data;
};

void CUDA_CB call_back(CUstream stream, CUresult status, void* data) {
  const Callback callback = *static_cast<Callback*>(data);
  delete static_cast<Callback*>(data);
  callback.function(stream, from_driver(status), callback.data);
}

cudaError_t add_callback(decltype(&::cuStreamAddCallback) add, cudaStream_t stream,
                         cudaStreamCallback_t function, void* data, unsigned int flags) {
  if (function == nullptr) return cudaErrorInvalidValue;
  auto* callback = new Callback{function, data};
  const CUresult added = add(stream, call_back, callback, flags);
  if (added != CUDA_SUCCESS) delete callback;
  return from_driver(added);
}

// "Not ready" is an answer and no error: the last error stays what it was (CUDA C++ programming guide, "Error
// Checking").
template <typename Body>
cudaError_t query(Body body) {
  bool ready = true;
  const cudaError_t result = in_context([&](const Driver& driver) {
    const CUresult told = body(driver);
    ready = told != CUDA_ERROR_NOT_READY;
    return ready ? told : CUDA_SUCCESS;
  });
  return ready ? result : cudaErrorNotReady;
}

// The two interfaces lay attributes out alike and number them alike.
static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue));

CUresult set_attribute(decltype(&::cuStreamSetAttribute) set, cudaStream_t stream, cudaStreamAttrID which,
                       const cudaStreamAttrValue* value) {
  return set(stream, static_cast<CUstreamAttrID>(which), reinterpret_cast<const CUstreamAttrValue*>(value));
}
CUresult get_attribute(decltype(&::cuStreamGetAttribute) get, cudaStream_t stream, cudaStreamAttrID which,
                       cudaStreamAttrValue* out) {
  return get(stream, static_cast<CUstreamAttrID>(which), reinterpret_cast<CUstreamAttrValue*>(out));
}

// The two interfaces number the states alike.
cudaError_t capture_info(decltype(&::cuStreamGetCaptureInfo_v3) ask, cudaStream_t stream,
                         cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                         const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         size_t* count) {
  if (status == nullptr) return cudaErrorInvalidValue;
  CUstreamCaptureStatus told = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t told_id = 0;
  const CUresult got = ask(stream, &told, id == nullptr ? nullptr : &told_id, graph, dependencies,
                           reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (got != CUDA_SUCCESS) return from_driver(got);
  *status = static_cast<cudaStreamCaptureStatus>(told);
  if (id != nullptr && told != CU_STREAM_CAPTURE_STATUS_NONE) *id = told_id;
  return cudaSuccess;
}

// The two interfaces number the modes alike, and lay out edge data alike.
static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
CUstreamCaptureMode capture_mode(cudaStreamCaptureMode mode) {
  return static_cast<CUstreamCaptureMode>(mode);
}

cudaError_t is_capturing(decltype(&::cuStreamIsCapturing) ask, cudaStream_t stream,
                         cudaStreamCaptureStatus* status) {
  if (status == nullptr) return cudaErrorInvalidValue;
  CUstreamCaptureStatus told = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult got = ask(stream, &told);
  if (got == CUDA_SUCCESS) *status = static_cast<cudaStreamCaptureStatus>(told);
  return from_driver(got);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return in_context([&](const Driver& d) { return d.cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return in_context([&](const Driver& d) { return d.cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuStreamDestroy_v2(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuStreamSynchronize(stream); });
}
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuStreamSynchronize_ptsz(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return query([&](const Driver& d) { return d.cuStreamQuery(stream); });
}
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return query([&](const Driver& d) { return d.cuStreamQuery_ptsz(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuStreamWaitEvent(stream, event, flags); });
}
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuStreamWaitEvent_ptsz(stream, event, flags); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return in_context([&](const Driver& d) { return d.cuStreamGetFlags(stream, flags); });
}
cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int* flags) {
  return in_context([&](const Driver& d) { return d.cuStreamGetFlags_ptsz(stream, flags); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return in_context([&](const Driver& d) { return d.cuStreamGetPriority(stream, priority); });
}
cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int* priority) {
  return in_context([&](const Driver& d) { return d.cuStreamGetPriority_ptsz(stream, priority); });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return in_context([&](const Driver& d) { return d.cuStreamGetId(stream, id); });
}
cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* id) {
  return in_context([&](const Driver& d) { return d.cuStreamGetId_ptsz(stream, id); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return started([&](Runtime& r) { return stream_device(r, r.driver().cuStreamGetDevice, stream, device); });
}
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int* device) {
  return started(
      [&](Runtime& r) { return stream_device(r, r.driver().cuStreamGetDevice_ptsz, stream, device); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  return in_context(
      [&](const Driver& d) { return add_callback(d.cuStreamAddCallback, stream, callback, data, flags); });
}
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                       unsigned int flags) {
  return in_context([&](const Driver& d) {
    return add_callback(d.cuStreamAddCallback_ptsz, stream, callback, data, flags);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return in_context([&](const Driver& d) { return d.cuLaunchHostFunc(stream, function, data); });
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return in_context([&](const Driver& d) { return d.cuLaunchHostFunc_ptsz(stream, function, data); });
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID which,
                                   const cudaStreamAttrValue* value) {
  return in_context(
      [&](const Driver& d) { return set_attribute(d.cuStreamSetAttribute, stream, which, value); });
}
cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t stream, cudaStreamAttrID which,
                                        const cudaStreamAttrValue* value) {
  return in_context(
      [&](const Driver& d) { return set_attribute(d.cuStreamSetAttribute_ptsz, stream, which, value); });
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID which, cudaStreamAttrValue* out) {
  return in_context(
      [&](const Driver& d) { return get_attribute(d.cuStreamGetAttribute, stream, which, out); });
}
cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t stream, cudaStreamAttrID which,
                                        cudaStreamAttrValue* out) {
  return in_context(
      [&](const Driver& d) { return get_attribute(d.cuStreamGetAttribute_ptsz, stream, which, out); });
}
cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return in_context([&](const Driver& d) { return d.cuStreamCopyAttributes(to, from); });
}
cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t to, cudaStream_t from) {
  return in_context([&](const Driver& d) { return d.cuStreamCopyAttributes_ptsz(to, from); });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* memory, size_t length, unsigned int flags) {
  return in_context([&](const Driver& d) {
    return d.cuStreamAttachMemAsync(stream, reinterpret_cast<CUdeviceptr>(memory), length, flags);
  });
}
cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t stream, void* memory, size_t length,
                                          unsigned int flags) {
  return in_context([&](const Driver& d) {
    return d.cuStreamAttachMemAsync_ptsz(stream, reinterpret_cast<CUdeviceptr>(memory), length, flags);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return in_context([&](const Driver& d) { return is_capturing(d.cuStreamIsCapturing, stream, status); });
}
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return in_context(
      [&](const Driver& d) { return is_capturing(d.cuStreamIsCapturing_ptsz, stream, status); });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return in_context([&](const Driver& d) {
    return capture_info(d.cuStreamGetCaptureInfo_v3, stream, status, id, graph, dependencies, edges, count);
  });
}
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                          unsigned long long* id, cudaGraph_t* graph,
                                          const cudaGraphNode_t** dependencies,
                                          const cudaGraphEdgeData** edges, size_t* count) {
  return in_context([&](const Driver& d) {
    return capture_info(d.cuStreamGetCaptureInfo_v3_ptsz, stream, status, id, graph, dependencies, edges,
                        count);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return in_context([&](const Driver& d) { return d.cuStreamBeginCapture_v2(stream, capture_mode(mode)); });
}
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return in_context(
      [&](const Driver& d) { return d.cuStreamBeginCapture_v2_ptsz(stream, capture_mode(mode)); });
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* nodes, const cudaGraphEdgeData* data,
                                          size_t count, cudaStreamCaptureMode mode) {
  return in_context([&](const Driver& d) {
    return d.cuStreamBeginCaptureToGraph(stream, graph, nodes, reinterpret_cast<const CUgraphEdgeData*>(data),
                                         count, capture_mode(mode));
  });
}
cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph,
                                               const cudaGraphNode_t* nodes, const cudaGraphEdgeData* data,
                                               size_t count, cudaStreamCaptureMode mode) {
  return in_context([&](const Driver& d) {
    return d.cuStreamBeginCaptureToGraph_ptsz(
        stream, graph, nodes, reinterpret_cast<const CUgraphEdgeData*>(data), count, capture_mode(mode));
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return in_context([&](const Driver& d) { return d.cuStreamEndCapture(stream, graph); });
}
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return in_context([&](const Driver& d) { return d.cuStreamEndCapture_ptsz(stream, graph); });
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* data, size_t count,
                                                unsigned int flags) {
  return in_context([&](const Driver& d) {
    return d.cuStreamUpdateCaptureDependencies_v2(
        stream, nodes, reinterpret_cast<const CUgraphEdgeData*>(data), count, flags);
  });
}
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                     const cudaGraphEdgeData* data, size_t count,
                                                     unsigned int flags) {
  return in_context([&](const Driver& d) {
    return d.cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream, nodes, reinterpret_cast<const CUgraphEdgeData*>(data), count, flags);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (mode == nullptr) return cudaErrorInvalidValue;
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult got = runtime.driver().cuThreadExchangeStreamCaptureMode(&exchanged);
    if (got == CUDA_SUCCESS) *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return from_driver(got);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return in_context([&](const Driver& d) { return d.cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuEventCreate(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuEventDestroy_v2(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuEventRecord(event, stream); });
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuEventRecord_ptsz(event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuEventRecordWithFlags(event, stream, flags); });
}
cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuEventRecordWithFlags_ptsz(event, stream, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return query([&](const Driver& d) { return d.cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return in_context([&](const Driver& d) { return d.cuEventElapsedTime_v2(milliseconds, start, end); });
}

}  // extern "C"
