// Memory that graphs allocate: its address, who may free it when, what counts against the GPU, and what
// graphs with it can't be. Sources: cuda.h, cuGraphAddMemAllocNode; "Graph Memory Nodes" of the CUDA C++
// programming guide.
#include "graphs.h"

#include <fstream>

namespace gpufence::sim {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Alloc {
  CUgraphNode node = nullptr;
  CUdeviceptr address = 0;
};

CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes, int device = 0) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  params.bytesize = bytes;
  return params;
}

Alloc add_alloc(CUgraph graph, size_t bytes, const Nodes& behind = {}) {
  Alloc made;
  CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(bytes);
  OK(cuGraphAddMemAllocNode(&made.node, graph, behind.data(), behind.size(), &params));
  made.address = params.dptr;
  EXPECT_NE(made.address, 0u);
  return made;
}

CUgraphNode add_free(CUgraph graph, CUdeviceptr address, const Nodes& behind = {}) {
  CUgraphNode node = nullptr;
  OK(cuGraphAddMemFreeNode(&node, graph, behind.data(), behind.size(), address));
  return node;
}

uint64_t told(CUgraphMem_attribute which) {
  cuuint64_t value = 77;
  OK(cuDeviceGetGraphMemAttribute(0, which, &value));
  return value;
}

// cuda.h, cuGraphAddMemAllocNode and cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY.
TEST(GraphMemory, SizesThatRoundingWouldWrapAreOutOfMemory) {
  on_machine("1", [] {
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUgraph graph = a_graph();
    for (const size_t bytes : {0xffff'ffff'ffff'ffff, 0xffff'ffff'ffff'fffe, 0xffff'ffff'ffff'ff9c,
                               0xffff'ffff'ffff'fe00, 0x8000'0000'0000'0000}) {
      SCOPED_TRACE(bytes);
      CUDA_MEM_ALLOC_NODE_PARAMS params{};
      params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
      params.bytesize = bytes;
      CUgraphNode node = nullptr;
      EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(node, nullptr);
      OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      CUdeviceptr memory = 77;
      EXPECT_EQ(cuMemAllocAsync(&memory, bytes, stream), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(memory, 77u);
      CUgraph captured = nullptr;
      OK(cuStreamEndCapture(stream, &captured));
    }
  });
}

TEST(GraphMemory, HasItsAddressFromTheNodeOnAndIsThereWhileTheGraphRuns) {
  on_machine("1", [] {
    const CUfunction step = function_named("step");
    Word out(0);
    CUgraph graph = a_graph();
    const Alloc alloc = add_alloc(graph, 1000);
    const CUgraphNode fill = add_memset(graph, alloc.address, 6, 2, {alloc.node});
    const CUgraphNode work = Step(step, alloc.address, 7, 0).add(graph, {fill});
    const CUgraphNode copy = add_copy(graph, out.address, alloc.address, 4, {work});
    add_free(graph, alloc.address, {copy});
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    OK(cuGraphMemAllocNodeGetParams(alloc.node, &params));
    EXPECT_EQ(params.dptr, alloc.address);
    EXPECT_EQ(params.bytesize, 1000u);
    char byte = 0;
    EXPECT_EQ(cuMemcpyDtoH(&byte, alloc.address, 1), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = instance_of(graph);
    for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(out.get(), 42u);
    // Freed by its graph: not there for anybody else.
    EXPECT_EQ(cuMemcpyDtoH(&byte, alloc.address, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(alloc.address), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphMemory, ThatItsGraphLeavesIsFreedOutside) {
  on_machine("1", [] {
    CUgraph graph = a_graph();
    const Alloc alloc = add_alloc(graph, 64);
    add_memset(graph, alloc.address, 5, 16, {alloc.node});
    CUgraphExec exec = instance_of(graph);
    CUstream stream = stream_of();
    OK(cuGraphLaunch(exec, stream));
    // "It can be accessed by stream operations ordered after the graph's execution."
    unsigned words[16] = {};
    OK(cuMemcpyDtoHAsync(words, alloc.address, sizeof words, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(words[15], 5u);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cuMemGetAddressRange(&base, &bytes, alloc.address + 8));
    EXPECT_EQ(base, alloc.address);
    EXPECT_EQ(bytes, 64u);
    // "If any allocations remain unfreed, the launch will fail with CUDA_ERROR_INVALID_VALUE."
    EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(alloc.address, stream));
    EXPECT_EQ(cuMemFreeAsync(alloc.address, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree(alloc.address));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    // It outlives the graph: "destroying a graph does not automatically free any live allocation".
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemcpyDtoH(words, alloc.address, 4));
    EXPECT_EQ(words[0], 5u);
    OK(cuMemFree(alloc.address));
    EXPECT_EQ(cuMemcpyDtoH(words, alloc.address, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  });
}

TEST(GraphMemory, IsFreedByAnotherGraphOrByEachLaunch) {
  on_machine("1", [] {
    CUgraph allocates = a_graph(), frees = a_graph(), third = a_graph();
    const Alloc alloc = add_alloc(allocates, 64);
    const CUgraphNode node = add_free(frees, alloc.address);
    CUdeviceptr address = 0;
    OK(cuGraphMemFreeNodeGetParams(node, &address));
    EXPECT_EQ(address, alloc.address);
    CUgraphNode none = nullptr;
    // "A free node can no longer be added to the owning graph", nor twice.
    EXPECT_EQ(cuGraphAddMemFreeNode(&none, allocates, nullptr, 0, alloc.address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddMemFreeNode(&none, third, nullptr, 0, alloc.address), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec one = instance_of(allocates), other = instance_of(frees);
    EXPECT_EQ(cuGraphLaunch(other, nullptr), CUDA_ERROR_INVALID_VALUE);  // nothing to free yet
    for (int i = 0; i < 3; ++i) {
      OK(cuGraphLaunch(one, nullptr));
      OK(cuGraphLaunch(other, nullptr));
    }
    OK(cuCtxSynchronize());
    // "Makes each launch behave as though it called cuMemFreeAsync for every unfreed allocation."
    CUgraph leaves = a_graph();
    add_alloc(leaves, 64);
    CUgraphExec frees_itself = instance_of(leaves, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(frees_itself, nullptr));
    OK(cuCtxSynchronize());
  });
}

TEST(GraphMemory, HasRulesForItsGraph) {
  on_machine("2", [] {
    CUgraph graph = a_graph(), other = nullptr;
    const Alloc alloc = add_alloc(graph, 64);
    const CUgraphNode empty = add_empty(graph, {alloc.node});
    const CUgraphNode freed = add_free(graph, alloc.address, {empty});
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, alloc.address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, 0x1000), CUDA_ERROR_INVALID_VALUE);
    // "Nodes and edges of the graph cannot be deleted", it "cannot be cloned", "only one instantiation".
    EXPECT_EQ(cuGraphDestroyNode(freed), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphRemoveDependencies(graph, &empty, &freed, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphClone(&other, graph), CUDA_ERROR_INVALID_VALUE);
    CUgraph parent = a_graph();
    EXPECT_EQ(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = instance_of(graph), second = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiate(&exec, graph, 0));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    params.free.dptr = alloc.address;
    EXPECT_EQ(cuGraphNodeSetParams(freed, &params), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphExecDestroy(exec));
    // "Only if the ownership is moved to the parent."
    params = {};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph = {graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
    OK(cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &params));
    CUDA_MEM_ALLOC_NODE_PARAMS more = alloc_params(64);
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &more), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(instance_of(parent), nullptr));
    OK(cuCtxSynchronize());
    // Wrong parameters.
    CUgraph fresh = a_graph();
    more = alloc_params(0);
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, fresh, nullptr, 0, &more), CUDA_ERROR_INVALID_VALUE);
    more = alloc_params(64, 9);
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, fresh, nullptr, 0, &more), CUDA_ERROR_INVALID_VALUE);
    more = alloc_params(64);
    more.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // "IPC is not supported"
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, fresh, nullptr, 0, &more), CUDA_ERROR_INVALID_VALUE);
    const CUmemAccessDesc peer{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    more = alloc_params(64);
    more.accessDescs = &peer;
    more.accessDescCount = 1;
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, fresh, nullptr, 0, &more), CUDA_ERROR_INVALID_VALUE);  // no peers
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, fresh, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphMemory, IsInReachOfPeersThatItNames) {
  on_machine("2xh100", [] {
    CUcontext first = nullptr;
    OK(cuCtxGetCurrent(&first));
    const CUmemAccessDesc peer{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUgraph graph = a_graph();
    CUgraphNode shared = nullptr, own = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(64);
    OK(cuGraphAddMemAllocNode(&own, graph, nullptr, 0, &params));
    const CUdeviceptr alone = params.dptr;
    params.accessDescs = &peer;
    params.accessDescCount = 1;
    OK(cuGraphAddMemAllocNode(&shared, graph, nullptr, 0, &params));
    CUcontext second = context_on(1);
    EXPECT_EQ(reach(second, params.dptr), 0);
    OK(cuCtxSetCurrent(first));
    OK(cuGraphLaunch(instance_of(graph), nullptr));
    EXPECT_EQ(reach(first, params.dptr), 2);
    EXPECT_EQ(reach(first, alone), 2);
    EXPECT_EQ(reach(second, params.dptr), 2);
    EXPECT_EQ(reach(second, alone), 0);
  });
}

TEST(GraphMemory, CountsAgainstItsGpuUntilItIsTrimmed) {
  const std::string path = private_directory() + "/small-graphs.toml";
  std::ofstream(path) << "[[gpu]]\nmemory = \"128MiB\"\ncontext = \"32MiB\"\n";
  on_machine(path, [] {
    const size_t all = free_memory();
    CUgraph graph = a_graph();
    const Alloc alloc = add_alloc(graph, 40 * kMiB);
    add_free(graph, alloc.address, {alloc.node});
    EXPECT_EQ(free_memory(), all);  // an address, no memory
    CUgraphExec exec = instance_of(graph);
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
    OK(cuGraphUpload(exec, nullptr));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 40 * kMiB);
    const uint64_t reserved = told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    EXPECT_GE(reserved, 40 * kMiB);
    EXPECT_EQ(free_memory(), all - reserved);
    for (int i = 0; i < 4; ++i) OK(cuGraphLaunch(exec, nullptr));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), reserved);
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), reserved);  // kept for the next
    EXPECT_EQ(free_memory(), all - reserved);
    OK(cuDeviceGraphMemTrim(0));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
    EXPECT_EQ(free_memory(), all);
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 40 * kMiB);
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), reserved);
    cuuint64_t value = 1;  // "High watermark can only be reset to zero."
    EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value),
              CUDA_ERROR_INVALID_VALUE);
    value = 0;
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0u);
    EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuDeviceGraphMemTrim(5), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, nullptr),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(GraphMemory, OfTooMuchIsOutOfMemoryAtTheLaunch) {
  const std::string path = private_directory() + "/full-graphs.toml";
  std::ofstream(path) << "[[gpu]]\nmemory = \"128MiB\"\ncontext = \"32MiB\"\n";
  on_machine(path, [] {
    CUgraph graph = a_graph();
    const Alloc alloc = add_alloc(graph, 90 * kMiB);
    CUgraphExec exec = instance_of(graph);
    CUdeviceptr held = 0;
    OK(cuMemAlloc(&held, 20 * kMiB));
    EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuGraphUpload(exec, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(held));
    OK(cuGraphLaunch(exec, nullptr));
    // What is live or running is not trimmed.
    OK(cuDeviceGraphMemTrim(0));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 90 * kMiB);
    EXPECT_EQ(cuMemAlloc(&held, 20 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxSynchronize());
    OK(cuMemFree(alloc.address));
    OK(cuDeviceGraphMemTrim(0));
    OK(cuMemAlloc(&held, 20 * kMiB));
  });
}

TEST(GraphMemory, StaysWhileALaunchWaitsForItsTurn) {
  on_machine("1", [] {
    Word out(0);
    CUgraph graph = a_graph();
    const Alloc alloc = add_alloc(graph, 64);
    const CUgraphNode fill = add_memset(graph, alloc.address, 3, 1, {alloc.node});
    const CUgraphNode copy = add_copy(graph, out.address, alloc.address, 4, {fill});
    add_free(graph, alloc.address, {copy});
    CUgraphExec exec = instance_of(graph);
    CUstream stream = stream_of();
    Gate gate;
    OK(gate.hold(stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 512u);
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(out.get(), 3u);
    EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  });
}

TEST(GraphMemory, OfACaptureIsWhatIsAllocatedInTheStream) {
  on_machine("1", [] {
    Word out(0);
    CUstream stream = stream_of();
    CUdeviceptr memory = 0, kept = 0, outside = 0;
    OK(cuMemAllocAsync(&outside, 64, stream));
    Step step(function_named("step"), out.address, 2, 1);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&memory, 64, stream));
    OK(cuMemsetD32Async(memory, 4, 16, stream));
    OK(cuMemcpyDtoDAsync(out.address, memory, 4, stream));
    OK(cuMemFreeAsync(memory, stream));
    EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeAsync(outside, stream), CUDA_ERROR_INVALID_VALUE);  // no graph's
    CUmemoryPool pool = nullptr;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocFromPoolAsync(&kept, 64, pool, stream));
    OK(step.launch(stream));
    CUgraph graph = nullptr;
    OK(cuStreamEndCapture(stream, &graph));
    const Nodes nodes = nodes_of(graph);
    ASSERT_EQ(nodes.size(), 6u);
    EXPECT_EQ(type_of(nodes[0]), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    EXPECT_EQ(type_of(nodes[3]), CU_GRAPH_NODE_TYPE_MEM_FREE);
    EXPECT_EQ(type_of(nodes[4]), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    CUgraphExec exec = instance_of(graph);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(out.get(), 9u);
    OK(cuMemFreeAsync(kept, stream));
    OK(cuMemFreeAsync(outside, stream));
    OK(cuStreamSynchronize(stream));
  });
}

}  // namespace
}  // namespace gpufence::sim
