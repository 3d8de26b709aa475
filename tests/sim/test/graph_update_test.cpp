// Executable graphs that are changed, conditional nodes, user objects and what a graph looks like to
// Graphviz. Sources: cuda.h, and "Updating Instantiated Graphs", "Conditional Graph Nodes" and "CUDA User
// Objects" of the CUDA C++ programming guide.
#include <fstream>
#include <sstream>

#include "graphs.h"

namespace gpufence::sim {
namespace {

CUcontext current() {
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  return context;
}

TEST(GraphUpdates, OfOneNodeConcernLaterLaunchesAlone) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    CUgraph graph = a_graph();
    const CUgraphNode node = Step(step, word.address, 2, 0).add(graph);
    CUgraphExec exec = instance_of(graph);
    CUstream stream = stream_of();
    Gate gate;
    OK(gate.hold(stream));
    OK(cuGraphLaunch(exec, stream));
    Step other(step, word.address, 3, 1);
    // "Already enqueued or running launches are not affected by this call. hNode is also not modified."
    OK(cuGraphExecKernelNodeSetParams(exec, node, &other.params));
    OK(cuGraphLaunch(exec, stream));
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word.get(), 7u);
    OK(cuGraphLaunch(instance_of(graph), stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word.get(), 14u);
    // Not of this graph, of another kind, or no longer there.
    EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, add_empty(graph), &other.params),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, node, nullptr), CUDA_ERROR_INVALID_VALUE);
    const CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
    EXPECT_EQ(cuGraphExecHostNodeSetParams(exec, node, &host), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroyNode(node));
    EXPECT_EQ(cuGraphExecKernelNodeSetParams(exec, node, &other.params), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphUpdates, OfCopiesAndFillsKeepTheirPlace) {
  on_machine("2", [] {
    Word a(1), b(2), c(3);
    unsigned host = 9;
    CUgraph graph = a_graph();
    const CUgraphNode copy = add_copy(graph, b.address, a.address, 4);
    const CUgraphNode fill = add_memset(graph, c.address, 5, 1);
    CUgraphExec exec = instance_of(graph);
    CUDA_MEMCPY3D other = copy_of(c.address, a.address, 4);
    OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &other, current()));
    other = copy_of(b.address, reinterpret_cast<CUdeviceptr>(&host), 4);  // from the host instead
    EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, copy, &other, current()), CUDA_ERROR_INVALID_VALUE);
    other = copy_of(b.address, a.address, 2);
    other.Height = 2;  // "must be 1-dimensional"
    other.srcPitch = other.dstPitch = 2;
    EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, copy, &other, current()), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS value{b.address, 0, 8, 4, 1, 1};
    OK(cuGraphExecMemsetNodeSetParams(exec, fill, &value, current()));
    value.height = 2;  // "changes in height are explicitly rejected"
    value.pitch = 4;
    EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, fill, &value, current()), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(c.get(), 1u);
    EXPECT_EQ(b.get(), 8u);
    CUcontext first = current();
    context_on(1);
    Word there(0);
    OK(cuCtxSetCurrent(first));
    other = copy_of(there.address, a.address, 4);  // another GPU
    EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(exec, copy, &other, current()), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphUpdates, OfHostsEventsAndChildren) {
  on_machine("1", [] {
    Letters letters;
    CUevent first = event_of(), second = event_of();
    CUgraph inner = a_graph(), graph = a_graph(), other = a_graph();
    letters.add(inner, 'i');
    const CUgraphNode host = letters.add(graph, 'a');
    CUgraphNode child = nullptr, record = nullptr;
    OK(cuGraphAddChildGraphNode(&child, graph, &host, 1, inner));
    OK(cuGraphAddEventRecordNode(&record, graph, &child, 1, first));
    CUgraphExec exec = instance_of(graph);
    const CUDA_HOST_NODE_PARAMS params{Letters::write, letters.new_letter('b')};
    OK(cuGraphExecHostNodeSetParams(exec, host, &params));
    letters.add(other, 'o');
    OK(cuGraphExecChildGraphNodeSetParams(exec, child, other));
    OK(cuGraphExecEventRecordNodeSetEvent(exec, record, second));
    EXPECT_EQ(cuGraphExecEventWaitNodeSetEvent(exec, record, second), CUDA_ERROR_INVALID_VALUE);
    letters.add(other, 'p');
    EXPECT_EQ(cuGraphExecChildGraphNodeSetParams(exec, child, other), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuEventSynchronize(second));
    EXPECT_EQ(letters.read(), "bo");
  });
}

TEST(GraphUpdates, OfAllNodesNeedTheSameShape) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    const auto chain = [&](unsigned times, unsigned plus) {
      CUgraph graph = a_graph();
      const CUgraphNode first = Step(step, word.address, times, 0).add(graph);
      Step(step, word.address, 1, plus).add(graph, {first});
      return graph;
    };
    CUgraphExec exec = instance_of(chain(2, 1));
    CUgraph wanted = chain(5, 3);
    CUgraphExecUpdateResultInfo info{};
    OK(cuGraphExecUpdate(exec, wanted, &info));
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphDestroy(wanted));
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 8u);
    // One more node.
    CUgraph larger = chain(1, 0);
    add_empty(larger);
    EXPECT_EQ(cuGraphExecUpdate(exec, larger, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EXPECT_EQ(info.errorNode, nullptr);
    // Another number of dependencies.
    CUgraph apart = chain(1, 0);
    const Nodes nodes = nodes_of(apart);
    OK(cuGraphRemoveDependencies(apart, &nodes[0], &nodes[1], nullptr, 1));
    EXPECT_EQ(cuGraphExecUpdate(exec, apart, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EXPECT_EQ(info.errorNode, nodes[1]);
    // Another kind.
    CUgraph kinds = a_graph();
    const CUgraphNode kernel = Step(step, word.address, 1, 0).add(kinds);
    const CUgraphNode empty = add_empty(kinds, {kernel});
    EXPECT_EQ(cuGraphExecUpdate(exec, kinds, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    EXPECT_EQ(info.errorNode, empty);
    // "A cooperative node cannot be updated to a non-cooperative node, and vice-versa."
    CUgraph cooperative = chain(1, 0);
    CUkernelNodeAttrValue value{};
    value.cooperative = 1;
    OK(cuGraphKernelNodeSetAttribute(nodes_of(cooperative)[0], CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &value));
    EXPECT_EQ(cuGraphExecUpdate(exec, cooperative, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
    EXPECT_EQ(info.errorNode, nodes_of(cooperative)[0]);
    EXPECT_EQ(cuGraphExecUpdate(exec, nullptr, &info), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR);
    // Nothing of all that was taken over.
    word.set(1);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 8u);
  });
}

TEST(GraphUpdates, TurnNodesOffAndOn) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1);
    Letters letters;
    CUgraph graph = a_graph();
    const CUgraphNode first = Step(step, word.address, 2, 0).add(graph);
    const CUgraphNode second = Step(step, word.address, 1, 3).add(graph, {first});
    const CUgraphNode host = letters.add(graph, 'h', {second});
    CUgraphExec exec = instance_of(graph);
    unsigned enabled = 7;
    OK(cuGraphNodeGetEnabled(exec, second, &enabled));
    EXPECT_EQ(enabled, 1u);
    OK(cuGraphNodeSetEnabled(exec, second, 0));
    OK(cuGraphNodeGetEnabled(exec, second, &enabled));
    EXPECT_EQ(enabled, 0u);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 2u);
    OK(cuGraphNodeSetEnabled(exec, second, 5));
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 7u);
    EXPECT_EQ(letters.read(), "hh");
    // "Currently only kernel, memset and memcpy nodes are supported."
    EXPECT_EQ(cuGraphNodeSetEnabled(exec, host, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphNodeGetEnabled(exec, host, &enabled), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphNodeGetEnabled(exec, second, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

// ---- Conditional nodes ----

CUgraphConditionalHandle handle_in(CUgraph graph, unsigned initial, unsigned flags) {
  CUgraphConditionalHandle handle = 0;
  OK(cuGraphConditionalHandleCreate(&handle, graph, current(), initial, flags));
  return handle;
}

CUgraphNode add_conditional(CUgraph graph, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                            unsigned size, CUgraph** bodies, const Nodes& behind = {}) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  params.conditional.ctx = current();
  CUgraphNode node = nullptr;
  OK(cuGraphAddNode(&node, graph, behind.data(), nullptr, behind.size(), &params));
  *bodies = params.conditional.phGraph_out;
  return node;
}

// A kernel that takes the handle first.
CUgraphNode add_with_handle(CUgraph graph, const char* name, CUgraphConditionalHandle handle, void* second,
                            const Nodes& behind = {}) {
  void* params[] = {&handle, second};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = function_named(name);
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = params;
  CUgraphNode node = nullptr;
  OK(cuGraphAddKernelNode(&node, graph, behind.data(), behind.size(), &kernel));
  return node;
}

TEST(Conditions, ChooseOneOfTwo) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(0);
    CUgraph graph = a_graph();
    const CUgraphConditionalHandle handle = handle_in(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph* bodies = nullptr;
    const CUgraphNode node = add_conditional(graph, handle, CU_GRAPH_COND_TYPE_IF, 2, &bodies);
    EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_CONDITIONAL);
    Step(step, word.address, 1, 10).add(bodies[0]);
    Step(step, word.address, 1, 100).add(bodies[1]);
    Step(step, word.address, 1, 1000).add(graph, {node});
    CUgraphExec exec = instance_of(graph), second = nullptr;
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 1010u);
    // "Only one instantiation", not cloned, no child.
    EXPECT_EQ(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CUgraph clone = nullptr;
    CUgraphNode child = nullptr;
    EXPECT_EQ(cuGraphClone(&clone, graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddChildGraphNode(&child, a_graph(), nullptr, 0, graph), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    // The executable graph has all it needs.
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 2020u);
  });
}

TEST(Conditions, AreSetByKernels) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(0);
    CUgraph graph = a_graph();
    const CUgraphConditionalHandle handle = handle_in(graph, 0, CU_GRAPH_COND_ASSIGN_DEFAULT);
    unsigned chosen = 2;
    const CUgraphNode set = add_with_handle(graph, "choose", handle, &chosen);
    CUgraph* bodies = nullptr;
    add_conditional(graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, &bodies, {set});
    for (unsigned i = 0; i < 3; ++i) Step(step, word.address, 1, 1 + i).add(bodies[i]);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(word.get(), 3u);
  });
}

TEST(Conditions, BeyondTheLastBodyRunNone) {
  on_machine("1", [] {
    Word word(0);
    CUgraph graph = a_graph();
    const CUgraphConditionalHandle handle = handle_in(graph, 3, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph* bodies = nullptr;
    add_conditional(graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, &bodies);
    for (unsigned i = 0; i < 3; ++i) add_memset(bodies[i], word.address, 1, 1);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(word.get(), 0u);
  });
}

TEST(Conditions, RepeatTheirBodyWhileTheyHold) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word counter(5), word(0);
    CUgraph graph = a_graph();
    const CUgraphConditionalHandle handle = handle_in(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph* bodies = nullptr;
    add_conditional(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
    const CUgraphNode work = Step(step, word.address, 2, 1).add(bodies[0]);
    add_with_handle(bodies[0], "count_down", handle, &counter.address, {work});
    CUgraphExec exec = instance_of(graph);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 31u);  // five times 2x + 1
    EXPECT_EQ(counter.get(), 0u);
    // "Applied at the beginning of each graph execution": again.
    counter.set(2);
    word.set(0);
    OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(word.get(), 3u);
  });
}

TEST(Conditions, NestAndHoldWhatCapturesPutIntoThem) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word word(1), counter(3);
    CUgraph graph = a_graph();
    const CUgraphConditionalHandle loop = handle_in(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    const CUgraphConditionalHandle inner = handle_in(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph *bodies = nullptr, *nested = nullptr;
    add_conditional(graph, loop, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
    const CUgraphNode choice = add_conditional(bodies[0], inner, CU_GRAPH_COND_TYPE_IF, 1, &nested);
    add_with_handle(bodies[0], "count_down", loop, &counter.address, {choice});
    CUstream stream = stream_of();
    Step triple(step, word.address, 3, 0);
    OK(cuStreamBeginCaptureToGraph(stream, nested[0], nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(triple.launch(stream));
    CUgraph captured = nullptr;
    OK(cuStreamEndCapture(stream, &captured));
    EXPECT_EQ(captured, nested[0]);
    OK(cuGraphLaunch(instance_of(graph), stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(word.get(), 27u);
  });
}

TEST(Conditions, HaveRulesForHandlesAndBodies) {
  on_machine("1", [] {
    CUgraph graph = a_graph(), foreign = a_graph();
    CUgraphConditionalHandle handle = 0;
    EXPECT_EQ(cuGraphConditionalHandleCreate(nullptr, graph, current(), 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphConditionalHandleCreate(&handle, graph, current(), 0, 2), CUDA_ERROR_INVALID_VALUE);
    handle = handle_in(graph, 0, 0);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 2;  // "allowed values are 1 for CU_GRAPH_COND_TYPE_WHILE"
    params.conditional.ctx = current();
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.conditional.size = 1;
    EXPECT_EQ(cuGraphAddNode(&node, foreign, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    // "Handles not associated with a conditional node may cause graph instantiation to fail."
    CUDA_GRAPH_INSTANTIATE_PARAMS instantiate{};
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &instantiate), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(instantiate.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    CUgraphNode again = nullptr;
    EXPECT_EQ(cuGraphAddNode(&again, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
    CUgraph body = params.conditional.phGraph_out[0];
    // "Allowed node types are kernel nodes, empty nodes, child graphs, memsets, memcopies, and conditionals."
    const CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
    EXPECT_EQ(cuGraphAddHostNode(&again, body, nullptr, 0, &host), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddEventRecordNode(&again, body, nullptr, 0, event_of()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(instance_of(graph), nullptr));  // never true
    OK(cuCtxSynchronize());
    // A kernel that sets what is no handle.
    unsigned value = 1;
    CUgraph wrong = a_graph();
    add_with_handle(wrong, "choose", 0x1234, &value);
    OK(cuGraphLaunch(instance_of(wrong), nullptr));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(Conditions, WithoutEndEndWithTheirContext) {
  on_machine("1", [] {
    CUgraph graph = a_graph();
    Word word(0);
    const CUgraphConditionalHandle handle = handle_in(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraph* bodies = nullptr;
    add_conditional(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
    add_memset(bodies[0], word.address, 1, 1);
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    OK(cuCtxDestroy(current()));
  });
}

// ---- User objects ----

struct Tally {
  std::mutex lock;
  std::condition_variable changed;
  int destroyed = 0;
  CUresult inside = CUDA_SUCCESS;
  static void destroy(void* self) {
    auto* tally = static_cast<Tally*>(self);
    int count = 0;
    std::lock_guard<std::mutex> held(tally->lock);
    tally->inside = cuDeviceGetCount(&count);
    ++tally->destroyed;
    tally->changed.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock<std::mutex> held(lock);
    changed.wait(held, [&] { return destroyed >= count; });
  }
  int now() {
    std::lock_guard<std::mutex> held(lock);
    return destroyed;
  }
};

TEST(UserObjects, LiveAsLongAsAnyReference) {
  on_machine("1", [] {
    static Tally tally;
    CUuserObject object = nullptr;
    EXPECT_EQ(cuUserObjectCreate(&object, &tally, Tally::destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuUserObjectCreate(&object, &tally, nullptr, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuUserObjectCreate(&object, &tally, Tally::destroy, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
              CUDA_ERROR_INVALID_VALUE);
    OK(cuUserObjectCreate(&object, &tally, Tally::destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRetain(object, 2));
    EXPECT_EQ(cuUserObjectRetain(object, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuUserObjectRelease(object, 2));
    EXPECT_EQ(tally.now(), 0);
    CUgraph graph = a_graph(), clone = nullptr;
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));  // the caller's own
    EXPECT_EQ(cuGraphReleaseUserObject(graph, object, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphClone(&clone, graph));
    CUgraphExec exec = instance_of(graph);
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(clone));
    CUstream stream = stream_of();
    Gate gate;
    OK(gate.hold(stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    EXPECT_EQ(tally.now(), 0);  // a launch is under way
    gate.open();
    OK(cuStreamSynchronize(stream));
    tally.wait_for(1);
    EXPECT_EQ(tally.inside, CUDA_ERROR_NOT_PERMITTED);  // "cannot make CUDA API calls"
    EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(UserObjects, AreGivenBackByTheirGraph) {
  on_machine("1", [] {
    static Tally tally;
    CUuserObject object = nullptr;
    OK(cuUserObjectCreate(&object, &tally, Tally::destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CUgraph graph = a_graph();
    OK(cuGraphRetainUserObject(graph, object, 3, 0));
    OK(cuUserObjectRelease(object, 1));
    OK(cuGraphReleaseUserObject(graph, object, 2));
    EXPECT_EQ(tally.now(), 0);
    OK(cuGraphReleaseUserObject(graph, object, 1));
    tally.wait_for(1);
    EXPECT_EQ(cuGraphReleaseUserObject(graph, object, 1), CUDA_ERROR_INVALID_VALUE);
  });
}

// ---- Graphviz ----

TEST(GraphDot, NamesNodesKernelsAndEdges) {
  on_machine("1", [] {
    const std::string path = private_directory() + "/graph.dot";
    const auto printed = [&](CUgraph graph, unsigned flags) {
      OK(cuGraphDebugDotPrint(graph, path.c_str(), flags));
      std::ostringstream text;
      text << std::ifstream(path).rdbuf();
      return text.str();
    };
    Word word(0);
    CUgraph graph = a_graph(), inner = a_graph();
    add_empty(inner);
    const CUgraphNode kernel = Step(function_named("step"), word.address, 1, 0).add(graph);
    const CUgraphNode fill = add_memset(graph, word.address, 7, 1, {kernel});
    CUgraphNode child = nullptr;
    OK(cuGraphAddChildGraphNode(&child, graph, &fill, 1, inner));
    std::string text = printed(graph, 0);
    EXPECT_EQ(text.substr(0, 13), "digraph dot {");
    EXPECT_NE(text.find("\"graph_node_0\" [shape=\"record\" label=\"{0 | KERNEL | step}\"]"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("\"graph_node_0\" -> \"graph_node_1\";"), std::string::npos);
    EXPECT_NE(text.find("cluster_graph_2_0"), std::string::npos);
    EXPECT_EQ(text.find("value 7"), std::string::npos);
    text = printed(graph, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
    EXPECT_NE(text.find("value 7"), std::string::npos);
    EXPECT_NE(text.find("block \\{1,1,1\\}"), std::string::npos) << text;
    EXPECT_EQ(cuGraphDebugDotPrint(graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphDebugDotPrint(graph, "/nowhere/at/all.dot", 0), CUDA_ERROR_OPERATING_SYSTEM);
  });
}

}  // namespace
}  // namespace gpufence::sim
