// Graphs: their nodes, the edges between them, copies, and what programs ask of all that. What nodes do is in
// graph_node.cpp, what becomes of a graph that is run in graph_exec.cpp.
#include "graph.h"

#include <algorithm>

#include "graph_memory.h"
#include "user_object.h"

namespace gpufence::sim {

Graphs& graph_table() {
  static auto* made = new Graphs;  // leaked, as all state that exit handlers reach
  return *made;
}

CUresult lacks(const char* what, const char* instead) {
  say_once(std::string("the simulator has no ") + what + ": it answered CUDA_ERROR_NOT_SUPPORTED; " +
           instead);
  return CUDA_ERROR_NOT_SUPPORTED;
}

Graph* make_graph() {
  Graph* graph = graph_table().graphs.take();
  if (graph != nullptr) graph_table().graphs.publish(graph);
  return graph;
}

namespace {

void destroy_node(GraphNode& node) {
  for (const GraphEdge& edge : node.from)
    std::erase_if(edge.node->to, [&](const GraphEdge& back) { return back.node == &node; });
  for (const GraphEdge& edge : node.to)
    std::erase_if(edge.node->from, [&](const GraphEdge& back) { return back.node == &node; });
  for (Graph* inner : node.inner) destroy_graph(*inner);
  if (const auto* alloc = std::get_if<AllocTask>(node.task.get())) alloc->memory->owner = nullptr;
  if (const auto* freed = std::get_if<FreeTask>(node.task.get()); freed != nullptr && !freed->of_this_graph)
    freed->memory->freed_by_another = false;
  std::erase(node.graph->nodes, &node);
  node.from = {};
  node.to = {};
  node.inner = {};
  node.task = nullptr;
  graph_table().nodes.retire(&node);
}

bool any_node(const Graph& graph, bool (*is)(CUgraphNodeType)) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode* node) {
    return is(node->type) || std::any_of(node->inner.begin(), node->inner.end(),
                                         [&](const Graph* inner) { return any_node(*inner, is); });
  });
}

bool is_memory(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

// Of one graph, not of its children.
bool holds_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const GraphNode* node) { return is_memory(node->type); });
}

// "Allowed node types are kernel nodes, empty nodes, child graphs, memsets, memcopies, and conditionals. This
// applies recursively to child graphs and conditional bodies" (CUDA_CONDITIONAL_NODE_PARAMS).
bool fits_in_body(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
         type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
         type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

bool in_body(const Graph& graph) {
  return graph.is_body || (graph.owner != nullptr && in_body(*graph.owner->graph));
}

}  // namespace

bool has_memory_nodes(const Graph& graph) {
  return any_node(graph, is_memory);
}
bool has_conditional_nodes(const Graph& graph) {
  return any_node(graph, [](CUgraphNodeType type) { return type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
}

void destroy_graph(Graph& graph) {
  while (!graph.nodes.empty()) destroy_node(*graph.nodes.back());
  for (Condition* condition : graph.conditions) release_condition(*condition);
  graph.conditions = {};
  graph.references = nullptr;
  graph_table().graphs.retire(&graph);
}

CUresult clone_graph(const Graph& from, Graph** out) {
  if (has_memory_nodes(from) || has_conditional_nodes(from)) return CUDA_ERROR_INVALID_VALUE;
  Graph* graph = make_graph();
  if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  graph->is_clone = true;
  retain_all(*from.references, *graph->references);
  std::map<const GraphNode*, GraphNode*> copies;
  for (const GraphNode* node : from.nodes) {
    GraphNode* copy = graph_table().nodes.take();
    if (copy == nullptr) {
      destroy_graph(*graph);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy->graph = graph;
    copy->type = node->type;
    copy->task = node->task;
    copy->cloned_from = node;
    graph->nodes.push_back(copy);
    graph_table().nodes.publish(copy);
    copies[node] = copy;
    for (const Graph* inner : node->inner) {
      Graph* child = nullptr;
      if (const CUresult bad = clone_graph(*inner, &child); bad != CUDA_SUCCESS) {
        destroy_graph(*graph);
        return bad;
      }
      child->owner = copy;
      copy->inner.push_back(child);
    }
  }
  for (const GraphNode* node : from.nodes)
    for (const GraphEdge& edge : node->from) connect(*copies[edge.node], *copies[node], edge.data);
  *out = graph;
  return CUDA_SUCCESS;
}

void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data) {
  from.to.push_back({&to, data});
  to.from.push_back({&from, data});
}

bool edge_data_valid(const CUgraphEdgeData& data) {
  if (data.to_port != 0 || data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
      std::any_of(std::begin(data.reserved), std::end(data.reserved), [](unsigned char c) { return c != 0; }))
    return false;
  // The two other ports "must be used with edge type CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC", and it with
  // them.
  const bool programmatic = data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return data.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && programmatic == (data.from_port != 0);
}

bool edge_fits(CUgraphNodeType from, CUgraphNodeType to, const CUgraphEdgeData& data) {
  // "It may only be used between kernel nodes."
  return is_default(data) || (from == CU_GRAPH_NODE_TYPE_KERNEL && to == CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult read_edges(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                    std::vector<GraphEdge>& out) {
  if (nodes == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = node_of(nodes[i]);
    if (node == nullptr || node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    for (const GraphEdge& edge : out)
      if (edge.node == node) return CUDA_ERROR_INVALID_VALUE;
    GraphEdge edge{node, {}};
    if (data != nullptr) edge.data = data[i];
    if (!edge_data_valid(edge.data)) return CUDA_ERROR_INVALID_VALUE;
    out.push_back(edge);
  }
  return CUDA_SUCCESS;
}

CUresult add_node(Graph& graph, CUgraphNodeType type, Task task, const std::vector<GraphEdge>& from,
                  GraphNode** out) {
  if (in_body(graph) && !fits_in_body(type)) return CUDA_ERROR_INVALID_VALUE;
  // "Allocation and free nodes cannot be added to the returned graph" (cuGraphChildGraphNodeGetGraph).
  if (graph.owner != nullptr && is_memory(type)) return CUDA_ERROR_INVALID_VALUE;
  for (const GraphEdge& edge : from)
    if (!edge_fits(edge.node->type, type, edge.data)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = graph_table().nodes.take();
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  node->graph = &graph;
  node->type = type;
  auto kept = std::make_shared<Task>(std::move(task));
  if (auto* kernel = std::get_if<KernelTask>(kept.get())) kernel->point_at();
  if (const auto* freed = std::get_if<FreeTask>(kept.get()))
    (freed->of_this_graph ? freed->memory->freed_by_owner : freed->memory->freed_by_another) = true;
  node->task = std::move(kept);
  graph.nodes.push_back(node);
  for (const GraphEdge& edge : from) connect(*edge.node, *node, edge.data);
  graph_table().nodes.publish(node);
  *out = node;
  return CUDA_SUCCESS;
}

namespace {

// Fills in a list that the caller has room for, or tells how long it is: "if numNodes is higher than the
// actual number of nodes, the remaining entries will be set to NULL".
template <class Item, class Get>
CUresult list(Item* out, size_t* count, size_t there, Get get) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr)
    for (size_t i = 0; i < *count; ++i) out[i] = i < there ? get(i) : Item{};
  *count = out != nullptr ? std::min(*count, there) : there;
  return CUDA_SUCCESS;
}

CUresult list_nodes(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  return list(out, count, nodes.size(), [&](size_t i) { return handle_of(nodes[i]); });
}

// Edge data can be told where there is room for it, or must be default. `old`: the call knows none.
CUresult list_edges(const std::vector<GraphEdge>& edges, CUgraphNode* out, CUgraphEdgeData* data,
                    size_t* count) {
  if (count == nullptr || (data != nullptr && out == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (data == nullptr && out != nullptr &&
      std::any_of(edges.begin(), edges.end(), [](const GraphEdge& e) { return !is_default(e.data); }))
    return CUDA_ERROR_LOSSY_QUERY;
  size_t room = *count;
  if (data != nullptr) list(data, &room, edges.size(), [&](size_t i) { return edges[i].data; });
  return list(out, count, edges.size(), [&](size_t i) { return handle_of(edges[i].node); });
}

CUresult all_edges(const Graph& graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   size_t* count) {
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphEdge> sources, targets;
  for (GraphNode* node : graph.nodes)
    for (const GraphEdge& edge : node->to) {
      sources.push_back({node, edge.data});
      targets.push_back(edge);
    }
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  size_t room = *count;
  if (const CUresult bad = list_edges(targets, to, data, count); bad != CUDA_SUCCESS) return bad;
  return from == nullptr
             ? CUDA_SUCCESS
             : list(from, &room, sources.size(), [&](size_t i) { return handle_of(sources[i].node); });
}

bool linked(const GraphNode& from, const GraphNode& to) {
  return std::any_of(to.from.begin(), to.from.end(),
                     [&](const GraphEdge& edge) { return edge.node == &from; });
}

struct Pair {
  GraphNode *from, *to;
  CUgraphEdgeData data;
};

CUresult read_pairs(const Graph& graph, const CUgraphNode* from, const CUgraphNode* to,
                    const CUgraphEdgeData* data, size_t count, std::vector<Pair>& out) {
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Pair pair{node_of(from[i]), node_of(to[i]), {}};
    if (pair.from == nullptr || pair.to == nullptr || pair.from->graph != &graph ||
        pair.to->graph != &graph || pair.from == pair.to)
      return CUDA_ERROR_INVALID_VALUE;
    for (const Pair& other : out)
      if (other.from == pair.from && other.to == pair.to) return CUDA_ERROR_INVALID_VALUE;
    if (data != nullptr) pair.data = data[i];
    if (!edge_data_valid(pair.data)) return CUDA_ERROR_INVALID_VALUE;
    out.push_back(pair);
  }
  return CUDA_SUCCESS;
}

CUresult add_dependencies(Graph& graph, const CUgraphNode* from, const CUgraphNode* to,
                          const CUgraphEdgeData* data, size_t count) {
  std::vector<Pair> pairs;
  if (const CUresult bad = read_pairs(graph, from, to, data, count, pairs); bad != CUDA_SUCCESS) return bad;
  // "Specifying an existing dependency will return an error."
  for (const Pair& pair : pairs)
    if (linked(*pair.from, *pair.to) || !edge_fits(pair.from->type, pair.to->type, pair.data))
      return CUDA_ERROR_INVALID_VALUE;
  for (const Pair& pair : pairs) connect(*pair.from, *pair.to, pair.data);
  return CUDA_SUCCESS;
}

bool same(const CUgraphEdgeData& one, const CUgraphEdgeData& other) {
  return one.from_port == other.from_port && one.to_port == other.to_port && one.type == other.type;
}

CUresult remove_dependencies(Graph& graph, const CUgraphNode* from, const CUgraphNode* to,
                             const CUgraphEdgeData* data, size_t count) {
  std::vector<Pair> pairs;
  if (const CUresult bad = read_pairs(graph, from, to, data, count, pairs); bad != CUDA_SUCCESS) return bad;
  if (pairs.empty()) return CUDA_SUCCESS;
  if (holds_memory_nodes(graph) || graph.captures != 0) return CUDA_ERROR_INVALID_VALUE;
  for (const Pair& pair : pairs)
    if (std::none_of(pair.to->from.begin(), pair.to->from.end(), [&](const GraphEdge& edge) {
          return edge.node == pair.from && same(edge.data, pair.data);
        }))
      return CUDA_ERROR_INVALID_VALUE;
  for (const Pair& pair : pairs) {
    std::erase_if(pair.to->from, [&](const GraphEdge& edge) { return edge.node == pair.from; });
    std::erase_if(pair.from->to, [&](const GraphEdge& edge) { return edge.node == pair.to; });
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  return with_graphs(__func__, [&] {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Graph* graph = make_graph();
    if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = handle_of(graph);
    return CUDA_SUCCESS;
  });
}

// A child's belongs to its node, one that is captured into to its capture ("all operations other than destroy
// and node removal are permitted", cuStreamGetCaptureInfo).
CUresult cuGraphDestroy(CUgraph handle) {
  return with_graph(__func__, handle, [](Graph& graph) {
    if (graph.owner != nullptr || graph.captures != 0) return CUDA_ERROR_INVALID_VALUE;
    destroy_graph(graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphClone(CUgraph* out, CUgraph original) {
  return with_graph(__func__, original, [&](Graph& graph) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Graph* copy = nullptr;
    const CUresult cloned = clone_graph(graph, &copy);
    if (cloned == CUDA_SUCCESS) *out = handle_of(copy);
    return cloned;
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  return with_graph(__func__, clone, [&](Graph& graph) {
    if (out == nullptr || !graph.is_clone) return CUDA_ERROR_INVALID_VALUE;
    for (const GraphNode* node : graph.nodes)
      if (handle_of(node->cloned_from) == original && original != nullptr) {
        *out = handle_of(node);
        return CUDA_SUCCESS;
      }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* out) {
  return with_node(__func__, handle, [&](GraphNode& node) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = node.type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return with_node(__func__, handle, [](GraphNode& node) {
    Graph& graph = *node.graph;
    if (holds_memory_nodes(graph) || graph.captures != 0) return CUDA_ERROR_INVALID_VALUE;
    if (const auto* conditional = std::get_if<ConditionalTask>(node.task.get()))
      if (Condition* condition =
              graph_table().conditions.check(reinterpret_cast<void*>(conditional->params.handle)))
        condition->has_node = false;
    destroy_node(node);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  return with_graph(__func__, handle, [&](Graph& graph) { return list_nodes(graph.nodes, out, count); });
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  return with_graph(__func__, handle, [&](Graph& graph) {
    std::vector<GraphNode*> roots;
    for (GraphNode* node : graph.nodes)
      if (node->from.empty()) roots.push_back(node);
    return list_nodes(roots, out, count);
  });
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return with_graph(__func__, handle,
                    [&](Graph& graph) { return all_edges(graph, from, to, nullptr, count); });
}
CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                            size_t* count) {
  return with_graph(__func__, handle, [&](Graph& graph) { return all_edges(graph, from, to, data, count); });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  return with_node(__func__, handle,
                   [&](GraphNode& node) { return list_edges(node.from, out, nullptr, count); });
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                                       size_t* count) {
  return with_node(__func__, handle,
                   [&](GraphNode& node) { return list_edges(node.from, out, data, count); });
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  return with_node(__func__, handle,
                   [&](GraphNode& node) { return list_edges(node.to, out, nullptr, count); });
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                                         size_t* count) {
  return with_node(__func__, handle, [&](GraphNode& node) { return list_edges(node.to, out, data, count); });
}

CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return with_graph(__func__, handle,
                    [&](Graph& graph) { return add_dependencies(graph, from, to, nullptr, count); });
}
CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return with_graph(__func__, handle,
                    [&](Graph& graph) { return add_dependencies(graph, from, to, data, count); });
}
CUresult cuGraphRemoveDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return with_graph(__func__, handle,
                    [&](Graph& graph) { return remove_dependencies(graph, from, to, nullptr, count); });
}
CUresult cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  return with_graph(__func__, handle,
                    [&](Graph& graph) { return remove_dependencies(graph, from, to, data, count); });
}
