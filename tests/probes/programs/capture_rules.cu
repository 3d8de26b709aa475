// What stream capture allows and what makes it invalid: modes and threads, events and streams that are not
// part of it, what is left unjoined, and captures into a graph that there is already.
#include "check.h"

#include <thread>

__global__ void put(int* out, int at, int value) {
  out[at] = value;
}

static cudaStream_t new_stream() {
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
static cudaEvent_t new_event() {
  cudaEvent_t event;
  MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}
static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status;
  MUST(cudaStreamIsCapturing(stream, &status));
  return status;
}
// Ends a capture that something made invalid: no graph, and the stream is free again.
static void ends_invalid(cudaStream_t stream, cudaError_t wanted, const char* what) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  cudaGetLastError();
  HOLDS(error == wanted && graph == nullptr, "%s: %s", what, cudaGetErrorName(error));
  HOLDS(status_of(stream) == cudaStreamCaptureStatusNone, "%s: it is over", what);
}

static void modes(int* memory) {
  const cudaStream_t stream = new_stream();
  void* more;
  cudaGraph_t graph;
  // Of what is not safe, allocating is one; where it is not allowed, it makes the capture invalid.
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  HOLDS(status_of(stream) == cudaStreamCaptureStatusActive, "it captures");
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  REFUSES(cudaMalloc(&more, 16), cudaErrorStreamCaptureUnsupported);
  HOLDS(status_of(stream) == cudaStreamCaptureStatusInvalidated, "it is invalid");
  ends_invalid(stream, cudaErrorStreamCaptureInvalidated, "thread-local");
  // In relaxed mode everything goes that does not concern the stream.
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  MUST(cudaMalloc(&more, 16));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  MUST(cudaFree(more));
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphDestroy(graph));
  // Other threads: not of concern to a capture of one thread, but to one that is global.
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::thread([&] {
    MUST(cudaMalloc(&more, 16));
    MUST(cudaFree(more));
  }).join();
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  std::thread([&] {
    // This thread says that it knows what it does.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == cudaStreamCaptureModeGlobal, "the default of a thread: %d", mode);
    MUST(cudaMalloc(&more, 16));
    MUST(cudaFree(more));
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == cudaStreamCaptureModeRelaxed, "what it was: %d", mode);
    REFUSES(cudaMalloc(&more, 16), cudaErrorStreamCaptureUnsupported);
  }).join();
  ends_invalid(stream, cudaErrorStreamCaptureInvalidated, "global");
  MUST(cudaStreamDestroy(stream));
}

static void streams_and_events(int* memory) {
  const cudaStream_t stream = new_stream(), side = new_stream();
  const cudaEvent_t event = new_event(), outside = new_event();
  cudaStream_t blocking;
  cudaGraph_t graph;
  MUST(cudaStreamCreate(&blocking));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  REFUSES(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) MUST(cudaGraphDestroy(graph));
  cudaGetLastError();

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  MUST(cudaEventRecord(event, stream));
  MUST(cudaStreamWaitEvent(side, event, 0));
  put<<<1, 1, 0, side>>>(memory, 1, 2);
  HOLDS(status_of(side) == cudaStreamCaptureStatusActive, "it came into the capture");
  ends_invalid(stream, cudaErrorStreamCaptureUnjoined, "a stream that does not come back");

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  REFUSES(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  ends_invalid(stream, cudaErrorStreamCaptureInvalidated, "waited for");

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  MUST(cudaEventRecord(event, stream));
  REFUSES(cudaEventQuery(event), cudaErrorCapturedEvent);
  ends_invalid(stream, cudaErrorStreamCaptureInvalidated, "asked for an event");

  MUST(cudaEventRecord(outside, side));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  REFUSES(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation);
  ends_invalid(stream, cudaErrorStreamCaptureInvalidated, "an event from outside");

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  MUST(cudaStreamBeginCapture(side, cudaStreamCaptureModeRelaxed));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  MUST(cudaEventRecord(event, stream));
  REFUSES(cudaStreamWaitEvent(side, event, 0), cudaErrorStreamCaptureMerge);
  cudaStreamEndCapture(side, &graph);
  cudaStreamEndCapture(stream, &graph);
  cudaGetLastError();

  // The legacy stream waits for blocking streams: that can't be while one captures.
  MUST(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  put<<<1, 1>>>(memory, 0, 1);
  ANSWERS(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
  ends_invalid(blocking, cudaErrorStreamCaptureInvalidated, "the legacy stream");
  REFUSES(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);

  // Begun here, ended there: not of a thread's own capture.
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  std::thread([&] {
    REFUSES(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  put<<<1, 1, 0, stream>>>(memory, 0, 1);
  std::thread([&] { MUST(cudaStreamEndCapture(stream, &graph)); }).join();
  MUST(cudaGraphDestroy(graph));
  REFUSES(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  for (const cudaStream_t gone : {stream, side, blocking}) MUST(cudaStreamDestroy(gone));
  for (const cudaEvent_t gone : {event, outside}) MUST(cudaEventDestroy(gone));
}

static void into_a_graph(int* memory) {
  const cudaStream_t stream = new_stream();
  cudaGraph_t graph, captured;
  cudaGraphNode_t zero;
  MUST(cudaGraphCreate(&graph, 0));
  cudaMemsetParams fill = {};
  fill.dst = memory, fill.elementSize = 4, fill.width = 4, fill.height = 1;
  MUST(cudaGraphAddMemsetNode(&zero, graph, nullptr, 0, &fill));
  MUST(cudaStreamBeginCaptureToGraph(stream, graph, &zero, nullptr, 1, cudaStreamCaptureModeGlobal));
  put<<<1, 1, 0, stream>>>(memory, 0, 10);
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t told = nullptr;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
  MUST(cudaStreamGetCaptureInfo(stream, &status, &id, &told, &last, nullptr, &count));
  HOLDS(status == cudaStreamCaptureStatusActive && told == graph && count == 1 && id != 0, "%zu", count);
  cudaGraphNode_t first = last[0];
  cudaGraphNodeType type;
  MUST(cudaGraphNodeGetType(first, &type));
  HOLDS(type == cudaGraphNodeTypeKernel, "%d", type);
  // What comes next depends on the memset alone, and what is behind both on both.
  MUST(cudaStreamUpdateCaptureDependencies(stream, &zero, nullptr, 1, cudaStreamSetCaptureDependencies));
  put<<<1, 1, 0, stream>>>(memory, 1, 20);
  MUST(cudaStreamUpdateCaptureDependencies(stream, &first, nullptr, 1, cudaStreamAddCaptureDependencies));
  put<<<1, 1, 0, stream>>>(memory, 2, 30);
  MUST(cudaStreamEndCapture(stream, &captured));
  HOLDS(captured == graph, "it is the same graph");
  size_t nodes = 0, edges = 0;
  MUST(cudaGraphGetNodes(graph, nullptr, &nodes));
  MUST(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  HOLDS(nodes == 4 && edges == 4, "%zu nodes, %zu edges", nodes, edges);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaMemset(memory, 0xff, 16));
  MUST(cudaDeviceSynchronize());
  MUST(cudaGraphLaunch(exec, stream));
  int host[4];
  MUST(cudaMemcpyAsync(host, memory, sizeof host, cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  HOLDS(host[0] == 10 && host[1] == 20 && host[2] == 30 && host[3] == 0, "%d %d %d %d", host[0], host[1],
        host[2], host[3]);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
}

int main() {
  int* memory;
  MUST(cudaMalloc(&memory, 16));
  put<<<1, 1>>>(memory, 0, 0);  // so that the kernel is loaded
  MUST_RUN();
  modes(memory);
  streams_and_events(memory);
  into_a_graph(memory);
  MUST(cudaFree(memory));
  return verdict();
}
