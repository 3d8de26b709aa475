// Graph nodes: what each kind is given, checked when it is added or changed, and told.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "graph.h"
#include "graph_memory.h"

namespace gpufence::sim {
namespace {

// NULL: the current one. CUDA_ERROR_INVALID_CONTEXT: none.
CUresult context_of(CUcontext given, Context** out) {
  *out = given == nullptr ? current_context() : driver().contexts.check(given);
  return *out == nullptr ? CUDA_ERROR_INVALID_CONTEXT : refusal(**out);
}

constexpr auto kLast = CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;

// "Valid for graph nodes" (CUlaunchAttributeID).
bool is_node_attribute(CUlaunchAttributeID which) {
  switch (which) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case kLast:
      return true;
    default:
      return false;
  }
}

CUlaunchAttributeValue attribute_of(const KernelTask& task, CUlaunchAttributeID which) {
  CUlaunchAttributeValue value{};
  if (const auto set = task.attributes.find(which); set != task.attributes.end()) value = set->second;
  if (which == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value.cooperative = task.request.cooperative ? 1 : 0;
  if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) value.priority = task.request.priority;
  if (which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    value.clusterDim = {task.request.cluster[0], task.request.cluster[1], task.request.cluster[2]};
  return value;
}

void set_attribute(KernelTask& task, CUlaunchAttributeID which, const CUlaunchAttributeValue& value) {
  task.attributes[which] = value;
  if (which == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) task.request.cooperative = value.cooperative != 0;
  if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    task.request.with_priority = true;
    task.request.priority = clamped_priority(value.priority);
  }
  if (which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    task.request.cluster[0] = value.clusterDim.x;
    task.request.cluster[1] = value.clusterDim.y;
    task.request.cluster[2] = value.clusterDim.z;
  }
}

}  // namespace

void KernelTask::point_at() {
  pointers.clear();
  for (const size_t offset : offsets) pointers.push_back(packed.data() + offset);
  extra.clear();
  if (packed_by_program)
    extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
             CU_LAUNCH_PARAM_END};
  request.params = packed_by_program ? nullptr : pointers.data();
  request.extra = packed_by_program ? extra.data() : nullptr;
}

CUresult kernel_task(Context& context, CUfunction function, CUkernel kernel, const KernelRequest& request,
                     KernelTask& out) {
  out.function = function;
  out.kernel = kernel;
  out.context = &context;
  out.request = request;
  // "INVALID_VALUE will be returned if extra is used for a cooperative kernel."
  if (request.cooperative && request.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<const KernelPlan> plan;
  if (const CUresult bad = plan_kernel(context, out.handle(), request, &plan); bad != CUDA_SUCCESS)
    return bad;
  out.packed = plan->params;
  out.packed_bytes = out.packed.size();
  out.packed_by_program = request.extra != nullptr;
  for (const ptx::Param& param : plan->launch.function->params) out.offsets.push_back(param.offset);
  std::lock_guard<std::mutex> held(code_table().lock);
  if (code_table().functions.check(out.handle()) == nullptr) {
    out.kernel = reinterpret_cast<CUkernel>(out.handle());
    out.function = nullptr;
  }
  return CUDA_SUCCESS;
}

CUresult plan_task(const KernelTask& task, std::shared_ptr<const KernelPlan>* out) {
  if (const CUresult refused = refusal(*task.context); refused != CUDA_SUCCESS) return refused;
  return plan_kernel(*task.context, task.handle(), task.request, out);
}

CUresult copy_task(Context& context, const CUDA_MEMCPY3D& params, CopyTask& out) {
  out.context = &context;
  out.params = params;
  if (params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = box_of(params, out.box); bad != CUDA_SUCCESS) return bad;
  return out.box.check(Planned::yes);
}

CUresult fill_task(Context& context, const CUDA_MEMSET_NODE_PARAMS_v2& params, FillTask& out) {
  out.context = &context;
  out.params = params;
  out.params.ctx = reinterpret_cast<CUcontext>(&context);
  if (params.width == 0 || params.height == 0) return CUDA_ERROR_INVALID_VALUE;
  out.fill = {params.dst, params.pitch, params.value, params.elementSize, params.width, params.height};
  return out.fill.check(context, Planned::yes);
}

CUresult alloc_task(Graph& graph, CUDA_MEM_ALLOC_NODE_PARAMS_v1& params, AllocTask& out) {
  const CUmemPoolProps& props = params.poolProps;
  if (graph.owner != nullptr || params.bytesize == 0 || props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props.handleTypes != CU_MEM_HANDLE_TYPE_NONE || props.win32SecurityAttributes != nullptr ||
      (params.accessDescs == nullptr && params.accessDescCount != 0) ||
      params.accessDescCount > driver().visible.size())
    return CUDA_ERROR_INVALID_VALUE;
  if (props.location.type == CU_MEM_LOCATION_TYPE_HOST ||
      props.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return lacks("allocation nodes on the host", "those on a GPU work");
  Device* device = driver().device(props.location.id);
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE || device == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::map<const Device*, CUmemAccess_flags> access;
  for (size_t i = 0; i < params.accessDescCount; ++i) {
    const CUmemAccessDesc& description = params.accessDescs[i];
    const Device* peer = driver().device(description.location.id);
    if (description.location.type != CU_MEM_LOCATION_TYPE_DEVICE || peer == nullptr ||
        (description.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
         description.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         description.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ||
        (peer != device && !can_access_peer(*peer, *device)))
      return CUDA_ERROR_INVALID_VALUE;
    if (peer != device) access[peer] = description.flags;
    out.access.push_back(description);
  }
  out.memory = plan_graph_memory(*device, params.bytesize);
  if (out.memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out.memory->access = std::move(access);
  out.memory->owner = &graph;
  params.dptr = out.memory->address;
  out.params = params;
  return CUDA_SUCCESS;
}

// "An allocation twice in the same graph", or in two, "an address that was not returned by an allocation
// node".
CUresult free_task(Graph& graph, CUdeviceptr address, FreeTask& out) {
  out.address = address;
  out.memory = graph_memory_at(address);
  if (graph.owner != nullptr || out.memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out.of_this_graph = out.memory->owner == &graph;
  return out.memory->freed_by_owner || out.memory->freed_by_another ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

namespace {

// ---- Kernel nodes ----

// Both versions of the structure; the first knows no CUkernel and no context.
template <class Params>
CUresult kernel_task_of(const Params& params, KernelTask& out) {
  KernelRequest request{{params.gridDimX, params.gridDimY, params.gridDimZ},
                        {params.blockDimX, params.blockDimY, params.blockDimZ}};
  request.shared = params.sharedMemBytes;
  request.params = params.kernelParams;
  request.extra = params.extra;
  Context* context = nullptr;
  CUkernel kernel = nullptr;
  CUcontext given = nullptr;
  if constexpr (requires { params.kern; }) {
    if (params.func == nullptr) {
      kernel = params.kern;
      given = params.ctx;
    }
  }
  if (params.func == nullptr && kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  {
    // A CUfunction is of one context, whatever is current.
    std::lock_guard<std::mutex> held(code_table().lock);
    const Function* function = code_table().functions.check(params.func);
    if (function != nullptr) context = function->module->context;
  }
  if (context == nullptr)
    if (const CUresult bad = context_of(given, &context); bad != CUDA_SUCCESS) return bad;
  return kernel_task(*context, params.func, kernel, request, out);
}

template <class Params>
CUresult tell_kernel(const KernelTask& task, Params* out) {
  *out = {};
  if constexpr (requires { out->kern; }) {
    out->func = task.function;
    out->kern = task.kernel;
    out->ctx = reinterpret_cast<CUcontext>(task.context);
  } else {
    std::lock_guard<std::mutex> held(code_table().lock);
    Function* function = nullptr;
    if (const CUresult bad = resolve(task.handle(), *task.context, &function); bad != CUDA_SUCCESS)
      return bad;
    out->func = reinterpret_cast<CUfunction>(function);
  }
  out->gridDimX = task.request.grid[0];
  out->gridDimY = task.request.grid[1];
  out->gridDimZ = task.request.grid[2];
  out->blockDimX = task.request.block[0];
  out->blockDimY = task.request.block[1];
  out->blockDimZ = task.request.block[2];
  out->sharedMemBytes = task.request.shared;
  out->kernelParams = task.request.params;
  out->extra = task.request.extra;
  return CUDA_SUCCESS;
}

// ---- All kinds, as cuGraphAddNode names them ----

size_t used_bytes(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return sizeof(CUDA_KERNEL_NODE_PARAMS_v3);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return sizeof(CUDA_MEMCPY_NODE_PARAMS);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return sizeof(CUDA_MEMSET_NODE_PARAMS_v2);
    case CU_GRAPH_NODE_TYPE_HOST:
      return sizeof(CUDA_HOST_NODE_PARAMS_v2);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return sizeof(CUDA_EVENT_RECORD_NODE_PARAMS);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return sizeof(CUDA_MEM_FREE_NODE_PARAMS);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return sizeof(CUDA_CONDITIONAL_NODE_PARAMS);
    default:
      return 0;
  }
}

}  // namespace

CUresult event_task(CUevent event, EventTask& out) {
  out.event = event;
  Event* found = driver().events.check(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard<std::mutex> held(found->lock);
  return found->shared == nullptr
             ? CUDA_SUCCESS
             : lacks("graph nodes with events of several processes", "events of one process work");
}

// "All unused bytes - that is, reserved0 and all bytes past the utilized union member - must be set to zero."
bool rest_is_zero(const CUgraphNodeParams& params) {
  const auto zero = [](const void* from, size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(from);
    return std::all_of(at, at + bytes, [](unsigned char c) { return c == 0; });
  };
  const size_t used = used_bytes(params.type);
  return zero(params.reserved0, sizeof params.reserved0) && params.reserved2 == 0 &&
         zero(reinterpret_cast<const char*>(params.reserved1) + used, sizeof params.reserved1 - used);
}

namespace {

CUresult host_task(const CUDA_HOST_NODE_PARAMS_v2& params, HostTask& out) {
  out = {params.fn, params.userData};
  return params.fn != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult no_semaphores() {
  return lacks("nodes with external semaphores", "event record and event wait nodes work");
}
CUresult no_batches() {
  return lacks("nodes with batches of memory operations", "memset, memcpy and event nodes work");
}

bool is_ancestor(const Graph* ancestor, const Graph& graph) {
  for (const Graph* at = &graph; at != nullptr; at = at->owner != nullptr ? at->owner->graph : nullptr)
    if (at == ancestor) return true;
  return false;
}

CUresult conditional_task(Graph& graph, const CUDA_CONDITIONAL_NODE_PARAMS& params, ConditionalTask& out) {
  Condition* condition = graph_table().conditions.check(reinterpret_cast<void*>(params.handle));
  // "The conditional handle must be associated with a conditional node in this graph or one of its children."
  if (condition == nullptr || condition->has_node || !is_ancestor(condition->graph, graph))
    return CUDA_ERROR_INVALID_VALUE;
  if (params.ctx != nullptr && params.ctx != reinterpret_cast<CUcontext>(condition->context))
    return CUDA_ERROR_INVALID_VALUE;
  const bool size_good = params.type == CU_GRAPH_COND_TYPE_IF      ? params.size == 1 || params.size == 2
                         : params.type == CU_GRAPH_COND_TYPE_WHILE ? params.size == 1
                                                                   : params.size > 0;
  if (!size_good || params.type < CU_GRAPH_COND_TYPE_IF || params.type > CU_GRAPH_COND_TYPE_SWITCH)
    return CUDA_ERROR_INVALID_VALUE;
  out.params = params;
  out.params.ctx = reinterpret_cast<CUcontext>(condition->context);
  return CUDA_SUCCESS;
}

// A node's task, but for children and bodies, which add_given() makes.
CUresult task_of(Graph& graph, CUgraphNodeParams& params, Task& out) {
  Context* context = nullptr;
  CUresult bad = CUDA_SUCCESS;
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_task_of(params.kernel, out.emplace<KernelTask>());
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0 || params.memcpy.reserved != 0) return CUDA_ERROR_INVALID_VALUE;
      bad = context_of(params.memcpy.copyCtx, &context);
      return bad != CUDA_SUCCESS ? bad
                                 : copy_task(*context, params.memcpy.copyParams, out.emplace<CopyTask>());
    case CU_GRAPH_NODE_TYPE_MEMSET:
      bad = context_of(params.memset.ctx, &context);
      return bad != CUDA_SUCCESS ? bad : fill_task(*context, params.memset, out.emplace<FillTask>());
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_task(params.host, out.emplace<HostTask>());
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_task(params.eventWait.event, out.emplace<EventTask>());
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_task(params.eventRecord.event, out.emplace<EventTask>());
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v1) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2));
      CUDA_MEM_ALLOC_NODE_PARAMS_v1 alloc{};
      memcpy(&alloc, &params.alloc, sizeof alloc);
      bad = alloc_task(graph, alloc, out.emplace<AllocTask>());
      if (bad == CUDA_SUCCESS) params.alloc.dptr = alloc.dptr;
      return bad;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return free_task(graph, params.free.dptr, out.emplace<FreeTask>());
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return conditional_task(graph, params.conditional, out.emplace<ConditionalTask>());
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return no_semaphores();
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return no_batches();
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// "If childGraph contains allocation nodes, free nodes, or conditional nodes, this call will return an
// error", unless it is moved, which conditional nodes bar as well.
CUresult child_of(const CUDA_CHILD_GRAPH_NODE_PARAMS& params, const Graph& parent, Graph** out) {
  Graph* child = graph_of(params.graph);
  if (child == nullptr || is_ancestor(child, parent)) return CUDA_ERROR_INVALID_VALUE;
  if (params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return clone_graph(*child, out);
  if (params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE || child->owner != nullptr ||
      child->captures != 0 || *child->execs != 0 || has_conditional_nodes(*child))
    return CUDA_ERROR_INVALID_VALUE;
  child->is_moved = true;
  *out = child;
  return CUDA_SUCCESS;
}

CUresult add_given(CUgraphNode* out, Graph& graph, const CUgraphNode* dependencies,
                   const CUgraphEdgeData* data, size_t count, CUgraphNodeParams& params) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphEdge> from;
  if (const CUresult bad = read_edges(graph, dependencies, data, count, from); bad != CUDA_SUCCESS)
    return bad;
  Graph* child = nullptr;
  Task task;
  if (params.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    task = ChildTask{params.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
    if (const CUresult bad = child_of(params.graph, graph, &child); bad != CUDA_SUCCESS) return bad;
  } else if (const CUresult bad = task_of(graph, params, task); bad != CUDA_SUCCESS) {
    return bad;
  }
  std::vector<Graph*> inner;
  if (child != nullptr) inner = {child};
  auto* conditional = std::get_if<ConditionalTask>(&task);
  if (conditional != nullptr)
    for (unsigned i = 0; i < conditional->params.size; ++i) {
      Graph* body = make_graph();
      if (body == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
      body->is_body = true;
      inner.push_back(body);
      conditional->bodies.push_back(handle_of(body));
    }
  GraphNode* node = nullptr;
  const CUgraphConditionalHandle handle = conditional != nullptr ? conditional->params.handle : 0;
  if (const CUresult bad = add_node(graph, params.type, std::move(task), from, &node); bad != CUDA_SUCCESS) {
    for (Graph* made : inner)
      if (!made->is_moved) destroy_graph(*made);
    if (child != nullptr) child->is_moved = false;
    return bad;
  }
  node->inner = inner;
  for (Graph* made : inner) {
    made->owner = node;
    made->is_clone = false;
  }
  if (conditional != nullptr) {
    graph_table().conditions.check(reinterpret_cast<void*>(handle))->has_node = true;
    params.conditional.phGraph_out =
        const_cast<CUgraph*>(std::get<ConditionalTask>(*node->task).bodies.data());
  }
  *out = handle_of(node);
  return CUDA_SUCCESS;
}

CUresult add_call(const char* name, CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
                  const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params, bool checked = true) {
  return with_graph(name, handle, [&](Graph& graph) {
    if (params == nullptr || (checked && !rest_is_zero(*params))) return CUDA_ERROR_INVALID_VALUE;
    return add_given(out, graph, dependencies, data, count, *params);
  });
}

CUgraphNodeParams of_type(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}

CUresult replace(GraphNode& node, CUgraphNodeParams& params) {
  return new_task(*node.graph, node, *node.task, params, node.task);
}

CUresult replace_call(const char* name, CUgraphNode handle, CUgraphNodeParams params) {
  return with_node(name, handle, [&](GraphNode& node) { return replace(node, params); });
}

// The node's task of that kind; CUDA_ERROR_INVALID_VALUE for a node of another.
template <class Kind, class Out, class Tell>
CUresult tell_task(const char* name, CUgraphNode handle, CUgraphNodeType type, Out* out, Tell&& tell) {
  return with_node(name, handle, [&](GraphNode& node) {
    if (out == nullptr || node.type != type) return CUDA_ERROR_INVALID_VALUE;
    return tell(std::get<Kind>(*node.task));
  });
}

}  // namespace

CUresult new_task(Graph& graph, const GraphNode& node, const Task& old, CUgraphNodeParams& params,
                  std::shared_ptr<const Task>& out) {
  if (params.type != node.type) return CUDA_ERROR_INVALID_VALUE;
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      // "Modifying parameters is not supported for node types" of memory (cuGraphNodeSetParams).
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_ERROR_INVALID_VALUE;
    default:
      break;
  }
  Task task;
  if (const CUresult bad = task_of(graph, params, task); bad != CUDA_SUCCESS) return bad;
  if (auto* kernel = std::get_if<KernelTask>(&task)) {
    const auto& before = std::get<KernelTask>(old);
    kernel->attributes = before.attributes;
    kernel->request.cooperative = before.request.cooperative;
    kernel->request.with_priority = before.request.with_priority;
    kernel->request.priority = before.request.priority;
    std::copy(std::begin(before.request.cluster), std::end(before.request.cluster), kernel->request.cluster);
    if (kernel->request.cooperative && kernel->packed_by_program) return CUDA_ERROR_INVALID_VALUE;
  }
  auto kept = std::make_shared<Task>(std::move(task));
  if (auto* kernel = std::get_if<KernelTask>(kept.get())) kernel->point_at();
  out = std::move(kept);
  return CUDA_SUCCESS;
}

CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1& given) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v3, kern) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
  memcpy(&params.kernel, &given, sizeof given);
  return params;
}
CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v2& given) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v2) == sizeof(CUDA_KERNEL_NODE_PARAMS_v3));
  memcpy(&params.kernel, &given, sizeof given);
  return params;
}
CUgraphNodeParams copy_params(const CUDA_MEMCPY3D& given, CUcontext context) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyCtx = context;
  params.memcpy.copyParams = given;
  return params;
}
CUgraphNodeParams fill_params(const CUDA_MEMSET_NODE_PARAMS& given, CUcontext context) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {given.dst,   given.pitch,  given.value, given.elementSize,
                   given.width, given.height, context};
  return params;
}
CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS& given) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_HOST);
  params.host = {given.fn, given.userData};
  return params;
}
CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = of_type(type);
  params.eventRecord.event = event;
  return params;
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                        CUgraphNodeParams* params) {
  return add_call(__func__, out, graph, dependencies, nullptr, count, params);
}
CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return add_call(__func__, out, graph, dependencies, data, count, params);
}
CUresult cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* params) {
  return with_node(__func__, handle, [&](GraphNode& node) {
    if (params == nullptr || !rest_is_zero(*params)) return CUDA_ERROR_INVALID_VALUE;
    return replace(node, *params);
  });
}

namespace {

// For the calls of one kind, whose parameters may be missing.
template <class Given, class Make>
CUresult add_kind(const char* name, CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                  size_t count, const Given* given, Make make) {
  CUgraphNodeParams params{};
  if (given != nullptr) params = make(*given);
  return add_call(name, out, graph, dependencies, nullptr, count, given != nullptr ? &params : nullptr);
}
template <class Given, class Make>
CUresult replace_kind(const char* name, CUgraphNode node, const Given* given, Make make) {
  if (given != nullptr) return replace_call(name, node, make(*given));
  return with_node(name, node, [](GraphNode&) { return CUDA_ERROR_INVALID_VALUE; });
}

constexpr auto kKernel = [](const auto& given) { return kernel_params(given); };
constexpr auto kHost = [](const CUDA_HOST_NODE_PARAMS& given) { return host_params(given); };
constexpr auto kCopy(CUcontext context) {
  return [context](const CUDA_MEMCPY3D& given) { return copy_params(given, context); };
}
constexpr auto kFill(CUcontext context) {
  return [context](const CUDA_MEMSET_NODE_PARAMS& given) { return fill_params(given, context); };
}

}  // namespace

// ---- Kernels ----

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add_kind(__func__, out, graph, dependencies, count, params, kKernel);
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  return add_kind(__func__, out, graph, dependencies, count, params, kKernel);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  return tell_task<KernelTask>(__func__, node, CU_GRAPH_NODE_TYPE_KERNEL, out,
                               [&](const KernelTask& task) { return tell_kernel(task, out); });
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  return tell_task<KernelTask>(__func__, node, CU_GRAPH_NODE_TYPE_KERNEL, out,
                               [&](const KernelTask& task) { return tell_kernel(task, out); });
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return replace_kind(__func__, node, params, kKernel);
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return replace_kind(__func__, node, params, kKernel);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                       CUkernelNodeAttrValue* out) {
  return tell_task<KernelTask>(__func__, node, CU_GRAPH_NODE_TYPE_KERNEL, out, [&](const KernelTask& task) {
    if (!is_node_attribute(which)) return CUDA_ERROR_INVALID_VALUE;
    *out = attribute_of(task, which);
    return CUDA_SUCCESS;
  });
}

namespace {

CUresult change_kernel(GraphNode& node, const std::function<void(KernelTask&)>& change) {
  auto changed = std::make_shared<Task>(*node.task);
  auto& task = std::get<KernelTask>(*changed);
  change(task);
  task.point_at();
  if (task.request.cooperative && task.packed_by_program) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<const KernelPlan> plan;
  if (const CUresult bad = plan_task(task, &plan); bad != CUDA_SUCCESS) return bad;
  node.task = std::move(changed);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID which,
                                       const CUkernelNodeAttrValue* value) {
  return with_node(__func__, handle, [&](GraphNode& node) {
    if (value == nullptr || node.type != CU_GRAPH_NODE_TYPE_KERNEL || !is_node_attribute(which))
      return CUDA_ERROR_INVALID_VALUE;
    if (which == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
      return value->deviceUpdatableKernelNode.deviceUpdatable == 0
                 ? CUDA_SUCCESS
                 : lacks("kernel nodes that kernels update", "cuGraphExecKernelNodeSetParams works");
    return change_kernel(node, [&](KernelTask& task) { set_attribute(task, which, *value); });
  });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return with_node(__func__, to, [&](GraphNode& node) {
    const GraphNode* source = node_of(from);
    if (source == nullptr || node.type != CU_GRAPH_NODE_TYPE_KERNEL ||
        source->type != CU_GRAPH_NODE_TYPE_KERNEL)
      return CUDA_ERROR_INVALID_VALUE;
    const auto& given = std::get<KernelTask>(*source->task);
    // "Both node must have the same context."
    if (given.context != std::get<KernelTask>(*node.task).context) return CUDA_ERROR_INVALID_VALUE;
    return change_kernel(node, [&](KernelTask& task) {
      task.attributes = given.attributes;
      task.request.cooperative = given.request.cooperative;
      task.request.with_priority = given.request.with_priority;
      task.request.priority = given.request.priority;
      std::copy(std::begin(given.request.cluster), std::end(given.request.cluster), task.request.cluster);
    });
  });
}

// ---- Copies and memsets ----

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext context) {
  return add_kind(__func__, out, graph, dependencies, count, params, kCopy(context));
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) {
  return tell_task<CopyTask>(__func__, node, CU_GRAPH_NODE_TYPE_MEMCPY, out, [&](const CopyTask& task) {
    *out = task.params;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* params) {
  return with_node(__func__, handle, [&](GraphNode& node) {
    if (params == nullptr || node.type != CU_GRAPH_NODE_TYPE_MEMCPY) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all =
        copy_params(*params, reinterpret_cast<CUcontext>(std::get<CopyTask>(*node.task).context));
    return replace(node, all);
  });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return add_kind(__func__, out, graph, dependencies, count, params, kFill(context));
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  return tell_task<FillTask>(__func__, node, CU_GRAPH_NODE_TYPE_MEMSET, out, [&](const FillTask& task) {
    const CUDA_MEMSET_NODE_PARAMS_v2& p = task.params;
    *out = {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* params) {
  return with_node(__func__, handle, [&](GraphNode& node) {
    if (params == nullptr || node.type != CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = fill_params(*params, std::get<FillTask>(*node.task).params.ctx);
    return replace(node, all);
  });
}

// ---- Host functions, empty nodes, children ----

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return add_kind(__func__, out, graph, dependencies, count, params, kHost);
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  return tell_task<HostTask>(__func__, node, CU_GRAPH_NODE_TYPE_HOST, out, [&](const HostTask& task) {
    *out = {task.function, task.data};
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return replace_kind(__func__, node, params, kHost);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_EMPTY);
  return add_call(__func__, out, graph, dependencies, nullptr, count, &params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE};
  return add_call(__func__, out, graph, dependencies, nullptr, count, &params);
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  return with_node(__func__, handle, [&](GraphNode& node) {
    if (out == nullptr || node.type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of(node.inner.front());
    return CUDA_SUCCESS;
  });
}

// ---- Events ----

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                   size_t count, CUevent event) {
  CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return add_call(__func__, out, graph, dependencies, nullptr, count, &params);
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return tell_task<EventTask>(__func__, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out,
                              [&](const EventTask& task) {
                                *out = task.event;
                                return CUDA_SUCCESS;
                              });
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return replace_call(__func__, node, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event) {
  CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return add_call(__func__, out, graph, dependencies, nullptr, count, &params);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return tell_task<EventTask>(__func__, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out, [&](const EventTask& task) {
    *out = task.event;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return replace_call(__func__, node, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

// ---- Memory ----

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* given) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  if (given != nullptr) memcpy(&params.alloc, given, sizeof *given);
  const CUresult added = add_call(__func__, out, graph, dependencies, nullptr, count,
                                  given != nullptr ? &params : nullptr, false);
  if (added == CUDA_SUCCESS) given->dptr = params.alloc.dptr;
  return added;
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  return tell_task<AllocTask>(__func__, node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, out, [&](const AllocTask& task) {
    *out = task.params;
    out->accessDescs = task.access.empty() ? nullptr : task.access.data();
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               CUdeviceptr address) {
  CUgraphNodeParams params = of_type(CU_GRAPH_NODE_TYPE_MEM_FREE);
  params.free.dptr = address;
  return add_call(__func__, out, graph, dependencies, nullptr, count, &params);
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  return tell_task<FreeTask>(__func__, node, CU_GRAPH_NODE_TYPE_MEM_FREE, out, [&](const FreeTask& task) {
    *out = task.address;
    return CUDA_SUCCESS;
  });
}
