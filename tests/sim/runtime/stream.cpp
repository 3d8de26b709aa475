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
  return in_context([&](const Driver& d) { return d.cuStreamQuery(stream); });
}
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuStreamQuery_ptsz(stream); });
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
  return in_context([&](const Driver& d) { return d.cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return in_context([&](const Driver& d) { return d.cuEventElapsedTime_v2(milliseconds, start, end); });
}

}  // extern "C"
