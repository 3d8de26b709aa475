// Changing executable graphs: one node's parameters, whether it is run, or all of them from another graph of
// the same shape. Launches under way keep what they had.
#include <algorithm>

#include "graph_exec.h"
#include "user_object.h"

namespace gpufence::sim {
namespace {

GraphExec* exec_of(CUgraphExec handle) {
  return graph_table().execs.check(handle);
}

ExecNode* find_node(ExecGraph& graph, const GraphNode* origin) {
  for (ExecNode& node : graph.nodes) {
    if (node.origin == origin) return &node;
    for (ExecGraph& inner : node.inner)
      if (ExecNode* found = find_node(inner, origin)) return found;
  }
  return nullptr;
}

// Runs body with the node's counterpart: "hNode must remain in the graph which was used to instantiate".
template <class Body>
CUresult with_exec_node(const char* name, CUgraphExec exec_handle, CUgraphNode handle, Body&& body) {
  return with_graphs(name, [&] {
    GraphExec* exec = exec_of(exec_handle);
    GraphNode* node = node_of(handle);
    if (exec == nullptr || node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ExecNode* counterpart = find_node(exec->graph, node);
    return counterpart == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*exec, *node, *counterpart);
  });
}

// Where memory is, as updates may not change it: its GPU, its context and whether it is the host's.
bool same_place(uintptr_t one, uintptr_t other) {
  Found first, second;
  const bool known = find(one, first), other_known = find(other, second);
  const bool of_graph = in_graph_memory(one, 1), other_of_graph = in_graph_memory(other, 1);
  if (of_graph || other_of_graph) {
    const auto device = [](bool graph, uintptr_t address, const Found& found, bool there) -> Device* {
      return graph ? static_cast<Device*>(owner_of(address)) : there && !found.host ? found.device : nullptr;
    };
    return device(of_graph, one, first, known) == device(other_of_graph, other, second, other_known);
  }
  // The host's, page-locked or not.
  const bool in_host = !known || first.host, other_in_host = !other_known || second.host;
  if (in_host || other_in_host) return in_host == other_in_host;
  return first.device == second.device && first.context == second.context;
}

bool same_kind(const End& one, const End& other) {
  return (one.array != nullptr) == (other.array != nullptr) && one.side == other.side &&
         (one.array != nullptr ? one.array->context == other.array->context
                               : same_place(one.base, other.base));
}

bool one_row(const Box& box) {
  return box.height == 1 && box.depth == 1;
}

// What may change in an executable graph ("Limitations", cuGraphExecUpdate).
CUgraphExecUpdateResult may_become(const GraphExec& exec, const ExecNode& node, const Task& task) {
  if (const auto* kernel = std::get_if<KernelTask>(&task)) {
    const auto& before = std::get<KernelTask>(*node.task);
    if (kernel->context != before.context) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    const bool priorities = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
    if (kernel->request.cooperative != before.request.cooperative ||
        (priorities && kernel->request.priority != before.request.priority))
      return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  } else if (const auto* copy = std::get_if<CopyTask>(&task)) {
    const auto& before = std::get<CopyTask>(*node.task);
    if (copy->context != before.context || !same_kind(copy->box.to, before.box.to) ||
        !same_kind(copy->box.from, before.box.from))
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  } else if (const auto* fill = std::get_if<FillTask>(&task)) {
    const auto& before = std::get<FillTask>(*node.task);
    // "For 2d memsets, all dimension changes are rejected."
    const bool flat = fill->fill.height == 1 && before.fill.height == 1;
    if (fill->context != before.context || !same_place(fill->fill.to, before.fill.to) ||
        fill->fill.height != before.fill.height ||
        (!flat && (fill->fill.width != before.fill.width || fill->fill.element != before.fill.element ||
                   fill->fill.pitch != before.fill.pitch)))
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  } else if (const auto* conditional = std::get_if<ConditionalTask>(&task)) {
    const auto& before = std::get<ConditionalTask>(*node.task);
    if (conditional->params.type != before.params.type || conditional->params.size != before.params.size ||
        conditional->params.ctx != before.params.ctx)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  } else if (std::holds_alternative<AllocTask>(task) || std::holds_alternative<FreeTask>(task)) {
    if (&task != node.task.get()) return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// ---- One node ----

CUresult set_params(GraphExec& exec, GraphNode& origin, ExecNode& node, CUgraphNodeParams& params) {
  std::shared_ptr<const Task> task;
  if (const CUresult bad = new_task(*origin.graph, origin, *node.task, params, task); bad != CUDA_SUCCESS)
    return bad;
  // "Both the instantiation-time memory operands and the memory operands in copyParams must be
  // 1-dimensional."
  if (const auto* copy = std::get_if<CopyTask>(task.get()))
    if (!one_row(copy->box) || !one_row(std::get<CopyTask>(*node.task).box)) return CUDA_ERROR_INVALID_VALUE;
  if (may_become(exec, node, *task) != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  if (const auto* kernel = std::get_if<KernelTask>(task.get()))
    if (const CUresult bad = plan_task(*kernel, &node.plan); bad != CUDA_SUCCESS) return bad;
  node.task = std::move(task);
  return CUDA_SUCCESS;
}

template <class Given, class Make>
CUresult set_kind(const char* name, CUgraphExec exec, CUgraphNode node, const Given* given, Make make) {
  return with_exec_node(name, exec, node, [&](GraphExec& of, GraphNode& origin, ExecNode& found) {
    if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params = make(*given);
    return set_params(of, origin, found, params);
  });
}

bool can_be_disabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET ||
         type == CU_GRAPH_NODE_TYPE_MEMCPY;
}

// ---- All of them ----

struct Update {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_ERROR;
  const GraphNode *node = nullptr, *from = nullptr;
};

bool fails(Update& told, CUgraphExecUpdateResult why, const GraphNode* node,
           const GraphNode* from = nullptr) {
  told = {why, node, from};
  return false;
}

// Nodes are paired in the order in which they were added. False: `told` says why not.
bool matches(const GraphExec& exec, const ExecGraph& now, const ExecGraph& wanted, Update& told) {
  if (now.nodes.size() != wanted.nodes.size())
    return fails(told, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    const auto &before = now.nodes[i].after, &after = wanted.nodes[i].after;
    const GraphNode* node = wanted.nodes[i].origin;
    if (before.size() != after.size()) return fails(told, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node);
    for (size_t k = 0; k < before.size(); ++k)
      if (before[k].first != after[k].first)
        return fails(told, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node,
                     wanted.nodes[after[k].first].origin);
  }
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    const ExecNode &before = now.nodes[i], &after = wanted.nodes[i];
    if (before.type != after.type)
      return fails(told, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, after.origin);
    // What never was changed may stay: memory nodes of the very graph.
    const CUgraphExecUpdateResult may =
        before.task == after.task ? CU_GRAPH_EXEC_UPDATE_SUCCESS : may_become(exec, before, *after.task);
    if (may != CU_GRAPH_EXEC_UPDATE_SUCCESS) return fails(told, may, after.origin);
    if (before.inner.size() != after.inner.size())
      return fails(told, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, after.origin);
    for (size_t k = 0; k < before.inner.size(); ++k)
      if (!matches(exec, before.inner[k], after.inner[k], told)) return false;
  }
  return true;
}

void take_over(ExecGraph& now, ExecGraph& wanted) {
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    ExecNode &node = now.nodes[i], &other = wanted.nodes[i];
    node.task = std::move(other.task);
    node.plan = std::move(other.plan);
    for (size_t k = 0; k < node.inner.size(); ++k) take_over(node.inner[k], other.inner[k]);
  }
}

CUresult update(GraphExec& exec, const Graph& graph, Update& told) {
  // "Cannot be used as an argument to cuGraphExecUpdate" once moved.
  if (graph.is_moved || graph.captures != 0) return CUDA_ERROR_INVALID_VALUE;
  ExecGraph wanted;
  CUgraphInstantiateResult unused{};
  const GraphNode* error = nullptr;
  if (build(graph, wanted, &unused, &error) != CUDA_SUCCESS) {
    told = {error != nullptr ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED : CU_GRAPH_EXEC_UPDATE_ERROR,
            error, nullptr};
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  if (!matches(exec, exec.graph, wanted, told)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  take_over(exec.graph, wanted);
  take_hold(exec, *graph.references);
  told = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
  return CUDA_SUCCESS;
}

CUresult update_call(const char* name, CUgraphExec exec_handle, CUgraph handle, Update& told) {
  return with_graphs(name, [&] {
    GraphExec* exec = exec_of(exec_handle);
    const Graph* graph = graph_of(handle);
    return exec == nullptr || graph == nullptr ? CUDA_ERROR_INVALID_VALUE : update(*exec, *graph, told);
  });
}

}  // namespace
}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                           CUgraphExecUpdateResult* result) {
  Update told;
  const CUresult updated = update_call(__func__, exec, graph, told);
  if (node != nullptr) *node = handle_of(told.node);
  if (result != nullptr) *result = told.result;
  return updated;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  Update told;
  const CUresult updated = update_call(__func__, exec, graph, told);
  if (info != nullptr) *info = {told.result, handle_of(told.node), handle_of(told.from)};
  return updated;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return with_exec_node(__func__, exec, node, [&](GraphExec& of, GraphNode& origin, ExecNode& found) {
    if (params == nullptr || !rest_is_zero(*params)) return CUDA_ERROR_INVALID_VALUE;
    return set_params(of, origin, found, *params);
  });
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set_kind(__func__, exec, node, params, [](const auto& given) { return kernel_params(given); });
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* params) {
  return set_kind(__func__, exec, node, params, [](const auto& given) { return kernel_params(given); });
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                        CUcontext context) {
  return set_kind(__func__, exec, node, params,
                  [&](const CUDA_MEMCPY3D& given) { return copy_params(given, context); });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return set_kind(__func__, exec, node, params,
                  [&](const CUDA_MEMSET_NODE_PARAMS& given) { return fill_params(given, context); });
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return set_kind(__func__, exec, node, params,
                  [](const CUDA_HOST_NODE_PARAMS& given) { return host_params(given); });
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_kind(__func__, exec, node, &event,
                  [](CUevent given) { return event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, given); });
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_kind(__func__, exec, node, &event,
                  [](CUevent given) { return event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, given); });
}

// "The topology of childGraph, as well as the node insertion order, must match."
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return with_exec_node(__func__, exec, node, [&](GraphExec& of, GraphNode&, ExecNode& found) {
    const Graph* graph = graph_of(child);
    if (graph == nullptr || found.type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    ExecGraph wanted;
    CUgraphInstantiateResult unused{};
    const GraphNode* error = nullptr;
    Update told;
    if (build(*graph, wanted, &unused, &error) != CUDA_SUCCESS ||
        !matches(of, found.inner.front(), wanted, told))
      return CUDA_ERROR_INVALID_VALUE;
    take_over(found.inner.front(), wanted);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  return with_exec_node(__func__, exec, node, [&](GraphExec&, GraphNode&, ExecNode& found) {
    if (!can_be_disabled(found.type)) return CUDA_ERROR_INVALID_VALUE;
    found.enabled = enabled != 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int* out) {
  return with_exec_node(__func__, exec, node, [&](GraphExec&, GraphNode&, ExecNode& found) {
    if (out == nullptr || !can_be_disabled(found.type)) return CUDA_ERROR_INVALID_VALUE;
    *out = found.enabled ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
