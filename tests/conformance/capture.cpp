// Stream capture: what becomes a graph, and what must not be done meanwhile. A capture that a check leaves
// open would spoil those after it, so each is ended.
#include <cstring>
#include <set>
#include <thread>

#include "driver.h"
#include "kernels.h"

namespace conform {
namespace {

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status{};
  OK(cuStreamIsCapturing(stream, &status));
  return status;
}

void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
  OK(cuStreamBeginCapture(stream, mode));
}

// Ended, whatever became of it.
class Ended {
 public:
  explicit Ended(CUstream stream) { result = cuStreamEndCapture(stream, &graph); }
  Ended(const Ended&) = delete;
  ~Ended() {
    if (graph != nullptr) {
      OK(cuGraphDestroy(graph));
    }
  }
  size_t nodes() const {
    size_t count = 0;
    OK(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  std::multiset<CUgraphNodeType> types() const {
    std::vector<CUgraphNode> list(nodes());
    size_t count = list.size();
    OK(cuGraphGetNodes(graph, list.data(), &count));
    std::multiset<CUgraphNodeType> found;
    for (const CUgraphNode node : list) {
      CUgraphNodeType type{};
      OK(cuGraphNodeGetType(node, &type));
      found.insert(type);
    }
    return found;
  }
  void run() const {
    CUgraphExec exec = nullptr;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    Stream stream;
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
  }

  CUresult result = CUDA_SUCCESS;
  CUgraph graph = nullptr;
};

CONFORMS(Graphs, CapturedWorkIsNotExecuted,
         "cuda.h, cuStreamBeginCapture: when a stream is in capture mode, all operations pushed into the "
         "stream will not be executed, but will instead be captured into a graph") {
  Primary here;
  Stream stream;
  Memory word(4);
  OK(cuMemsetD32(word, 1, 1));
  begin(stream);
  OK(cuMemsetD32Async(word, 2, 1, stream));
  Ended ended(stream);
  OK(ended.result);
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(word), 1u);
  ended.run();
  EXPECT_EQ(word_at(word), 2u);
}

CONFORMS(Graphs, KernelsCopiesAndHostFunctionsAreCaptured,
         "CUDA C++ Programming Guide, Creating a Graph Using Stream Capture: kernel launches, asynchronous "
         "copies, memsets and host functions in the stream become nodes, in stream order") {
  Primary here;
  Stream stream;
  Module module(kKernels);
  Memory words(64);
  uint32_t* host = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&host), 64, 0));
  memset(host, 0, 64);
  begin(stream);
  OK(cuMemsetD32Async(words, 2, 16, stream));
  OK(launch(module["scale"], 16, stream, CUdeviceptr{words}, CUdeviceptr{words}));
  OK(cuMemcpyDtoHAsync(host, words, 64, stream));
  OK(cuLaunchHostFunc(
      stream, [](void* data) { ++*static_cast<uint32_t*>(data); }, host));
  Ended ended(stream);
  OK(ended.result);
  EXPECT_EQ(ended.types(),
            (std::multiset<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
                                            CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST}));
  ended.run();
  EXPECT_EQ(host[0], 2u * 3 + 7 + 1);
  EXPECT_EQ(host[15], 2u * 3 + 7);
  OK(cuMemFreeHost(host));
}

CONFORMS(Graphs, StreamsTellWhetherTheyCapture,
         "cuda.h, cuStreamIsCapturing: CU_STREAM_CAPTURE_STATUS_NONE: the stream is not capturing; _ACTIVE: "
         "the stream is capturing") {
  Primary here;
  Stream stream;
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  begin(stream);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(Ended(stream).result);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

CONFORMS(Graphs, SomeCapturesCannotBegin,
         "cuda.h, cuStreamBeginCapture: capture may not be initiated if stream is CU_STREAM_LEGACY; it may "
         "only be initiated if the stream is not already in capture mode") {
  Primary here;
  Stream stream;
  EXPECT_NE(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  begin(stream);
  EXPECT_NE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  Ended ended(stream);
}

CONFORMS(Graphs, CapturesHaveIds,
         "cuda.h, cuStreamGetCaptureInfo: id_out: an id for the capture sequence, which is unique over the "
         "lifetime of the process") {
  Primary here;
  Stream stream;
  std::set<cuuint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    begin(stream);
    CUstreamCaptureStatus status{};
    cuuint64_t id = 0;
    OK(cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_TRUE(ids.insert(id).second);
    Ended ended(stream);
  }
}

CONFORMS(Graphs, TheNextNodeDependsOnTheLast,
         "cuda.h, cuStreamGetCaptureInfo: dependencies_out: the next node to be captured in the stream will "
         "depend on this set of nodes; graph_out: the graph being captured into") {
  Primary here;
  Stream stream;
  Memory word(4);
  begin(stream);
  OK(cuMemsetD32Async(word, 2, 1, stream));
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 0;
  OK(cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, &dependencies, nullptr, &count));
  ASSERT_EQ(count, 1u);
  CUgraphNodeType type{};
  OK(cuGraphNodeGetType(dependencies[0], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMSET);
  Ended ended(stream);
  OK(ended.result);
  EXPECT_EQ(ended.graph, graph);
}

CONFORMS(Graphs, CapturesForkAndJoinByEvents,
         "CUDA C++ Programming Guide, Cross-stream Dependencies and Events: cuStreamWaitEvent on an event "
         "captured in a stream places the waiting stream into capture; all of them must be joined") {
  Primary here;
  Stream origin, other;
  Event fork, join;
  Memory words(8);
  words.write(std::vector<uint32_t>{0, 0});
  begin(origin);
  OK(cuEventRecord(fork, origin));
  OK(cuStreamWaitEvent(other, fork, 0));
  EXPECT_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(cuMemsetD32Async(words, 1, 1, origin));
  OK(cuMemsetD32Async(words + 4, 2, 1, other));
  OK(cuEventRecord(join, other));
  OK(cuStreamWaitEvent(origin, join, 0));
  Ended ended(origin);
  OK(ended.result);
  EXPECT_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(ended.nodes(), 2u);
  ended.run();
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{1, 2}));
}

CONFORMS(Graphs, WhatForkedMustJoin,
         "cuda.h, CUDA_ERROR_STREAM_CAPTURE_UNJOINED: the capture sequence contains a fork that was not "
         "joined to the primary stream; cuStreamEndCapture: a NULL graph will be returned") {
  Primary here;
  Stream origin, other;
  Event fork;
  Memory word(4);
  begin(origin);
  OK(cuEventRecord(fork, origin));
  OK(cuStreamWaitEvent(other, fork, 0));
  OK(cuMemsetD32Async(word, 1, 1, other));
  Ended ended(origin);
  EXPECT_EQ(ended.result, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(ended.graph, nullptr);
}

CONFORMS(Graphs, CapturesEndWhereTheyBegan,
         "cuda.h, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: the capture was not initiated in this stream; "
         "cuStreamBeginCapture: capture must be ended on the same stream in which it was initiated") {
  Primary here;
  Stream origin, other;
  Event fork;
  begin(origin);
  OK(cuEventRecord(fork, origin));
  OK(cuStreamWaitEvent(other, fork, 0));
  EXPECT_EQ(Ended(other).result, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  Ended ended(origin);  // what the attempt made of the capture is not documented
}

CONFORMS(Graphs, WaitingForACapturingStreamInvalidates,
         "cuda.h, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: the operation is not permitted when the stream is "
         "capturing; cuStreamIsCapturing: _INVALIDATED: an error has invalidated the capture sequence; "
         "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED") {
  Primary here;
  Stream stream;
  begin(stream);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  Ended ended(stream);
  EXPECT_EQ(ended.result, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(ended.graph, nullptr);
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

CONFORMS(Graphs, CapturedEventsCannotBeQueried,
         "cuda.h, CUDA_ERROR_CAPTURED_EVENT: the operation is not permitted on an event which was last "
         "recorded in a capturing stream") {
  Primary here;
  Stream stream;
  Event event;
  begin(stream);
  OK(cuEventRecord(event, stream));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  Ended ended(stream);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
}

CONFORMS(Graphs, CapturesEndInTheirThread,
         "cuda.h, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: a stream capture sequence not initiated with "
         "CU_STREAM_CAPTURE_MODE_RELAXED was passed to cuStreamEndCapture in a different thread") {
  Primary here;
  Stream stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    OK(cuCtxPushCurrent(here.context));
    EXPECT_EQ(Ended(stream).result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  Ended ended(stream);
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  std::thread([&] {
    OK(cuCtxPushCurrent(here.context));
    OK(Ended(stream).result);
  }).join();
}

CONFORMS(Graphs, UnsafeCallsAreProhibited,
         "cuda.h, cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_GLOBAL: if the local thread has "
         "an ongoing capture sequence that was not initiated with CU_STREAM_CAPTURE_MODE_RELAXED, this "
         "thread is prohibited from potentially unsafe API calls, such as a call to cudaMalloc") {
  Primary here;
  Stream stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  Ended ended(stream);
  EXPECT_EQ(ended.result, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cuMemAlloc(&memory, 16));
  OK(cuMemFree(memory));
}

CONFORMS(
    Graphs, GlobalCapturesProhibitEveryThread,
    "cuda.h, cuThreadExchangeStreamCaptureMode: or if any other thread has a concurrent capture sequence "
    "initiated with CU_STREAM_CAPTURE_MODE_GLOBAL, this thread is prohibited from potentially unsafe "
    "API calls") {
  Primary here;
  Stream stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    OK(cuCtxPushCurrent(here.context));
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  Ended ended(stream);
}

CONFORMS(Graphs, LocalCapturesLeaveOtherThreadsAlone,
         "cuda.h, cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: concurrent capture "
         "sequences in other threads are ignored") {
  Primary here;
  Stream stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    OK(cuCtxPushCurrent(here.context));
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 16));
    OK(cuMemFree(memory));
  }).join();
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(Ended(stream).result);
}

CONFORMS(Graphs, RelaxedThreadsMayCallWhatIsUnsafe,
         "cuda.h, cuThreadExchangeStreamCaptureMode: CU_STREAM_CAPTURE_MODE_RELAXED: the local thread is not "
         "prohibited from potentially unsafe API calls") {
  Primary here;
  Stream stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, 16));
  OK(cuMemFree(memory));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(Ended(stream).result);
}

CONFORMS(Graphs, ThreadsStartInGlobalMode,
         "cuda.h, cuThreadExchangeStreamCaptureMode: sets the calling thread's mode to the value contained "
         "in *mode, and overwrites *mode with the previous mode for the thread; "
         "CU_STREAM_CAPTURE_MODE_GLOBAL is the default mode") {
  OK(cuInit(0));
  std::thread([] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    mode = static_cast<CUstreamCaptureMode>(9);
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
  }).join();
}

CONFORMS(Graphs, TheLegacyStreamIsUnusableMeanwhile,
         "cuda.h, cuStreamIsCapturing: if called on CU_STREAM_LEGACY while a blocking stream in the same "
         "context is capturing, it will return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; the blocking stream "
         "capture is not invalidated") {
  Primary here;
  Stream blocking(CU_STREAM_DEFAULT);
  begin(blocking);
  CUstreamCaptureStatus status{};
  EXPECT_EQ(cuStreamIsCapturing(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(Ended(blocking).result);
  OK(cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
}

CONFORMS(Graphs, WorkInTheLegacyStreamInvalidates,
         "cuda.h, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: a disallowed implicit dependency on a current capture "
         "sequence from cudaStreamLegacy") {
  Primary here;
  Stream blocking(CU_STREAM_DEFAULT);
  Memory word(4);
  begin(blocking);
  EXPECT_EQ(cuMemsetD32Async(word, 1, 1, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  Ended ended(blocking);
  EXPECT_EQ(ended.result, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

CONFORMS(Graphs, TwoCapturesAreNotMerged,
         "cuda.h, CUDA_ERROR_STREAM_CAPTURE_MERGE: the operation would have resulted in a merge of two "
         "independent capture sequences") {
  Primary here;
  Stream first, second;
  Event event;
  begin(first);
  begin(second);
  OK(cuEventRecord(event, first));
  EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  Ended one(first);
  Ended other(second);
}

CONFORMS(
    Graphs, DependenciesStayInsideTheCapture,
    "cuda.h, CUDA_ERROR_STREAM_CAPTURE_ISOLATION: a dependency would have been created which crosses the "
    "capture sequence boundary; only implicit in-stream ordering dependencies are allowed to cross") {
  Primary here;
  Stream outside, inside;
  Event event;
  OK(cuEventRecord(event, outside));
  begin(inside);
  EXPECT_EQ(cuStreamWaitEvent(inside, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  Ended ended(inside);
}

CONFORMS(
    Graphs, AllocationsOfACaptureBelongToTheGraph,
    "cuda.h, cuMemAllocAsync: during stream capture, this function results in the creation of an allocation "
    "node; the allocation is owned by the graph instead of the memory pool; cuMemFreeAsync: a "
    "free node") {
  OK(cuInit(0));
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 1, "memory pools");
  Primary here;
  Stream stream;
  Memory word(4);
  begin(stream);
  CUdeviceptr memory = 0;
  OK(cuMemAllocAsync(&memory, kMiB, stream));
  OK(cuMemsetD32Async(memory, 21, 1, stream));
  OK(cuMemcpyDtoDAsync(word, memory, 4, stream));
  OK(cuMemFreeAsync(memory, stream));
  {
    Ended ended(stream);
    OK(ended.result);
    EXPECT_EQ(ended.types().count(CU_GRAPH_NODE_TYPE_MEM_ALLOC), 1u);
    EXPECT_EQ(ended.types().count(CU_GRAPH_NODE_TYPE_MEM_FREE), 1u);
    ended.run();
    EXPECT_EQ(word_at(word), 21u);
  }
  OK(cuDeviceGraphMemTrim(0));
}

CONFORMS(Graphs, CapturesGoOnInAGraph,
         "cuda.h, cuStreamBeginCaptureToGraph: placing new nodes into an existing graph; dependencies of the "
         "first node captured in the stream") {
  Primary here;
  Stream stream;
  Memory word(4);
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  OK(cuStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cuMemsetD32Async(word, 64, 1, stream));
  Ended ended(stream);
  OK(ended.result);
  EXPECT_EQ(ended.graph, graph);
  EXPECT_EQ(ended.nodes(), 2u);
  size_t edges = 0;
  OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(edges, 1u);
  ended.run();
  EXPECT_EQ(word_at(word), 64u);
}

CONFORMS(Graphs, DependenciesOfACaptureCanBeSet,
         "cuda.h, cuStreamUpdateCaptureDependencies: modifies the dependency set of a capturing stream; "
         "returns CUDA_ERROR_ILLEGAL_STATE if the stream is not capturing") {
  Primary here;
  Stream stream;
  Memory words(8);
  EXPECT_EQ(
      cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      CUDA_ERROR_ILLEGAL_STATE);
  begin(stream);
  OK(cuMemsetD32Async(words, 1, 1, stream));
  OK(cuStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(cuMemsetD32Async(words + 4, 2, 1, stream));
  Ended ended(stream);
  OK(ended.result);  // "do not result in CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
  size_t edges = 9;
  OK(cuGraphGetEdges(ended.graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(edges, 0u);
}

}  // namespace
}  // namespace conform
