// Graphs as programs build them: nodes, the edges between them, and what each node is to do. A node's task is
// immutable and replaced as a whole, so that executable graphs and launches under way keep theirs.
//
// One lock guards all graphs, executable graphs and captures: programs must not use one graph from two
// threads
// ("graph objects are not internally synchronized"), but captures meet where nobody sees it. Lock order: this
// one, then the code table's, a context's `order`, queues, memory.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "copy.h"
#include "driver.h"
#include "launch.h"

namespace gpufence::sim {

struct Capture;  // capture.h
struct Graph;
struct GraphMemory;  // graph_memory.h
struct UserObject;

// ---- What a node does ----

struct KernelTask {
  CUfunction function = nullptr;  // as given; nullptr: `kernel` was
  CUkernel kernel = nullptr;
  Context* context = nullptr;
  KernelRequest request;           // its params and extra point into this object, see point_at()
  std::vector<uint8_t> packed;     // the parameters' values, one behind the other
  std::vector<size_t> offsets;     // of each in `packed`
  std::vector<void*> pointers;     // to each, what kernelParams is
  bool packed_by_program = false;  // it gave `extra` instead
  size_t packed_bytes = 0;         // what `extra` says
  std::vector<void*> extra;
  std::map<int, CUlaunchAttributeValue> attributes;  // by CUlaunchAttributeID

  // After the values came to be where they stay.
  void point_at();
  [[nodiscard]] CUfunction handle() const {
    return function != nullptr ? function : reinterpret_cast<CUfunction>(kernel);
  }
};
struct CopyTask {
  CUDA_MEMCPY3D params{};
  Context* context = nullptr;
  Box box;
};
struct FillTask {
  CUDA_MEMSET_NODE_PARAMS_v2 params{};
  Context* context = nullptr;
  Fill fill;
};
struct HostTask {
  CUhostFn function = nullptr;
  void* data = nullptr;
};
struct EventTask {
  CUevent event = nullptr;
};
struct AllocTask {
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 params{};
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphMemory> memory;
};
struct FreeTask {
  CUdeviceptr address = 0;
  std::shared_ptr<GraphMemory> memory;
  bool of_this_graph = false;
};
struct ConditionalTask {
  CUDA_CONDITIONAL_NODE_PARAMS params{};
  std::vector<CUgraph> bodies;
};
struct ChildTask {
  bool moved = false;
};
using Task = std::variant<std::monostate, KernelTask, CopyTask, FillTask, HostTask, EventTask, AllocTask,
                          FreeTask, ConditionalTask, ChildTask>;

// ---- Graphs ----

struct GraphNode;

struct GraphEdge {
  GraphNode* node = nullptr;
  CUgraphEdgeData data{};
};

struct GraphNode {
  std::atomic<uint32_t> live{0};
  Graph* graph = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<const Task> task;
  std::vector<GraphEdge> from, to;         // dependencies, dependents
  std::vector<Graph*> inner;               // a child graph, or a conditional node's bodies
  const GraphNode* cloned_from = nullptr;  // its handle; never followed
};

// References that a graph holds. Executable graphs and their launches hold them too.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences&) = delete;
  ~UserReferences();  // releases them
  std::map<UserObject*, unsigned> held;
};

struct Graph {
  std::atomic<uint32_t> live{0};
  std::vector<GraphNode*> nodes;  // in the order in which they were added
  GraphNode* owner = nullptr;     // whose child or body it is
  bool is_body = false;           // of a conditional node
  bool is_clone = false;
  bool is_moved = false;
  unsigned captures = 0;  // into it
  // How many executable graphs there are of it; they may outlive it.
  std::shared_ptr<unsigned> execs = std::make_shared<unsigned>(0);
  std::shared_ptr<UserReferences> references = std::make_shared<UserReferences>();
  std::vector<struct Condition*> conditions;
};

// What a conditional handle names. Its address is the handle.
struct Condition {
  std::atomic<uint32_t> live{0};
  Graph* graph = nullptr;
  Context* context = nullptr;
  unsigned initial = 0, flags = 0;
  bool has_node = false;
  std::atomic<unsigned> users{1};  // its graph and executable graphs
  std::atomic<unsigned> value{0};
};
void release_condition(Condition& condition);

struct GraphExec;

struct Graphs {
  std::mutex lock;
  Handles<Graph> graphs;
  Handles<GraphNode> nodes;
  Handles<GraphExec> execs;
  Handles<Condition> conditions;
};
Graphs& graph_table();

inline Graph* graph_of(CUgraph handle) {
  return graph_table().graphs.check(handle);
}
inline GraphNode* node_of(CUgraphNode handle) {
  return graph_table().nodes.check(handle);
}
inline CUgraph handle_of(const Graph* graph) {
  return reinterpret_cast<CUgraph>(const_cast<Graph*>(graph));
}
inline CUgraphNode handle_of(const GraphNode* node) {
  return reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(node));
}

// ---- All of these with the lock held ----

Graph* make_graph();
void destroy_graph(Graph& graph);
// CUDA_ERROR_INVALID_VALUE: the graph can't be copied (memory and conditional nodes, in children too).
CUresult clone_graph(const Graph& from, Graph** out);
// True if a node anywhere in it, children included, is of such a type.
bool has_memory_nodes(const Graph& graph);
bool has_conditional_nodes(const Graph& graph);

// Adds a node that depends on those edges. CUDA_ERROR_INVALID_VALUE: the graph takes no such node, or the
// edges are wrong.
CUresult add_node(Graph& graph, CUgraphNodeType type, Task task, const std::vector<GraphEdge>& from,
                  GraphNode** out);
// What a program gives as dependencies. `data` may be nullptr.
CUresult read_edges(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                    std::vector<GraphEdge>& out);
bool edge_data_valid(const CUgraphEdgeData& data);
inline bool is_default(const CUgraphEdgeData& data) {
  return data.from_port == 0 && data.to_port == 0 && data.type == 0;
}
// Whether the node may come behind that one, by that edge.
bool edge_fits(CUgraphNodeType from, CUgraphNodeType to, const CUgraphEdgeData& data);
void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);

// The task of a kernel launch; checked as a launch is.
CUresult kernel_task(Context& context, CUfunction function, CUkernel kernel, const KernelRequest& request,
                     KernelTask& out);
CUresult plan_task(const KernelTask& task, std::shared_ptr<const KernelPlan>* out);
CUresult copy_task(Context& context, const CUDA_MEMCPY3D& params, CopyTask& out);
CUresult fill_task(Context& context, const CUDA_MEMSET_NODE_PARAMS_v2& params, FillTask& out);
CUresult alloc_task(Graph& graph, CUDA_MEM_ALLOC_NODE_PARAMS_v1& params, AllocTask& out);
CUresult event_task(CUevent event, EventTask& out);
CUresult free_task(Graph& graph, CUdeviceptr address, FreeTask& out);

// A task in place of a node's, of the same kind, with what of the old one stays. CUDA_ERROR_NOT_SUPPORTED and
// CUDA_ERROR_INVALID_VALUE for kinds that can't be changed.
CUresult new_task(Graph& graph, const GraphNode& node, const Task& old, CUgraphNodeParams& params,
                  std::shared_ptr<const Task>& out);
// The parameters of one kind's own calls, as cuGraphAddNode takes them.
CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1& given);
CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v2& given);
CUgraphNodeParams copy_params(const CUDA_MEMCPY3D& given, CUcontext context);
CUgraphNodeParams fill_params(const CUDA_MEMSET_NODE_PARAMS& given, CUcontext context);
CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS& given);
CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event);
// "All unused bytes must be set to zero" (cuGraphAddNode).
bool rest_is_zero(const CUgraphNodeParams& params);

// Says GF601 once, with what works instead, and answers CUDA_ERROR_NOT_SUPPORTED.
CUresult lacks(const char* what, const char* instead);

// Runs body under the lock.
template <class Body>
CUresult with_graphs(const char* name, Body&& body) {
  return initialised(name, [&] {
    std::lock_guard<std::mutex> held(graph_table().lock);
    return body();
  });
}
template <class Body>
CUresult with_graph(const char* name, CUgraph handle, Body&& body) {
  return with_graphs(name, [&] {
    Graph* graph = graph_of(handle);
    return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*graph);
  });
}
template <class Body>
CUresult with_node(const char* name, CUgraphNode handle, Body&& body) {
  return with_graphs(name, [&] {
    GraphNode* node = node_of(handle);
    return node == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*node);
  });
}

// Device code sets a condition; CUDA_SUCCESS or why not. Takes no lock.
bool set_condition(uint64_t handle, unsigned value);

}  // namespace gpufence::sim
