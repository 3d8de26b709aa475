// Graphs, node by node: what they are made of, when they run, and the memory that they own.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "driver.h"
#include "kernels.h"

namespace conform {
namespace {

using Nodes = std::vector<CUgraphNode>;

// What host nodes wrote, in the order in which they ran.
class Log {
 public:
  CUDA_HOST_NODE_PARAMS note(char letter) {
    entries_.push_back({this, letter});
    return {write, &entries_.back()};
  }
  std::string read() {
    std::lock_guard<std::mutex> held(lock_);
    return text_;
  }

 private:
  struct Entry {
    Log* log;
    char letter;
  };
  static void write(void* data) {
    const auto* entry = static_cast<Entry*>(data);
    std::lock_guard<std::mutex> held(entry->log->lock_);
    entry->log->text_ += entry->letter;
  }
  std::mutex lock_;
  std::string text_;
  std::deque<Entry> entries_;
};

class Graph {
 public:
  Graph() { OK(cuGraphCreate(&handle_, 0)); }
  explicit Graph(CUgraph made) : handle_(made) {}
  Graph(const Graph&) = delete;
  ~Graph() {
    if (handle_ != nullptr) {
      OK(cuGraphDestroy(handle_));
    }
  }
  operator CUgraph() const { return handle_; }

  CUgraphNode empty(const Nodes& after = {}) {
    CUgraphNode node = nullptr;
    OK(cuGraphAddEmptyNode(&node, handle_, after.data(), after.size()));
    return node;
  }
  CUgraphNode host(const CUDA_HOST_NODE_PARAMS& params, const Nodes& after = {}) {
    CUgraphNode node = nullptr;
    OK(cuGraphAddHostNode(&node, handle_, after.data(), after.size(), &params));
    return node;
  }
  template <class... Arguments>
  CUgraphNode kernel(CUfunction function, unsigned threads, const Nodes& after, Arguments... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = threads;
    params.kernelParams = pointers;
    CUgraphNode node = nullptr;
    OK(cuGraphAddKernelNode(&node, handle_, after.data(), after.size(), &params));
    return node;
  }
  CUgraphNode set(CUdeviceptr address, unsigned value, size_t words, const Nodes& after = {}) {
    const CUDA_MEMSET_NODE_PARAMS params = set_params(address, value, words);
    CUgraphNode node = nullptr;
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    OK(cuGraphAddMemsetNode(&node, handle_, after.data(), after.size(), &params, context));
    return node;
  }
  static CUDA_MEMSET_NODE_PARAMS set_params(CUdeviceptr address, unsigned value, size_t words) {
    CUDA_MEMSET_NODE_PARAMS params{};
    params.dst = address;
    params.value = value;
    params.elementSize = 4;
    params.width = words;
    params.height = 1;
    return params;
  }
  CUdeviceptr allocate(size_t bytes, CUgraphNode* node, const Nodes& after = {}) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = bytes;
    OK(cuGraphAddMemAllocNode(node, handle_, after.data(), after.size(), &params));
    return params.dptr;
  }
  CUresult free(CUdeviceptr address, const Nodes& after) {
    CUgraphNode node = nullptr;
    return cuGraphAddMemFreeNode(&node, handle_, after.data(), after.size(), address);
  }
  size_t count() const {
    size_t nodes = 0;
    OK(cuGraphGetNodes(handle_, nullptr, &nodes));
    return nodes;
  }

 private:
  CUgraph handle_ = nullptr;
};

class Exec {
 public:
  explicit Exec(CUgraph graph, unsigned long long flags = 0) {
    OK(cuGraphInstantiateWithFlags(&handle_, graph, flags));
  }
  Exec(const Exec&) = delete;
  ~Exec() { OK(cuGraphExecDestroy(handle_)); }
  operator CUgraphExec() const { return handle_; }
  void run() const {
    Stream stream;
    OK(cuGraphLaunch(handle_, stream));
    OK(cuStreamSynchronize(stream));
  }

 private:
  CUgraphExec handle_ = nullptr;
};

size_t edges_of(CUgraph graph) {
  size_t edges = 0;
  OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  return edges;
}

CUgraphNodeType type_of(CUgraphNode node) {
  CUgraphNodeType type{};
  OK(cuGraphNodeGetType(node, &type));
  return type;
}

#define NEEDS_GRAPH_MEMORY \
  OK(cuInit(0));           \
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 1, "memory pools")

CONFORMS(Graphs, NodesWaitForTheirDependencies,
         "CUDA C++ Programming Guide, Graph Structure: an operation forms a node in a graph, the "
         "dependencies between the operations are the edges; an operation may be scheduled at any time once "
         "the nodes on which it depends are complete") {
  Primary here;
  Log log;
  Graph graph;
  const CUgraphNode first = graph.host(log.note('a'));
  const CUgraphNode left = graph.host(log.note('b'), {first}), right = graph.host(log.note('b'), {first});
  graph.host(log.note('c'), {left, right});
  Exec(graph).run();
  EXPECT_EQ(log.read(), "abbc");
}

CONFORMS(Graphs, NodesWithoutDependenciesAreRoots,
         "cuda.h, cuGraphAddEmptyNode: it is possible for numDependencies to be 0, in which case the node "
         "will be placed at the root of the graph") {
  Primary here;
  Graph graph;
  const CUgraphNode root = graph.empty();
  graph.empty({root});
  CUgraphNode found = nullptr;
  size_t roots = 0;
  OK(cuGraphGetRootNodes(graph, nullptr, &roots));
  ASSERT_EQ(roots, 1u);
  OK(cuGraphGetRootNodes(graph, &found, &roots));
  EXPECT_EQ(found, root);
}

CONFORMS(Graphs, DependenciesAreGivenOnce,
         "cuda.h, cuGraphAddEmptyNode: dependencies may not have any duplicate entries; "
         "CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  Graph graph;
  const CUgraphNode root = graph.empty();
  const CUgraphNode twice[] = {root, root};
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Graphs, KernelNodesCopyTheirParameters,
         "cuda.h, cuGraphAddKernelNode: each pointer, from kernelParams[0] to kernelParams[N-1], points to "
         "the region of memory from which the actual parameter will be copied") {
  Primary here;
  Module module(kKernels);
  Memory words(8 * 4);
  Graph graph;
  {
    CUdeviceptr address = words;
    uint32_t value = 5;
    void* pointers[] = {&address, &value};
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = module["fill"];
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 8;
    params.kernelParams = pointers;
    CUgraphNode node = nullptr;
    OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    address = 0;
    value = 6;
  }
  Exec(graph).run();
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 5));
}

CONFORMS(Graphs, MemsetNodesSetElements,
         "cuda.h, cuGraphAddMemsetNode: the element size must be 1, 2, or 4 bytes; when the graph is "
         "launched, the node will perform the memset described by memsetParams") {
  Primary here;
  Memory words(16);
  words.write(std::vector<uint32_t>(4, 9));
  Graph graph;
  graph.set(words, 7, 3);
  CUDA_MEMSET_NODE_PARAMS odd = Graph::set_params(words, 1, 1);
  odd.elementSize = 3;
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &odd, here.context), CUDA_ERROR_INVALID_VALUE);
  Exec(graph).run();
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{7, 7, 7, 9}));
}

CONFORMS(Graphs, MemcpyNodesCopyBoxes,
         "cuda.h, cuGraphAddMemcpyNode: when the graph is launched, the node will perform the memcpy "
         "described by copyParams; see cuMemcpy3D()") {
  Primary here;
  Memory from(16), to(16);
  from.write(std::vector<uint32_t>{1, 2, 3, 4});
  to.write(std::vector<uint32_t>(4, 0));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcXInBytes = 4;
  copy.dstXInBytes = 8;
  copy.WidthInBytes = 8;
  copy.Height = copy.Depth = 1;
  Graph graph;
  CUgraphNode node = nullptr;
  OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, here.context));
  from.write(std::vector<uint32_t>{1, 20, 30, 4});  // read at the launch
  Exec(graph).run();
  EXPECT_EQ(to.read(), (std::vector<uint32_t>{0, 0, 20, 30}));
}

CONFORMS(Graphs, ChildGraphsAreClonedIntoTheirNode,
         "cuda.h, cuGraphAddChildGraphNode: the node executes an embedded child graph; the child graph is "
         "cloned in this call") {
  Primary here;
  Log log;
  Graph child, parent;
  child.host(log.note('c'));
  CUgraphNode node = nullptr;
  OK(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  child.host(log.note('x'));  // comes too late
  parent.host(log.note('p'), {node});
  Exec(parent).run();
  EXPECT_EQ(log.read(), "cp");
}

CONFORMS(Graphs, ClonesAreIndependent,
         "cuda.h, cuGraphClone: all parameters are copied into the cloned graph; the original graph may be "
         "modified after this call without affecting the clone") {
  Primary here;
  Log log;
  Graph original;
  original.host(log.note('a'));
  CUgraph copied = nullptr;
  OK(cuGraphClone(&copied, original));
  Graph clone(copied);
  original.host(log.note('x'));
  EXPECT_EQ(clone.count(), 1u);
  Exec(clone).run();
  EXPECT_EQ(log.read(), "a");
}

CONFORMS(Graphs, NodesAreFoundInAClone,
         "cuda.h, cuGraphNodeFindInClone: the node in hClonedGraph corresponding to hOriginalNode in the "
         "original graph") {
  Primary here;
  Graph original;
  const CUgraphNode first = original.empty();
  const CUgraphNode second = original.empty({first});
  CUgraph copied = nullptr;
  OK(cuGraphClone(&copied, original));
  Graph clone(copied);
  CUgraphNode one = nullptr, other = nullptr, from = nullptr, to = nullptr;
  OK(cuGraphNodeFindInClone(&one, first, clone));
  OK(cuGraphNodeFindInClone(&other, second, clone));
  size_t edges = 1;
  OK(cuGraphGetEdges(clone, &from, &to, nullptr, &edges));
  EXPECT_EQ(from, one);
  EXPECT_EQ(to, other);
  EXPECT_NE(one, first);
}

CONFORMS(Graphs, ListsOfNodesArePaddedWithNull,
         "cuda.h, cuGraphGetNodes: nodes may be NULL, in which case this function will return the number of "
         "nodes; if numNodes is higher than the actual number of nodes, the remaining entries "
         "will be set to NULL, and the number actually obtained will be returned") {
  Primary here;
  Graph graph;
  const CUgraphNode only = graph.empty();
  CUgraphNode nodes[3] = {reinterpret_cast<CUgraphNode>(1), reinterpret_cast<CUgraphNode>(1),
                          reinterpret_cast<CUgraphNode>(1)};
  size_t count = 3;
  OK(cuGraphGetNodes(graph, nodes, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(nodes[0], only);
  EXPECT_EQ(nodes[1], nullptr);
  EXPECT_EQ(nodes[2], nullptr);
}

CONFORMS(Graphs, AnEdgeIsAddedOnce,
         "cuda.h, cuGraphAddDependencies: specifying an existing dependency will return an error") {
  Primary here;
  Graph graph;
  const CUgraphNode first = graph.empty(), second = graph.empty();
  OK(cuGraphAddDependencies(graph, &first, &second, nullptr, 1));
  EXPECT_EQ(edges_of(graph), 1u);
  EXPECT_NE(cuGraphAddDependencies(graph, &first, &second, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(edges_of(graph), 1u);
}

CONFORMS(Graphs, OnlyEdgesThatExistAreRemoved,
         "cuda.h, cuGraphRemoveDependencies: specifying an edge that does not exist in the graph, with data "
         "matching edgeData, results in an error") {
  Primary here;
  Graph graph;
  const CUgraphNode first = graph.empty(), second = graph.empty({first});
  EXPECT_NE(cuGraphRemoveDependencies(graph, &second, &first, nullptr, 1), CUDA_SUCCESS);
  OK(cuGraphRemoveDependencies(graph, &first, &second, nullptr, 1));
  EXPECT_EQ(edges_of(graph), 0u);
}

CONFORMS(Graphs, ANodeTakesItsEdgesWithIt,
         "cuda.h, cuGraphDestroyNode: removes hNode from its graph; this operation also severs any "
         "dependencies of other nodes on hNode and vice versa") {
  Primary here;
  Graph graph;
  const CUgraphNode first = graph.empty(), second = graph.empty({first});
  graph.empty({second});
  OK(cuGraphDestroyNode(second));
  EXPECT_EQ(graph.count(), 2u);
  EXPECT_EQ(edges_of(graph), 0u);
}

CONFORMS(Graphs, NodesTellTheirType, "cuda.h, cuGraphNodeGetType: returns the node type of hNode in type") {
  Primary here;
  Log log;
  Graph graph;
  Module module(kKernels);
  Memory word(4);
  EXPECT_EQ(type_of(graph.empty()), CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_EQ(type_of(graph.host(log.note('x'))), CU_GRAPH_NODE_TYPE_HOST);
  EXPECT_EQ(type_of(graph.set(word, 1, 1)), CU_GRAPH_NODE_TYPE_MEMSET);
  EXPECT_EQ(type_of(graph.kernel(module["fill"], 1, {}, CUdeviceptr{word}, 1u)), CU_GRAPH_NODE_TYPE_KERNEL);
}

CONFORMS(Graphs, LaunchesAreWorkOfTheirStream,
         "cuda.h, cuGraphLaunch: each launch is ordered behind any previous work in hStream") {
  Primary here;
  Stream stream;
  Log log;
  Diary diary;
  Graph graph;
  graph.host(log.note('g'));
  Exec exec(graph);
  Gate gate;
  OK(gate.hold(stream));
  OK(cuGraphLaunch(exec, stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(log.read(), "");
  gate.open();
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(log.read(), "g");
}

CONFORMS(Graphs, OneInstanceOfAnExecRunsAtATime,
         "cuda.h, cuGraphLaunch: only one instance of hGraphExec may be executing at a time; each launch is "
         "ordered behind any previous launches of hGraphExec") {
  Primary here;
  Stream first, second;
  Log log;
  Graph graph;
  graph.host(log.note('g'));
  Exec exec(graph);
  Gate gate;
  OK(gate.hold(first));
  OK(cuGraphLaunch(exec, first));
  OK(cuGraphLaunch(exec, second));
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(log.read(), "");
  gate.open();
  OK(cuStreamSynchronize(second));
  EXPECT_EQ(log.read(), "gg");
}

CONFORMS(Graphs, AnExecMayGoInFlight,
         "cuda.h, cuGraphExecDestroy: if the executable graph is in-flight, it will not be terminated, but "
         "rather freed asynchronously on completion") {
  Primary here;
  Stream stream;
  Log log;
  Gate gate;
  {
    Graph graph;
    graph.host(log.note('g'));
    Exec exec(graph);
    OK(gate.hold(stream));
    OK(cuGraphLaunch(exec, stream));
  }
  gate.open();
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(log.read(), "g");
}

CONFORMS(Graphs, AnExecIsASnapshot,
         "CUDA C++ Programming Guide, CUDA Graphs, Instantiation: takes a snapshot of the graph template, "
         "validates it, and performs much of the setup and initialization of work") {
  Primary here;
  Log log;
  Graph graph;
  graph.host(log.note('a'));
  Exec exec(graph);
  graph.host(log.note('x'));
  exec.run();
  EXPECT_EQ(log.read(), "a");
}

CONFORMS(Graphs, DisabledNodesAreAsIfEmpty,
         "cuda.h, cuGraphNodeSetEnabled: disabled nodes are functionally equivalent to empty nodes until "
         "they are reenabled; currently only kernel, memset and memcpy nodes are supported") {
  Primary here;
  Memory word(4);
  OK(cuMemsetD32(word, 1, 1));
  Graph graph;
  const CUgraphNode node = graph.set(word, 2, 1);
  Exec exec(graph);
  unsigned enabled = 0;
  OK(cuGraphNodeGetEnabled(exec, node, &enabled));
  EXPECT_EQ(enabled, 1u);
  OK(cuGraphNodeSetEnabled(exec, node, 0));
  exec.run();
  EXPECT_EQ(word_at(word), 1u);
  OK(cuGraphNodeSetEnabled(exec, node, 1));
  exec.run();
  EXPECT_EQ(word_at(word), 2u);
  Log log;
  Graph other;
  const CUgraphNode host = other.host(log.note('x'));
  Exec others(other);
  EXPECT_NE(cuGraphNodeSetEnabled(others, host, 0), CUDA_SUCCESS);
}

CONFORMS(Graphs, ParametersOfAnExecAreItsOwn,
         "cuda.h, cuGraphExecMemsetNodeSetParams: updates the work represented by hNode in hGraphExec as "
         "though hNode had contained memsetParams at instantiation; hNode is not modified by this call") {
  Primary here;
  Memory word(4);
  Graph graph;
  const CUgraphNode node = graph.set(word, 2, 1);
  Exec exec(graph);
  const CUDA_MEMSET_NODE_PARAMS changed = Graph::set_params(word, 3, 1);
  OK(cuGraphExecMemsetNodeSetParams(exec, node, &changed, here.context));
  exec.run();
  EXPECT_EQ(word_at(word), 3u);
  CUDA_MEMSET_NODE_PARAMS told{};
  OK(cuGraphMemsetNodeGetParams(node, &told));
  EXPECT_EQ(told.value, 2u);
}

CONFORMS(Graphs, AnExecTakesTheParametersOfAnAlikeGraph,
         "cuda.h, cuGraphExecUpdate: updates the node parameters in the instantiated graph with the node "
         "parameters in a topologically identical graph") {
  Primary here;
  Memory word(4);
  Graph before, after;
  before.set(word, 2, 1);
  after.set(word, 4, 1);
  Exec exec(before);
  CUgraphExecUpdateResultInfo info{};
  OK(cuGraphExecUpdate(exec, after, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  exec.run();
  EXPECT_EQ(word_at(word), 4u);
}

CONFORMS(Graphs, AnotherTopologyIsNoUpdate,
         "cuda.h, cuGraphExecUpdate: sets the result member of resultInfo to "
         "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED if the count of nodes directly in hGraphExec and "
         "hGraph differ, in which case "
         "resultInfo->errorNode is set to NULL; CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE") {
  Primary here;
  Memory word(4);
  Graph before, after;
  before.set(word, 2, 1);
  after.set(word, 4, 1, {after.set(word, 3, 1)});
  Exec exec(before);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(cuGraphExecUpdate(exec, after, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, nullptr);
}

CONFORMS(Graphs, EventsAreRecordedByNodes,
         "cuda.h, cuGraphAddEventRecordNode: each launch of the graph will record event to capture execution "
         "of the node's dependencies") {
  Primary here;
  Event start, end;
  Log log;
  Graph graph;
  CUgraphNode first = nullptr, last = nullptr;
  OK(cuGraphAddEventRecordNode(&first, graph, nullptr, 0, start));
  const CUgraphNode between = graph.host(log.note('h'), {first});
  OK(cuGraphAddEventRecordNode(&last, graph, &between, 1, end));
  float milliseconds = -1;
  Exec exec(graph);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);  // not recorded yet
  exec.run();
  OK(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
}

CONFORMS(Graphs, DotFilesDescribeTheGraph,
         "cuda.h, cuGraphDebugDotPrint: write to path a DOT formatted description of the graph; includes the "
         "graph topology, node types, node id, kernel names") {
  Primary here;
  Module module(kKernels);
  Memory word(4);
  Graph graph;
  graph.kernel(module["fill"], 1, {graph.empty()}, CUdeviceptr{word}, 1u);
  const std::string path =
      std::filesystem::temp_directory_path() / ("conform-" + std::to_string(getpid()) + ".dot");
  OK(cuGraphDebugDotPrint(graph, path.c_str(), 0));
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::filesystem::remove(path);
  EXPECT_NE(text.find("digraph"), std::string::npos);
  EXPECT_NE(text.find("->"), std::string::npos);
  EXPECT_NE(text.find("fill"), std::string::npos);
}

CONFORMS(
    Graphs, UserObjectsGoWithTheirLastReference,
    "CUDA C++ Programming Guide, CUDA User Objects: when a reference is owned by a graph, it is released "
    "when the graph is destroyed; the destructor is called when the reference count reaches zero") {
  Primary here;
  static std::atomic<int> destroyed{0};
  destroyed = 0;
  CUuserObject object = nullptr;
  OK(cuUserObjectCreate(
      &object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  {
    Graph graph;
    graph.empty();
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    EXPECT_EQ(destroyed, 0);
  }
  OK(cuCtxSynchronize());
  while (destroyed == 0) std::this_thread::yield();  // "cannot be waited on by any CUDA API"
  EXPECT_EQ(destroyed, 1);
}

CONFORMS(Graphs, UserObjectsNeedTheirFlag,
         "cuda.h, cuUserObjectCreate: currently it is required to pass CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, "
         "which is the only defined flag") {
  CUuserObject object = nullptr;
  OK(cuInit(0));
  EXPECT_EQ(cuUserObjectCreate(
                &object, nullptr, [](void*) {}, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Graphs, ConditionalBodiesRunIfTheValueIsNotZero,
         "cuda.h, cuGraphConditionalHandleCreate: defaultLaunchValue applied at the beginning of each graph "
         "execution if CU_GRAPH_COND_ASSIGN_DEFAULT is set; CU_GRAPH_COND_TYPE_IF: the body is executed "
         "once if the value is non-zero") {
  Primary here;
  Memory words(8);
  words.write(std::vector<uint32_t>{0, 0});
  Graph graph;
  for (const unsigned value : {0u, 1u}) {
    CUgraphConditionalHandle handle{};
    OK(cuGraphConditionalHandleCreate(&handle, graph, here.context, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = here.context;
    CUgraphNode node = nullptr;
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    ASSERT_NE(params.conditional.phGraph_out, nullptr);
    const CUDA_MEMSET_NODE_PARAMS set = Graph::set_params(words + 4 * value, 77, 1);
    CUgraphNode inside = nullptr;
    OK(cuGraphAddMemsetNode(&inside, params.conditional.phGraph_out[0], nullptr, 0, &set, here.context));
  }
  Exec(graph).run();
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{0, 77}));
}

// ---- Memory that graphs own ----

CONFORMS(Graphs, AllocationsKeepTheirAddress,
         "cuda.h, cuGraphAddMemAllocNode: returns the address of the allocation in nodeParams.dptr; the "
         "allocation's address remains fixed across instantiations and launches") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Memory result(4);
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  EXPECT_NE(memory, 0u);
  const CUgraphNode set = graph.set(memory, 31, 1, {made});
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
  copy.dstDevice = result;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode copied = nullptr;
  OK(cuGraphAddMemcpyNode(&copied, graph, &set, 1, &copy, here.context));
  OK(graph.free(memory, {copied}));
  for (int i = 0; i < 2; ++i) {
    Exec exec(graph);
    OK(cuMemsetD32(result, 0, 1));
    exec.run();
    exec.run();
    EXPECT_EQ(word_at(result), 31u);
  }
  OK(cuDeviceGraphMemTrim(0));
}

CONFORMS(Graphs, UnfreedAllocationsForbidAnotherLaunch,
         "cuda.h, cuGraphLaunch: if any allocations created by hGraphExec remain unfreed and it was not "
         "instantiated with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, the launch will fail with "
         "CUDA_ERROR_INVALID_VALUE") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Stream stream;
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  graph.set(memory, 8, 1, {made});
  Exec exec(graph);
  OK(cuGraphLaunch(exec, stream));
  EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(memory), 8u);
  OK(cuMemFreeAsync(memory, stream));  // "passing the allocation to cuMemFreeAsync"
  OK(cuGraphLaunch(exec, stream));
  OK(cuMemFreeAsync(memory, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0));
}

CONFORMS(Graphs, LaunchesMayFreeByThemselves,
         "cuda.h, cuGraphAddMemAllocNode: CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH makes each launch "
         "behave as though it called cuMemFreeAsync for every unfreed allocation") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Stream stream;
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  {
    Exec exec(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
  }
  OK(cuDeviceGraphMemTrim(0));
}

CONFORMS(Graphs, OnlyGraphAllocationsAreFreedByNodes,
         "cuda.h, cuGraphAddMemFreeNode: CUDA_ERROR_INVALID_VALUE if the user attempts to free an allocation "
         "twice in the same graph, an address that was not returned by an allocation node, an invalid "
         "address") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Memory plain(kMiB);
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  OK(graph.free(memory, {made}));
  EXPECT_EQ(graph.free(memory, {made}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(graph.free(plain, {made}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(graph.free(16, {made}), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Graphs, GraphsWithMemoryAreNotCloned,
         "cuda.h, cuGraphClone: cloning is not supported for graphs which contain memory allocation nodes, "
         "memory free nodes, or conditional nodes") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  OK(graph.free(memory, {made}));
  CUgraph clone = nullptr;
  EXPECT_NE(cuGraphClone(&clone, graph), CUDA_SUCCESS);
}

CONFORMS(Graphs, GraphsWithMemoryKeepTheirNodes,
         "cuda.h, cuGraphAddMemAllocNode: nodes and edges of the graph cannot be deleted; "
         "cuGraphDestroyNode: any attempt to do so will return an error") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  const CUgraphNode last = graph.empty({made});
  OK(graph.free(memory, {made}));
  EXPECT_NE(cuGraphDestroyNode(last), CUDA_SUCCESS);
  EXPECT_NE(cuGraphRemoveDependencies(graph, &made, &last, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(graph.count(), 3u);
}

CONFORMS(
    Graphs, GraphsWithMemoryHaveOneInstance,
    "cuda.h, cuGraphAddMemFreeNode: only one instantiation of the graph may exist at any point in time") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(kMiB, &made);
  OK(graph.free(memory, {made}));
  {
    Exec first(graph);
    CUgraphExec second = nullptr;
    EXPECT_NE(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_SUCCESS);
  }
  Exec later(graph);
}

CONFORMS(Graphs, UnusedMemoryIsTrimmed,
         "cuda.h, cuDeviceGraphMemTrim: blocks which are not in use by a graph that is either currently "
         "executing or scheduled to execute are freed back to the operating system; "
         "CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  const auto told = [](CUgraphMem_attribute which) {
    cuuint64_t value = 0;
    OK(cuDeviceGetGraphMemAttribute(0, which, &value));
    return value;
  };
  OK(cuDeviceGraphMemTrim(0));
  Graph graph;
  CUgraphNode made = nullptr;
  const CUdeviceptr memory = graph.allocate(64 * kMiB, &made);
  OK(graph.free(memory, {graph.set(memory, 1, 1, {made})}));
  Exec exec(graph);
  exec.run();
  EXPECT_GE(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 64 * kMiB);
  EXPECT_GE(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 64 * kMiB);
  OK(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(told(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
}

CONFORMS(Graphs, WatermarksAreResetToZero,
         "cuda.h, cuDeviceSetGraphMemAttribute: CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: high watermark can only be "
         "reset to zero") {
  NEEDS_GRAPH_MEMORY;
  Primary here;
  cuuint64_t zero = 0, one = 1;
  OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace conform
