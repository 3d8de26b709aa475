// Graphs as they are built and run: nodes of each kind, edges, copies, what a launch waits for, and what is
// refused. Sources: cuda.h, where nothing else is named.
#include "graphs.h"

#include <cstring>

namespace gpufence::sim {
namespace {

TEST(Graphs, RunTheirNodesInTheOrderOfTheirEdges) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    CUgraph graph = a_graph();
    // ((1 * 2 + 3) * 10 + 7) = 57; any other order gives something else.
    const CUgraphNode last = Step(step, word.address, 10, 7).add(graph);
    const CUgraphNode first = Step(step, word.address, 2, 3).add(graph);
    OK(cuGraphAddDependencies(graph, &first, &last, nullptr, 1));
    CUgraphExec exec = instance_of(graph);
    CUstream stream = stream_of();
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word.get(), 57u);
    // It may be launched again, and outlives the graph.
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word.get(), (57u * 2 + 3) * 10 + 7);
    OK(cuGraphExecDestroy(exec));
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Graphs, KeepTheParametersTheyWereGiven) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(5);
    CUgraph graph = a_graph();
    CUgraphNode node = nullptr;
    {
      // "The argument values it points to are copied during this call" (cuGraphAddKernelNode).
      CUdeviceptr at = word.address;
      unsigned times = 3, plus = 4;
      void* pointers[] = {&at, &times, &plus};
      CUDA_KERNEL_NODE_PARAMS params{};
      params.func = step;
      params.gridDimX = params.gridDimY = params.gridDimZ = 1;
      params.blockDimX = params.blockDimY = params.blockDimZ = 1;
      params.kernelParams = pointers;
      OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
      times = plus = 1000;
    }
    CUDA_KERNEL_NODE_PARAMS told{};
    OK(cuGraphKernelNodeGetParams(node, &told));
    EXPECT_EQ(told.func, step);
    EXPECT_EQ(told.extra, nullptr);
    EXPECT_EQ(*static_cast<unsigned*>(told.kernelParams[1]), 3u);
    EXPECT_EQ(*static_cast<CUdeviceptr*>(told.kernelParams[0]), word.address);
    // Packed by the program: "kernelParams or extra, according to which was most recently set".
    struct {
      CUdeviceptr at;
      unsigned times, plus;
    } packed{word.address, 6, 1};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    told.extra = extra;
    EXPECT_EQ(cuGraphKernelNodeSetParams(node, &told), CUDA_ERROR_INVALID_VALUE);  // both
    told.kernelParams = nullptr;
    OK(cuGraphKernelNodeSetParams(node, &told));
    OK(cuGraphKernelNodeGetParams(node, &told));
    EXPECT_EQ(told.kernelParams, nullptr);
    ASSERT_NE(told.extra, nullptr);
    EXPECT_EQ(told.extra[0], CU_LAUNCH_PARAM_BUFFER_POINTER);
    packed.times = 99;
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(word.get(), 5u * 6 + 1);
  });
}

TEST(Graphs, CopyAndFillMemory) {
  on_machine("1", [] {
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 4096));
    unsigned host[4] = {11, 22, 33, 44}, back[4] = {};
    CUgraph graph = a_graph();
    const CUgraphNode in = add_copy(graph, memory, reinterpret_cast<CUdeviceptr>(host), sizeof host);
    const CUgraphNode fill = add_memset(graph, memory + 4, 7, 2, {in});
    add_copy(graph, reinterpret_cast<CUdeviceptr>(back), memory, sizeof back, {fill});
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    OK(cuCtxSynchronize());
    EXPECT_EQ(back[0], 11u);
    EXPECT_EQ(back[1], 7u);
    EXPECT_EQ(back[2], 7u);
    EXPECT_EQ(back[3], 44u);
    CUDA_MEMSET_NODE_PARAMS told{};
    OK(cuGraphMemsetNodeGetParams(fill, &told));
    EXPECT_EQ(told.dst, memory + 4);
    EXPECT_EQ(told.value, 7u);
    EXPECT_EQ(told.elementSize, 4u);
    EXPECT_EQ(told.width, 2u);
    CUDA_MEMCPY3D copy{};
    OK(cuGraphMemcpyNodeGetParams(in, &copy));
    EXPECT_EQ(copy.dstDevice, memory);
    EXPECT_EQ(copy.WidthInBytes, sizeof host);
    // Two rows of two bytes, a pitch of 256 apart.
    const CUDA_MEMSET_NODE_PARAMS rows{memory, 256, 0x0909, 2, 1, 2};
    OK(cuGraphMemsetNodeSetParams(fill, &rows));
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    OK(cuCtxSynchronize());
    unsigned short there = 0;
    OK(cuMemcpyDtoH(&there, memory + 256, 2));
    EXPECT_EQ(there, 0x0909);
    CUDA_MEMSET_NODE_PARAMS odd = rows;
    odd.elementSize = 3;  // "must be 1, 2, or 4"
    EXPECT_EQ(cuGraphMemsetNodeSetParams(fill, &odd), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS wide = rows;  // rows beyond 2^64
    wide.pitch = 0x8000'0000'0000'0000;
    wide.height = 3;
    EXPECT_EQ(cuGraphMemsetNodeSetParams(fill, &wide), CUDA_ERROR_INVALID_VALUE);
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    CUgraphNode more = nullptr;
    EXPECT_EQ(cuGraphAddMemsetNode(&more, graph, nullptr, 0, &wide, context), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D far = copy_of(memory, reinterpret_cast<CUdeviceptr>(host), sizeof host);
    far.dstPitch = 0x1'0000'0000;
    far.dstHeight = 0x1'0000'0000;
    far.dstZ = 1;
    EXPECT_EQ(cuGraphMemcpyNodeSetParams(in, &far), CUDA_ERROR_INVALID_VALUE);
    const CUDA_MEMCPY3D beyond = copy_of(memory, memory + 4000, 200);
    EXPECT_EQ(cuGraphMemcpyNodeSetParams(in, &beyond), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Graphs, CopyBetweenArraysAndMemory) {
  on_machine("1", [] {
    CUarray array = nullptr;
    const CUDA_ARRAY_DESCRIPTOR descriptor{4, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    OK(cuArrayCreate(&array, &descriptor));
    unsigned char host[16], back[16] = {};
    for (int i = 0; i < 16; ++i) host[i] = static_cast<unsigned char>(i);
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    CUDA_MEMCPY3D in{}, out{};
    in.srcMemoryType = CU_MEMORYTYPE_HOST;
    in.srcHost = host;
    in.srcPitch = 4;
    in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    in.dstArray = array;
    in.WidthInBytes = 4;
    in.Height = 4;
    in.Depth = 1;
    out = {};
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    out.srcArray = array;
    out.srcXInBytes = 1;
    out.srcY = 1;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = back;
    out.dstPitch = 2;
    out.WidthInBytes = 2;
    out.Height = 2;
    out.Depth = 1;
    CUgraph graph = a_graph();
    CUgraphNode first = nullptr, second = nullptr;
    OK(cuGraphAddMemcpyNode(&first, graph, nullptr, 0, &in, context));
    OK(cuGraphAddMemcpyNode(&second, graph, &first, 1, &out, context));
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    OK(cuCtxSynchronize());
    EXPECT_EQ(back[0], 5);
    EXPECT_EQ(back[1], 6);
    EXPECT_EQ(back[2], 9);
    EXPECT_EQ(back[3], 10);
    CUDA_MEMCPY3D told{};
    OK(cuGraphMemcpyNodeGetParams(second, &told));
    EXPECT_EQ(told.srcArray, array);
    EXPECT_EQ(told.dstHost, back);
  });
}

// Branches that wait for each other have to run side by side.
TEST(Graphs, RunTheirBranchesSideBySide) {
  on_machine("1", [] {
    static Gate gate;
    static std::atomic<bool> opened{false};
    CUgraph graph = a_graph();
    const CUgraphNode start = add_empty(graph);
    const CUgraphNode waits = add_host(graph,
                                       [](void*) {
                                         while (!opened) std::this_thread::yield();
                                       },
                                       nullptr, {start});
    const CUgraphNode opens = add_host(graph, [](void*) { opened = true; }, nullptr, {start});
    Letters letters;
    letters.add(graph, 'e', {waits, opens});
    CUstream stream = stream_of();
    OK(cuGraphLaunch(instance_of(graph), stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(letters.read(), "e");
  });
}

TEST(Graphs, KeepEveryEdgeOfAWideGraph) {
  on_machine("1", [] {
    // Rows of 24 nodes, each behind all of the row before: more than have a queue of their own.
    Letters letters;
    CUgraph graph = a_graph();
    Nodes before;
    for (char row = 'a'; row < 'e'; ++row) {
      Nodes made;
      for (int i = 0; i < 24; ++i) made.push_back(letters.add(graph, row, before));
      before = made;
    }
    CUstream stream = stream_of();
    CUgraphExec exec = instance_of(graph);
    for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    const std::string once =
        std::string(24, 'a') + std::string(24, 'b') + std::string(24, 'c') + std::string(24, 'd');
    EXPECT_EQ(letters.read(), once + once + once);
  });
}

// "Each launch is ordered behind both any previous work in hStream and any previous launches of hGraphExec."
TEST(GraphLaunches, StandInTheirStreamAndBehindEachOther) {
  on_machine("1", [] {
    Letters letters;
    CUgraph graph = a_graph();
    letters.add(graph, 'a');
    letters.add(graph, 'a');
    CUgraphExec exec = instance_of(graph);
    CUstream one = stream_of(), other = stream_of();
    Gate gate;
    OK(gate.hold(one));
    OK(cuGraphLaunch(exec, one));
    OK(cuLaunchHostFunc(one, Letters::write, letters.new_letter('1')));
    OK(cuGraphLaunch(exec, other));  // waits for the first
    OK(cuLaunchHostFunc(other, Letters::write, letters.new_letter('2')));
    EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cuStreamSynchronize(other));
    OK(cuStreamSynchronize(one));
    const std::string said = letters.read();
    EXPECT_EQ(said.substr(0, 2), "aa");
    EXPECT_EQ(said.size(), 6u);
    EXPECT_EQ(said.back() == '2' || said.back() == '1', true);
    EXPECT_LT(said.find('a', 2), said.find('2'));
  });
}

TEST(GraphLaunches, FollowTheLegacyStreamsRules) {
  on_machine("1", [] {
    Letters letters;
    CUgraph graph = a_graph();
    letters.add(graph, 'g');
    letters.add(graph, 'g');
    CUgraphExec exec = instance_of(graph);
    CUstream blocking = stream_of(CU_STREAM_DEFAULT);
    Gate gate;
    OK(gate.hold(blocking));
    OK(cuGraphLaunch(exec, nullptr));  // behind the blocking stream's
    OK(cuLaunchHostFunc(blocking, Letters::write, letters.new_letter('z')));
    EXPECT_EQ(letters.read(), "");
    gate.open();
    OK(cuStreamSynchronize(blocking));
    EXPECT_EQ(letters.read(), "ggz");
  });
}

TEST(GraphLaunches, OfAnEmptyGraphAreWorkToo) {
  on_machine("1", [] {
    CUgraphExec exec = instance_of(a_graph());
    CUstream stream = stream_of();
    Gate gate;
    OK(gate.hold(stream));
    OK(cuGraphLaunch(exec, stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuGraphExecDestroy(exec));  // "freed asynchronously on completion"
    gate.open();
    OK(cuStreamSynchronize(stream));
  });
}

TEST(GraphLaunches, OfManyGoOnWhenTheirGraphIsDestroyed) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(0);
    CUgraph graph = a_graph();
    Step(step, word.address, 1, 1).add(graph);
    CUgraphExec exec = instance_of(graph);
    CUstream stream = stream_of();
    Gate gate;
    OK(gate.hold(stream));
    for (int i = 0; i < 200; ++i) OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    gate.open();
    EXPECT_EQ(word.get(), 200u);
  });
}

TEST(GraphFaults, StickToTheContextOfTheNode) {
  on_machine("1", [] {
    CUgraph graph = a_graph();
    const CUgraphNode bad = Step(function_named("step"), 0x10, 1, 1).add(graph);
    Letters letters;
    letters.add(graph, 'n', {bad});
    CUgraphExec exec = instance_of(graph);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(letters.read(), "");
    // A graph is no part of the context.
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
  });
}

TEST(GraphFaults, ComeOfMemoryThatWentSinceTheNodeWasAdded) {
  on_machine("1", [] {
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 64));
    CUgraph graph = a_graph();
    add_memset(graph, memory, 1, 16);
    CUgraphExec exec = instance_of(graph);
    OK(cuMemFree(memory));
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(GraphContexts, MayBeSeveral) {
  on_machine("2", [] {
    CUcontext first = nullptr;
    OK(cuCtxGetCurrent(&first));
    Word here(3);
    CUgraph graph = a_graph();
    const CUgraphNode one = Step(function_named("step"), here.address, 2, 1).add(graph);
    context_on(1);
    Word there(10);
    const CUgraphNode other = Step(function_named("step"), there.address, 3, 0).add(graph, {one});
    Letters letters;
    letters.add(graph, 'x', {other});
    CUgraphExec exec = instance_of(graph);
    OK(cuCtxSetCurrent(first));
    CUstream stream = stream_of();
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(letters.read(), "x");
    EXPECT_EQ(here.get(), 7u);
    EXPECT_EQ(there.get(), 30u);
  });
}

TEST(GraphContexts, ThatAreGoneBarALaunch) {
  on_machine("2", [] {
    CUcontext first = nullptr, second = nullptr;
    OK(cuCtxGetCurrent(&first));
    second = context_on(1);
    Word there(10);
    CUgraph graph = a_graph();
    Step(function_named("step"), there.address, 3, 0).add(graph);
    CUgraphExec exec = instance_of(graph);
    OK(cuCtxDestroy(second));
    OK(cuCtxSetCurrent(first));
    EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuGraphExecDestroy(exec));
  });
}

TEST(GraphNodes, AreToldWithTheirEdges) {
  on_machine("1", [] {
    CUgraph graph = a_graph();
    const CUgraphNode a = add_empty(graph), b = add_empty(graph, {a}), c = add_empty(graph, {a, b});
    EXPECT_EQ(nodes_of(graph), (Nodes{a, b, c}));
    EXPECT_EQ(type_of(a), CU_GRAPH_NODE_TYPE_EMPTY);
    size_t count = 0;
    OK(cuGraphGetRootNodes(graph, nullptr, &count));
    EXPECT_EQ(count, 1u);
    // "The remaining entries will be set to NULL, and the number actually obtained will be returned."
    CUgraphNode out[5] = {c, c, c, c, c};
    count = 5;
    OK(cuGraphGetRootNodes(graph, out, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(out[0], a);
    EXPECT_EQ(out[1], nullptr);
    EXPECT_EQ(out[4], nullptr);
    count = 0;
    OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    EXPECT_EQ(count, 3u);
    CUgraphNode from[3] = {}, to[3] = {};
    CUgraphEdgeData data[3] = {};
    OK(cuGraphGetEdges(graph, from, to, data, &count));
    EXPECT_EQ(from[0], a);
    EXPECT_EQ(to[0], b);
    EXPECT_EQ(from[2], b);
    EXPECT_EQ(to[2], c);
    count = 2;
    OK(cuGraphNodeGetDependencies(c, out, nullptr, &count));
    EXPECT_EQ(out[0], a);
    EXPECT_EQ(out[1], b);
    count = 1;
    OK(cuGraphNodeGetDependentNodes(a, out, nullptr, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(out[0], b);
    OK(cuGraphRemoveDependencies(graph, &a, &c, nullptr, 1));
    EXPECT_EQ(cuGraphRemoveDependencies(graph, &a, &c, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddDependencies(graph, &a, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    // "Severs any dependencies of other nodes on hNode and vice versa."
    OK(cuGraphDestroyNode(b));
    count = 5;
    OK(cuGraphNodeGetDependencies(c, out, nullptr, &count));
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(cuGraphDestroyNode(b), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(nodes_of(graph), (Nodes{a, c}));
    CUgraphNodeType type;
    EXPECT_EQ(cuGraphNodeGetType(b, &type), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphNodes, HaveEdgesWithDataThatIsNotLostInSilence) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    CUgraph graph = a_graph();
    const CUgraphNode a = Step(step, word.address, 2, 0).add(graph);
    const CUgraphNode empty = add_empty(graph);
    Step second(step, word.address, 1, 5);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    memcpy(&params.kernel, &second.params, sizeof second.params);
    CUgraphEdgeData programmatic{};
    programmatic.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    programmatic.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CUgraphNode b = nullptr;
    // "It may only be used between kernel nodes."
    EXPECT_EQ(cuGraphAddNode(&b, graph, &empty, &programmatic, 1, &params), CUDA_ERROR_INVALID_VALUE);
    CUgraphEdgeData wrong = programmatic;
    wrong.from_port = 0;
    EXPECT_EQ(cuGraphAddNode(&b, graph, &a, &wrong, 1, &params), CUDA_ERROR_INVALID_VALUE);
    wrong = programmatic;
    wrong.reserved[2] = 1;
    EXPECT_EQ(cuGraphAddNode(&b, graph, &a, &wrong, 1, &params), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphAddNode(&b, graph, &a, &programmatic, 1, &params));
    CUgraphNode from[1] = {}, to[1] = {};
    CUgraphEdgeData told[1] = {};
    size_t count = 1;
    EXPECT_EQ(cuGraphGetEdges(graph, from, to, nullptr, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 1;
    OK(cuGraphGetEdges(graph, from, to, told, &count));
    EXPECT_EQ(told[0].type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    count = 1;
    EXPECT_EQ(cuGraphNodeGetDependencies(b, from, nullptr, &count), CUDA_ERROR_LOSSY_QUERY);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(word.get(), 7u);
    // "Specifying an edge that does not exist, with data matching edgeData, results in an error."
    EXPECT_EQ(cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphRemoveDependencies(graph, &a, &b, &programmatic, 1));
  });
}

TEST(GraphNodes, AreRefusedWithWrongArguments) {
  on_machine("1", [] {
    CUgraph graph = a_graph(), other = a_graph();
    const CUgraphNode there = add_empty(other), here = add_empty(graph);
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddEmptyNode(nullptr, graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddEmptyNode(&node, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddEmptyNode(&node, graph, &there, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddEmptyNode(&node, graph, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    const CUgraphNode twice[] = {here, here};  // "may not have any duplicate entries"
    EXPECT_EQ(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS kernel{};
    EXPECT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel), CUDA_ERROR_INVALID_VALUE);
    Step large(function_named("step"), 0, 1, 1);
    large.params.blockDimX = 2000;
    EXPECT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &large.params), CUDA_ERROR_INVALID_VALUE);
    const CUDA_HOST_NODE_PARAMS nobody{nullptr, nullptr};
    EXPECT_EQ(cuGraphAddHostNode(&node, graph, nullptr, 0, &nobody), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuGraphAddDependencies(graph, &here, &here, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    CUDA_HOST_NODE_PARAMS host{};
    EXPECT_EQ(cuGraphHostNodeGetParams(here, &host), CUDA_ERROR_INVALID_VALUE);  // an empty node
    // "All unused bytes must be set to zero" (cuGraphAddNode).
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_EMPTY;
    params.reserved1[5] = 1;
    EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.reserved1[5] = 0;
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    EXPECT_EQ(cuGraphClone(nullptr, graph), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 1 << 20), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphInstantiate(nullptr, graph, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphLaunch(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(nodes_of(graph).size(), 2u);
  });
}

TEST(GraphNodes, ThatLeadInACircleBarAnInstance) {
  on_machine("1", [] {
    CUgraph graph = a_graph();
    const CUgraphNode a = add_empty(graph), b = add_empty(graph, {a});
    OK(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    EXPECT_TRUE(params.hErrNode_out == a || params.hErrNode_out == b);
    OK(cuGraphRemoveDependencies(graph, &b, &a, nullptr, 1));
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    EXPECT_EQ(params.hErrNode_out, nullptr);
  });
}

TEST(GraphInstances, TellTheirFlagsAndRefuseLaunchesFromDevices) {
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUgraph graph = a_graph();
    CUgraphExec exec = instance_of(graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    cuuint64_t flags = 0;
    OK(cuGraphExecGetFlags(exec, &flags));
    EXPECT_EQ(flags, 8u);
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    params.hUploadStream = stream_of();
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    OK(cuGraphExecGetFlags(exec, &flags));
    EXPECT_EQ(flags, 1u);  // "UPLOAD will not be returned"
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuGraphInstantiate(&exec, graph,
                                 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
              CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphUpload(exec, nullptr));
  });
  EXPECT_EQ(said.substr(said.find(']') + 1),
            " GF601 warning: the simulator has no graphs that kernels launch: it answered "
            "CUDA_ERROR_NOT_SUPPORTED; those that the host launches work\n");
}

TEST(GraphNodes, WithSemaphoresAndBatchesAreRefusedAloud) {
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddNode(&node, a_graph(), nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
    EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, a_graph(), nullptr, 0, &batch), CUDA_ERROR_NOT_SUPPORTED);
  });
  EXPECT_NE(said.find("GF601 warning: the simulator has no nodes with external semaphores"),
            std::string::npos);
  EXPECT_NE(said.find("GF601 warning: the simulator has no cuGraphAddBatchMemOpNode: it answered "
                      "CUDA_ERROR_NOT_SUPPORTED; memset, memcpy and event nodes work"),
            std::string::npos);
}

TEST(GraphClones, AreGraphsOfTheirOwn) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    CUgraph graph = a_graph(), clone = nullptr;
    const CUgraphNode node = Step(step, word.address, 3, 0).add(graph);
    const CUgraphNode behind = Step(step, word.address, 1, 1).add(graph, {node});
    OK(cuGraphClone(&clone, graph));
    CUgraphNode found = nullptr;
    OK(cuGraphNodeFindInClone(&found, node, clone));
    EXPECT_NE(found, node);
    // "The original graph may be modified after this call without affecting the clone."
    Step changed(step, word.address, 7, 0);
    OK(cuGraphKernelNodeSetParams(node, &changed.params));
    OK(cuGraphDestroyNode(behind));
    OK(cuGraphLaunch(instance_of(clone), nullptr));
    EXPECT_EQ(word.get(), 4u);
    EXPECT_EQ(cuGraphNodeFindInClone(&found, node, graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphNodeFindInClone(&found, found, clone), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphChildren, AreClonedIntoTheirNode) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    CUgraph inner = a_graph(), graph = a_graph(), embedded = nullptr;
    const CUgraphNode first = Step(step, word.address, 2, 0).add(inner);
    Step(step, word.address, 1, 1).add(inner, {first});
    const CUgraphNode before = Step(step, word.address, 10, 0).add(graph);
    CUgraphNode child = nullptr;
    OK(cuGraphAddChildGraphNode(&child, graph, &before, 1, inner));
    OK(cuGraphDestroy(inner));
    Step(step, word.address, 5, 0).add(graph, {child});
    CUgraphExec exec = instance_of(graph);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 105u);  // (1 * 10 * 2 + 1) * 5
    OK(cuGraphChildGraphNodeGetGraph(child, &embedded));
    EXPECT_EQ(nodes_of(embedded).size(), 2u);
    EXPECT_EQ(cuGraphDestroy(embedded), CUDA_ERROR_INVALID_VALUE);  // "the node retains ownership"
    // "Changes to the graph will be reflected in the node."
    Step(step, word.address, 1, 1).add(embedded, {nodes_of(embedded)[1]});
    word.set(1);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(word.get(), 110u);
  });
}

TEST(GraphChildren, MayBeEmptyOrMoved) {
  on_machine("1", [] {
    Letters letters;
    CUgraph graph = a_graph(), moved = a_graph();
    const CUgraphNode first = letters.add(graph, 'a');
    CUgraphNode empty = nullptr, child = nullptr;
    OK(cuGraphAddChildGraphNode(&empty, graph, &first, 1, a_graph()));
    letters.add(moved, 'b');
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph = {moved, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
    OK(cuGraphAddNode(&child, graph, &empty, nullptr, 1, &params));
    letters.add(graph, 'c', {child});
    CUgraph told = nullptr;
    OK(cuGraphChildGraphNodeGetGraph(child, &told));
    EXPECT_EQ(told, moved);
    // "Cannot be independently instantiated or destroyed; cannot be added as a child of a separate parent."
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, moved, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphDestroy(moved), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddNode(&child, a_graph(), nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    OK(cuCtxSynchronize());
    EXPECT_EQ(letters.read(), "abc");
    EXPECT_EQ(cuGraphAddChildGraphNode(&child, graph, nullptr, 0, graph), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphEvents, AreRecordedAndWaitedForByEachLaunch) {
  on_machine("1", [] {
    CUevent recorded = event_of(), awaited = event_of();
    Letters letters;
    CUgraph graph = a_graph();
    CUgraphNode wait = nullptr, record = nullptr;
    OK(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, awaited));
    const CUgraphNode host = letters.add(graph, 'g', {wait});
    OK(cuGraphAddEventRecordNode(&record, graph, &host, 1, recorded));
    CUgraphExec exec = instance_of(graph);
    CUstream stream = stream_of(), other = stream_of();
    Gate gate;
    OK(gate.hold(other));
    OK(cuLaunchHostFunc(other, Letters::write, letters.new_letter('o')));
    OK(cuEventRecord(awaited, other));
    OK(cuGraphLaunch(exec, stream));
    EXPECT_EQ(cuEventQuery(recorded), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cuEventSynchronize(recorded));
    EXPECT_EQ(letters.read(), "og");
    CUevent told = nullptr;
    OK(cuGraphEventRecordNodeGetEvent(record, &told));
    EXPECT_EQ(told, recorded);
    OK(cuGraphEventWaitNodeSetEvent(wait, recorded));
    OK(cuGraphEventWaitNodeGetEvent(wait, &told));
    EXPECT_EQ(told, recorded);
    EXPECT_EQ(cuGraphEventWaitNodeGetEvent(record, &told), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphEventRecordNodeSetEvent(record, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(awaited));
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphKernels, HaveAttributes) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    CUgraph graph = a_graph();
    const CUgraphNode node = Step(step, word.address, 2, 0).add(graph),
                      other = Step(step, word.address, 1, 0).add(graph, {node});
    CUkernelNodeAttrValue value{}, told{};
    OK(cuGraphKernelNodeGetAttribute(node, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &told));
    EXPECT_EQ(told.cooperative, 0);
    value.cooperative = 1;
    OK(cuGraphKernelNodeSetAttribute(node, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &value));
    value.priority = -3;
    OK(cuGraphKernelNodeSetAttribute(node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
    OK(cuGraphKernelNodeCopyAttributes(other, node));
    OK(cuGraphKernelNodeGetAttribute(other, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &told));
    EXPECT_EQ(told.cooperative, 1);
    OK(cuGraphKernelNodeGetAttribute(other, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &told));
    EXPECT_EQ(told.priority, -3);
    EXPECT_EQ(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &told),
              CUDA_ERROR_INVALID_VALUE);  // "valid for streams"
    EXPECT_EQ(cuGraphKernelNodeGetAttribute(add_empty(graph), CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &told),
              CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(word.get(), 2u);
  });
}

}  // namespace
}  // namespace gpufence::sim
