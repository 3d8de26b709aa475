// Stream capture: what becomes a node, how streams join, what breaks a capture and what is told of it.
// Sources: cuda.h, and "Creating a Graph Using Stream Capture" of the CUDA C++ programming guide.
#include <thread>

#include "graphs.h"

namespace gpufence::sim {
namespace {

void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
  OK(cuStreamBeginCapture(stream, mode));
}

CUgraph end(CUstream stream) {
  CUgraph graph = nullptr;
  OK(cuStreamEndCapture(stream, &graph));
  return graph;
}

// The capture is over, with that answer, and nothing of it is left.
void ends_with(CUstream stream, CUresult answer) {
  CUgraph graph = reinterpret_cast<CUgraph>(1);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), answer);
  EXPECT_EQ(graph, nullptr);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  OK(cuStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  OK(cuStreamIsCapturing(stream, &status));
  return status;
}

TEST(Capture, TurnsWorkIntoNodesAndRunsNoneOfIt) {
  on_machine("1", [] {
    Word word(1);
    CUstream stream = stream_of();
    Step times(function_named("step"), word.address, 5, 2);
    Letters letters;
    unsigned host = 0;
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 4, 0));
    begin(stream);
    EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(times.launch(stream));
    OK(cuMemcpyDtoHAsync(pinned, word.address, 4, stream));
    OK(cuMemcpyDtoHAsync(&host, word.address, 4, stream));  // pageable
    OK(cuMemsetD32Async(word.address, 9, 1, stream));
    OK(cuLaunchHostFunc(stream, Letters::write, letters.new_letter('h')));
    CUgraph graph = end(stream);
    EXPECT_EQ(word.get(), 1u);
    EXPECT_EQ(letters.read(), "");
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 5u);
    EXPECT_EQ(type_of(nodes[0]), CU_GRAPH_NODE_TYPE_KERNEL);
    EXPECT_EQ(type_of(nodes[1]), CU_GRAPH_NODE_TYPE_MEMCPY);
    EXPECT_EQ(type_of(nodes[3]), CU_GRAPH_NODE_TYPE_MEMSET);
    EXPECT_EQ(type_of(nodes[4]), CU_GRAPH_NODE_TYPE_HOST);
    size_t edges = 0;
    OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    EXPECT_EQ(edges, 4u);  // a chain
    CUDA_MEMCPY3D copy{};
    OK(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
    EXPECT_EQ(copy.dstMemoryType, CU_MEMORYTYPE_HOST);
    EXPECT_EQ(copy.dstHost, pinned);
    EXPECT_EQ(copy.srcDevice, word.address);
    CUgraphExec exec = instance_of(graph);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(*static_cast<unsigned*>(pinned), 7u);
    EXPECT_EQ(host, 7u);
    EXPECT_EQ(word.get(), 9u);
    EXPECT_EQ(letters.read(), "h");
    // The stream is a stream again.
    OK(times.launch(stream));
    EXPECT_EQ(word.get(), 47u);
  });
}

TEST(Capture, TakesInStreamsThatWaitForItsEvents) {
  on_machine("1", [] {
    Letters letters;
    CUstream origin = stream_of(), other = stream_of();
    CUevent fork = event_of(), join = event_of();
    const auto write = [&](CUstream stream, char letter) {
      OK(cuLaunchHostFunc(stream, Letters::write, letters.new_letter(letter)));
    };
    begin(origin);
    write(origin, 'a');
    OK(cuEventRecord(fork, origin));
    OK(cuStreamWaitEvent(other, fork, 0));
    EXPECT_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    write(origin, 'b');
    write(other, 'c');
    write(other, 'd');
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(origin, join, 0));
    write(origin, 'e');
    CUgraph graph = end(origin);
    EXPECT_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_NONE);
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 5u);
    CUgraphNode from[4];
    size_t count = 4;
    OK(cuGraphNodeGetDependencies(nodes[2], from, nullptr, &count));  // c
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(from[0], nodes[0]);
    count = 4;
    OK(cuGraphNodeGetDependencies(nodes[4], from, nullptr, &count));  // e
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(from[0], nodes[1]);
    EXPECT_EQ(from[1], nodes[3]);
    OK(cuGraphLaunch(instance_of(graph), origin));
    OK(cuStreamSynchronize(origin));
    const std::string said = letters.read();
    EXPECT_EQ(said.size(), 5u);
    EXPECT_EQ(said.front(), 'a');
    EXPECT_EQ(said.back(), 'e');
    EXPECT_LT(said.find('c'), said.find('d'));
  });
}

// "The capture sequence contains a fork that was not joined to the primary stream."
TEST(Capture, HasToBeJoined) {
  on_machine("1", [] {
    CUstream origin = stream_of(), other = stream_of();
    CUevent fork = event_of();
    Letters letters;
    begin(origin);
    OK(cuLaunchHostFunc(origin, Letters::write, letters.new_letter('a')));
    OK(cuEventRecord(fork, origin));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuLaunchHostFunc(other, Letters::write, letters.new_letter('b')));
    ends_with(origin, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_NONE);
    // A fork without work of its own is joined.
    begin(origin);
    OK(cuLaunchHostFunc(origin, Letters::write, letters.new_letter('a')));
    OK(cuEventRecord(fork, origin));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuGraphDestroy(end(origin)));
  });
}

TEST(Capture, IsEndedWhereItBegan) {
  on_machine("1", [] {
    CUstream origin = stream_of(), other = stream_of();
    CUevent fork = event_of();
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(origin, &graph), CUDA_ERROR_ILLEGAL_STATE);
    begin(origin);
    EXPECT_EQ(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuEventRecord(fork, origin));
    OK(cuStreamWaitEvent(other, fork, 0));
    EXPECT_EQ(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    ends_with(origin, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // "Must be called on this stream from the same thread", unless it is relaxed.
    begin(origin);
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    std::thread([&] {
      CUgraph none = nullptr;
      OK(cuCtxSetCurrent(context));
      EXPECT_EQ(cuStreamEndCapture(origin, &none), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }).join();
    OK(cuGraphDestroy(end(origin)));
    begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    std::thread([&] {
      OK(cuCtxSetCurrent(context));
      CUgraph made = nullptr;
      OK(cuStreamEndCapture(origin, &made));
      EXPECT_NE(made, nullptr);
    }).join();
    EXPECT_EQ(cuStreamBeginCapture(origin, static_cast<CUstreamCaptureMode>(7)), CUDA_ERROR_INVALID_VALUE);
    begin(origin);
    EXPECT_EQ(cuStreamEndCapture(origin, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(end(origin)));
  });
}

TEST(Capture, OfTheLegacyStreamThereIsNone) {
  on_machine("1", [] {
    EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    // A thread's own default stream is a stream.
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 64));
    begin(CU_STREAM_PER_THREAD);
    OK(cuMemsetD8Async(memory, 1, 64, CU_STREAM_PER_THREAD));
    EXPECT_EQ(nodes_of(end(CU_STREAM_PER_THREAD)).size(), 1u);
  });
}

// "When a blocking stream is capturing, the legacy stream is in an unusable state."
TEST(Capture, InABlockingStreamBarsTheLegacyStream) {
  on_machine("1", [] {
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 64));
    CUstream blocking = stream_of(CU_STREAM_DEFAULT);
    Step step(function_named("step"), memory, 1, 0);
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureStatus status;
    EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(cuStreamGetCaptureInfo(nullptr, &status, nullptr, nullptr, nullptr, nullptr, nullptr),
              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);  // "is not invalidated"
    EXPECT_EQ(step.launch(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_EQ(status_of(blocking), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(step.launch(blocking), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ends_with(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    char host[4];
    EXPECT_EQ(cuMemcpyDtoH(host, memory, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);  // uses it
    ends_with(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // One that does not take part in its rules leaves it alone.
    CUstream free = stream_of();
    begin(free, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(step.launch(nullptr));
    OK(cuMemcpyDtoH(host, memory, 4));
    OK(cuGraphDestroy(end(free)));
    OK(step.launch(nullptr));
  });
}

// "Potentially unsafe API calls" (cuThreadExchangeStreamCaptureMode).
TEST(Capture, ProhibitsWhatItWouldNotSee) {
  on_machine("1", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 64));
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 64, 0));
    CUstream stream = stream_of(), other = stream_of();
    CUevent event = event_of();
    OK(cuEventRecord(event, other));
    const std::vector<std::function<CUresult()>> unsafe = {
        [&] {
          CUdeviceptr more = 0;
          return cuMemAlloc(&more, 64);
        },
        [&] { return cuMemFree(memory); },
        [&] {
          void* more = nullptr;
          return cuMemHostAlloc(&more, 64, 0);
        },
        [&] { return cuMemFreeHost(pinned); },
        [&] { return cuMemcpyDtoH(pinned, memory, 4); },
        [&] { return cuMemsetD8(memory, 0, 4); },
        [&] { return cuStreamSynchronize(other); },
        [&] { return cuStreamQuery(other); },
        [&] { return cuEventQuery(event); },
        [&] { return cuEventSynchronize(event); },
    };
    for (const auto& call : unsafe) {
      for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
        begin(stream, mode);
        EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        ends_with(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      }
      // Another thread is barred by a global capture alone.
      const auto elsewhere = [&] {
        CUresult answer = CUDA_ERROR_UNKNOWN;
        std::thread([&] {
          OK(cuCtxSetCurrent(context));
          answer = call();
        }).join();
        return answer;
      };
      begin(stream);
      EXPECT_EQ(elsewhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      ends_with(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    std::thread([&] {
      OK(cuCtxSetCurrent(context));
      OK(cuStreamQuery(other));
    }).join();
    OK(cuGraphDestroy(end(stream)));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuStreamSynchronize(other));
    OK(cuEventQuery(event));
    OK(cuGraphDestroy(end(stream)));
    // A thread may say that it knows what it does.
    begin(stream);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr more = 0;
    OK(cuMemAlloc(&more, 64));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuGraphDestroy(end(stream)));
  });
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured or a
// captured event." Relaxed or not.
TEST(Capture, HasNoStateOfExecution) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUevent event = event_of();
    const std::vector<std::pair<std::function<CUresult()>, CUresult>> calls = {
        {[&] { return cuStreamQuery(stream); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuStreamSynchronize(stream); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuCtxSynchronize(); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] {
           return cuStreamAddCallback(
               stream, [](CUstream, CUresult, void*) {}, nullptr, 0);
         },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {[&] { return cuEventQuery(event); }, CUDA_ERROR_CAPTURED_EVENT},
        {[&] { return cuEventSynchronize(event); }, CUDA_ERROR_CAPTURED_EVENT},
    };
    for (const auto& [call, answer] : calls) {
      begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
      OK(cuEventRecord(event, stream));
      EXPECT_EQ(call(), answer);
      ends_with(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    // An event is one of a capture until it is recorded anew.
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    // What only asks who the stream is may be asked.
    begin(stream);
    unsigned flags = 0;
    int priority = 7;
    OK(cuStreamGetFlags(stream, &flags));
    OK(cuStreamGetPriority(stream, &priority));
    OK(cuGraphDestroy(end(stream)));
  });
}

TEST(Capture, KeepsToItself) {
  on_machine("1", [] {
    CUstream one = stream_of(), two = stream_of(), outside = stream_of();
    CUevent event = event_of(), before = event_of();
    // "A merge of two independent capture sequences."
    begin(one);
    begin(two);
    OK(cuEventRecord(event, one));
    EXPECT_EQ(cuStreamWaitEvent(two, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    ends_with(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ends_with(two, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // "A dependency which crosses the capture sequence boundary."
    OK(cuEventRecord(before, outside));
    begin(one);
    EXPECT_EQ(cuStreamWaitEvent(one, before, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    ends_with(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // The legacy stream can't take part.
    begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuEventRecord(event, one));
    EXPECT_EQ(cuStreamWaitEvent(nullptr, event, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ends_with(one, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  });
}

TEST(Capture, RecordsAndAwaitsEventsOfOthersAsNodes) {
  on_machine("1", [] {
    CUstream stream = stream_of(), other = stream_of();
    CUevent awaited = event_of(), recorded = event_of();
    // "Invalid outside of stream capture."
    EXPECT_EQ(cuEventRecordWithFlags(recorded, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamWaitEvent(stream, awaited, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    Letters letters;
    begin(stream);
    OK(cuStreamWaitEvent(stream, awaited, CU_EVENT_WAIT_EXTERNAL));
    OK(cuLaunchHostFunc(stream, Letters::write, letters.new_letter('g')));
    OK(cuEventRecordWithFlags(recorded, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = end(stream);
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 3u);
    EXPECT_EQ(type_of(nodes[0]), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    EXPECT_EQ(type_of(nodes[2]), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    CUgraphExec exec = instance_of(graph);
    Gate gate;
    OK(gate.hold(other));
    OK(cuLaunchHostFunc(other, Letters::write, letters.new_letter('o')));
    OK(cuEventRecord(awaited, other));
    OK(cuGraphLaunch(exec, stream));
    gate.open();
    OK(cuEventSynchronize(recorded));
    EXPECT_EQ(letters.read(), "og");
  });
}

TEST(Capture, TellsWhatItHasSoFar) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    Letters letters;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0, again = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    const CUgraphEdgeData* data = nullptr;
    size_t count = 77;
    begin(stream);
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &data, &count));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(count, 0u);
    OK(cuLaunchHostFunc(stream, Letters::write, letters.new_letter('a')));
    OK(cuStreamGetCaptureInfo(stream, &status, &again, &graph, &nodes, &data, &count));
    EXPECT_EQ(id, again);
    ASSERT_EQ(count, 1u);
    const CUgraphNode first = nodes[0];
    EXPECT_EQ(type_of(first), CU_GRAPH_NODE_TYPE_HOST);
    EXPECT_EQ(cuStreamGetCaptureInfo(stream, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    // "All operations other than destroy and node removal are permitted on the graph."
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphDestroyNode(first), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode own = letters.add(graph, 'x', {});
    OK(cuStreamUpdateCaptureDependencies(stream, &own, nullptr, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &count));
    EXPECT_EQ(count, 2u);
    OK(cuLaunchHostFunc(stream, Letters::write, letters.new_letter('b')));
    CUgraphNode other = letters.add(graph, 'y', {own});
    // "Nodes that are removed from the dependency set do not result in UNJOINED."
    OK(cuStreamUpdateCaptureDependencies(stream, &other, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream, &other, nullptr, 1, 9), CUDA_ERROR_INVALID_VALUE);
    CUgraph made = end(stream);
    EXPECT_EQ(made, graph);
    EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream, &other, nullptr, 1, 0), CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(nodes_of(made).size(), 4u);
    begin(stream);
    OK(cuStreamGetCaptureInfo(stream, &status, &again, nullptr, nullptr, nullptr, nullptr));
    EXPECT_NE(id, again);  // "unique over the lifetime of the process"
    OK(cuGraphDestroy(end(stream)));
  });
}

TEST(Capture, MayGoIntoAGraphThatIsThere) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    Letters letters;
    CUgraph graph = a_graph();
    const CUgraphNode first = letters.add(graph, 'a');
    OK(cuStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchHostFunc(stream, Letters::write, letters.new_letter('b')));
    CUgraphExec exec = nullptr;
    // "The graph will not be instantiable until the user calls cuStreamEndCapture."
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(end(stream), graph);
    letters.add(graph, 'c', {nodes_of(graph)[1]});
    OK(cuGraphLaunch(instance_of(graph), stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(letters.read(), "abc");
    const CUgraphNode foreign = add_empty(a_graph());
    EXPECT_EQ(cuStreamBeginCaptureToGraph(stream, graph, &foreign, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(
        cuStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL),
        CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  });
}

TEST(Capture, OfAGraphLaunchIsAChild) {
  on_machine("1", [] {
    Word word(1);
    CUgraph inner = a_graph();
    const CUgraphNode first = Step(function_named("step"), word.address, 3, 0).add(inner);
    Step(function_named("step"), word.address, 1, 1).add(inner, {first});
    CUgraphExec exec = instance_of(inner);
    CUstream stream = stream_of();
    Step step(function_named("step"), word.address, 10, 0);
    begin(stream);
    OK(step.launch(stream));
    OK(cuGraphLaunch(exec, stream));
    OK(step.launch(stream));
    CUgraph graph = end(stream);
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 3u);
    EXPECT_EQ(type_of(nodes[1]), CU_GRAPH_NODE_TYPE_GRAPH);
    CUgraph child = nullptr;
    OK(cuGraphChildGraphNodeGetGraph(nodes[1], &child));
    EXPECT_EQ(nodes_of(child).size(), 2u);
    OK(cuGraphLaunch(instance_of(graph), stream));
    EXPECT_EQ(word.get(), 310u);
    begin(stream);
    EXPECT_EQ(cuGraphUpload(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ends_with(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  });
}

TEST(Capture, CopiesThePriorityOfItsStream) {
  on_machine("1", [] {
    Word word(1);
    CUstream stream = nullptr;
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -4));
    Step step(function_named("step"), word.address, 3, 0);
    begin(stream);
    OK(step.launch(stream));
    OK(cuLaunchCooperativeKernel(step.params.func, 1, 1, 1, 1, 1, 1, 0, stream, step.params.kernelParams));
    CUgraph graph = end(stream);
    CUkernelNodeAttrValue value{};
    OK(cuGraphKernelNodeGetAttribute(nodes_of(graph)[0], CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
    EXPECT_EQ(value.priority, -4);
    OK(cuGraphKernelNodeGetAttribute(nodes_of(graph)[1], CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &value));
    EXPECT_EQ(value.cooperative, 1);
    OK(cuGraphLaunch(instance_of(graph), stream));
    EXPECT_EQ(word.get(), 9u);
  });
}

TEST(Capture, EndsWithItsStreamOrItsContext) {
  on_machine("1", [] {
    CUstream stream = stream_of(), other = stream_of();
    begin(stream);
    OK(cuStreamDestroy(stream));
    OK(cuCtxSynchronize());  // nothing captures any more
    CUevent fork = event_of();
    begin(other);
    stream = stream_of();
    OK(cuEventRecord(fork, other));
    OK(cuStreamWaitEvent(stream, fork, 0));
    OK(cuStreamDestroy(stream));
    ends_with(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(other);
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    OK(cuCtxDestroy(context));
    context_on(0);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 16));
  });
}

TEST(Capture, OfManyThreadsAtOnceKeepsThemApart) {
  on_machine("1", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    const CUfunction step = function_named("step");
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Word>> words;
    for (int i = 0; i < 4; ++i) words.push_back(std::make_unique<Word>(0));
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        OK(cuCtxSetCurrent(context));
        CUstream stream = stream_of();
        Step add(step, words[static_cast<size_t>(i)]->address, 1, 1);
        for (int round = 0; round < 20; ++round) {
          begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
          OK(add.launch(stream));
          OK(add.launch(stream));
          CUgraph graph = end(stream);
          CUgraphExec exec = instance_of(graph);
          OK(cuGraphLaunch(exec, stream));
          OK(cuGraphExecDestroy(exec));
          OK(cuGraphDestroy(graph));
        }
        OK(cuStreamSynchronize(stream));
      });
    for (auto& thread : threads) thread.join();
    for (const auto& word : words) EXPECT_EQ(word->get(), 40u);
  });
}

}  // namespace
}  // namespace gpufence::sim
