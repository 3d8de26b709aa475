// Stream capture as programs use it: a pipeline captured once and replayed, forks and joins by events,
// library calls inside, and what a capture forbids.
#include "check.h"

#include <thread>

__device__ int total;

__global__ void scale(float* data, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= factor;
}
__global__ void sum(float* out, const float* a, const float* b, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = a[i] + b[i];
}
__global__ void count_up(int by) {
  atomicAdd(&total, by);
}

static void pipeline() {
  constexpr int kCount = 5000;
  const size_t bytes = kCount * sizeof(float);
  float *host, *result, *a, *b, *c;
  MUST(cudaMallocHost(&host, bytes));
  MUST(cudaMallocHost(&result, bytes));
  MUST(cudaMalloc(&a, bytes));
  MUST(cudaMalloc(&b, bytes));
  MUST(cudaMalloc(&c, bytes));
  cudaStream_t stream, other;
  cudaEvent_t fork, join;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  cudaGraph_t graph;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  MUST(cudaMemcpyAsync(a, host, bytes, cudaMemcpyHostToDevice, stream));
  MUST(cudaEventRecord(fork, stream));
  MUST(cudaStreamWaitEvent(other, fork, 0));
  scale<<<(kCount + 255) / 256, 256, 0, stream>>>(a, kCount, 2.0f);
  MUST(cudaMemsetAsync(b, 0, bytes, other));
  MUST(cudaMemcpyAsync(b, host, bytes / 2, cudaMemcpyHostToDevice, other));
  MUST(cudaEventRecord(join, other));
  MUST(cudaStreamWaitEvent(stream, join, 0));
  sum<<<(kCount + 255) / 256, 256, 0, stream>>>(c, a, b, kCount);
  MUST(cudaMemcpyAsync(result, c, bytes, cudaMemcpyDeviceToHost, stream));
  cudaStreamCaptureStatus status;
  MUST(cudaStreamIsCapturing(other, &status));
  HOLDS(status == cudaStreamCaptureStatusActive, "%d", status);
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGetLastError());
  size_t nodes = 0;
  MUST(cudaGraphGetNodes(graph, nullptr, &nodes));
  HOLDS(nodes == 6, "%zu nodes", nodes);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphDestroy(graph));
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i * round);
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < kCount; ++i) {
      const float wanted = host[i] * 2 + (i < kCount / 2 ? host[i] : 0);
      HOLDS(result[i] == wanted, "round %d, [%d] is %g", round, i, result[i]);
    }
  }
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaStreamDestroy(other));
  MUST(cudaFreeHost(host));
  MUST(cudaFreeHost(result));
  MUST(cudaFree(a));
  MUST(cudaFree(b));
  MUST(cudaFree(c));
}

// A kernel's parameters are those of the capture, whatever becomes of the variables.
static void parameters_are_kept() {
  int zero = 0, got = 0;
  MUST(cudaMemcpyToSymbol(total, &zero, sizeof zero));
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int by = 1; by <= 4; ++by) count_up<<<1, 10, 0, stream>>>(by);
  MUST(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t nodes[4];
  size_t count = 4;
  MUST(cudaGraphGetNodes(graph, nodes, &count));
  cudaKernelNodeParams params{};
  MUST(cudaGraphKernelNodeGetParams(nodes[2], &params));
  HOLDS(params.func == (void*)count_up && params.blockDim.x == 10, "another kernel");
  HOLDS(*static_cast<int*>(params.kernelParams[0]) == 3, "%d", *static_cast<int*>(params.kernelParams[0]));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 10; ++i) MUST(cudaGraphLaunch(exec, stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaMemcpyFromSymbol(&got, total, sizeof got));
  HOLDS(got == 10 * 10 * (1 + 2 + 3 + 4), "%d", got);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
}

static void is_over(cudaStream_t stream, cudaError_t wanted) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  REFUSES(cudaStreamEndCapture(stream, &graph), wanted);
  HOLDS(graph == nullptr, "a graph of a broken capture");
}

static void forbidden() {
  cudaStream_t stream, other;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  void* memory;
  char host[16];
  MUST(cudaMalloc(&memory, 16));
  cudaEvent_t event;
  MUST(cudaEventCreate(&event));

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  void* more;
  REFUSES(cudaMalloc(&more, 16), cudaErrorStreamCaptureUnsupported);
  cudaStreamCaptureStatus status;
  MUST(cudaStreamIsCapturing(stream, &status));
  HOLDS(status == cudaStreamCaptureStatusInvalidated, "%d", status);
  REFUSES(cudaMemsetAsync(memory, 0, 16, stream), cudaErrorStreamCaptureInvalidated);
  is_over(stream, cudaErrorStreamCaptureInvalidated);

  // The legacy stream depends on the blocking one that is captured.
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  REFUSES(cudaMemcpy(host, memory, 16, cudaMemcpyDeviceToHost), cudaErrorStreamCaptureImplicit);
  is_over(stream, cudaErrorStreamCaptureInvalidated);

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  REFUSES(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  is_over(stream, cudaErrorStreamCaptureInvalidated);

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  REFUSES(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  is_over(stream, cudaErrorStreamCaptureInvalidated);

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  MUST(cudaEventRecord(event, stream));
  REFUSES(cudaEventQuery(event), cudaErrorCapturedEvent);
  is_over(stream, cudaErrorStreamCaptureInvalidated);

  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  count_up<<<1, 1, 0, stream>>>(0);
  MUST(cudaEventRecord(event, stream));
  MUST(cudaStreamWaitEvent(other, event, 0));
  count_up<<<1, 1, 0, other>>>(0);
  is_over(stream, cudaErrorStreamCaptureUnjoined);

  MUST(cudaEventRecord(event, other));
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  REFUSES(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
  is_over(stream, cudaErrorStreamCaptureInvalidated);

  REFUSES(cudaStreamBeginCapture(0, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t none;
  REFUSES(cudaStreamEndCapture(stream, &none), cudaErrorIllegalState);

  // Another thread asks for memory: a global capture forbids it, a thread-local one does not.
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    MUST(cudaStreamBeginCapture(stream, mode));
    std::thread([&] {
      void* theirs;
      if (mode == cudaStreamCaptureModeGlobal) {
        REFUSES(cudaMalloc(&theirs, 16), cudaErrorStreamCaptureUnsupported);
        cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
        MUST(cudaThreadExchangeStreamCaptureMode(&relaxed));
      }
      MUST(cudaMalloc(&theirs, 16));
      MUST(cudaFree(theirs));
    }).join();
    cudaGraph_t graph;
    if (mode == cudaStreamCaptureModeGlobal) {
      is_over(stream, cudaErrorStreamCaptureInvalidated);
    } else {
      MUST(cudaStreamEndCapture(stream, &graph));
      MUST(cudaGraphDestroy(graph));
    }
  }
  MUST(cudaFree(memory));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaStreamDestroy(other));
}

static void append(void* data) {
  *static_cast<std::string*>(data) += 'x';
}

static void into_graphs_and_of_graphs() {
  std::string said;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaGraph_t inner, graph;
  cudaGraphExec_t exec, replay;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  MUST(cudaLaunchHostFunc(stream, append, &said));
  MUST(cudaLaunchHostFunc(stream, append, &said));
  MUST(cudaStreamEndCapture(stream, &inner));
  MUST(cudaGraphInstantiate(&exec, inner, 0));
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first;
  const cudaHostNodeParams call{append, &said};
  MUST(cudaGraphAddHostNode(&first, graph, nullptr, 0, &call));
  MUST(cudaStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, cudaStreamCaptureModeGlobal));
  MUST(cudaGraphLaunch(exec, stream));
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t told;
  const cudaGraphNode_t* nodes;
  size_t count = 0;
  MUST(cudaStreamGetCaptureInfo(stream, &status, &id, &told, &nodes, nullptr, &count));
  HOLDS(told == graph && count == 1 && id != 0, "%zu nodes, id %llu", count, id);
  cudaGraphNodeType type;
  MUST(cudaGraphNodeGetType(nodes[0], &type));
  HOLDS(type == cudaGraphNodeTypeGraph, "%d", type);
  MUST(cudaStreamEndCapture(stream, &told));
  MUST(cudaGraphInstantiate(&replay, graph, 0));
  MUST(cudaGraphLaunch(replay, stream));
  MUST(cudaStreamSynchronize(stream));
  HOLDS(said == "xxx", "%s", said.c_str());
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphExecDestroy(replay));
  MUST(cudaGraphDestroy(inner));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
}

int main() {
  pipeline();
  parameters_are_kept();
  forbidden();
  into_graphs_and_of_graphs();
  return verdict();
}
