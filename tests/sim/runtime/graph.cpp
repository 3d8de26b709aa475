// Graphs of the runtime API: each call is the driver's of the same name, whose handles it shares. Kernels are
// named by their host functions, copies by cudaMemcpy3DParms; nodes belong to the current device's context.
#include "tests/sim/runtime/copy.h"
#include "tests/sim/runtime/program.h"

#include <string.h>

using namespace gpufence::sim::runtime;

// The two interfaces lay these out alike.
static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));
static_assert(sizeof(cudaChildGraphNodeParams) == sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS));

namespace {

const CUgraphEdgeData* edges(const cudaGraphEdgeData* data) {
  return reinterpret_cast<const CUgraphEdgeData*>(data);
}
CUgraphEdgeData* edges(cudaGraphEdgeData* data) {
  return reinterpret_cast<CUgraphEdgeData*>(data);
}
const CUDA_MEMSET_NODE_PARAMS* driver_params(const cudaMemsetParams* params) {
  return reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(params);
}
const CUDA_HOST_NODE_PARAMS* driver_params(const cudaHostNodeParams* params) {
  return reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(params);
}
CUlaunchAttributeID attribute(cudaKernelNodeAttrID which) {
  return static_cast<CUlaunchAttributeID>(which);
}

CUcontext current(const Driver& driver) {
  CUcontext context = nullptr;
  driver.cuCtxGetCurrent(&context);
  return context;
}

template <class To, class From>
To turned(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to{};
  memcpy(&to, &from, sizeof to);
  return to;
}

// cudaKernelNodeParams, of either version.
template <class Params>
cudaError_t describe_kernel(const Driver& driver, const Params& asked, CUDA_KERNEL_NODE_PARAMS* out) {
  *out = {};
  if (const cudaError_t bad = find_kernel(driver, asked.func, &out->kern); bad != cudaSuccess) return bad;
  out->gridDimX = asked.gridDim.x;
  out->gridDimY = asked.gridDim.y;
  out->gridDimZ = asked.gridDim.z;
  out->blockDimX = asked.blockDim.x;
  out->blockDimY = asked.blockDim.y;
  out->blockDimZ = asked.blockDim.z;
  out->sharedMemBytes = asked.sharedMemBytes;
  out->kernelParams = asked.kernelParams;
  out->extra = asked.extra;
  return cudaSuccess;
}

// Runs body with the driver's parameters of a kernel node.
template <class Body>
cudaError_t with_kernel(const cudaKernelNodeParams* asked, Body body) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (asked == nullptr) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS params{};
    if (const cudaError_t bad = describe_kernel(driver, *asked, &params); bad != cudaSuccess) return bad;
    return from_driver(body(driver, &params));
  });
}

// With the driver's parameters of a memcpy node.
template <class Body>
cudaError_t with_copy(const cudaMemcpy3DParms* asked, Body body) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (asked == nullptr) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D copy{};
    if (const cudaError_t bad = describe_copy(driver, *asked, &copy); bad != cudaSuccess) return bad;
    return from_driver(body(driver, &copy));
  });
}
template <class Body>
cudaError_t with_row(void* to, const void* from, size_t count, cudaMemcpyKind kind, Body body) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUDA_MEMCPY3D copy{};
    if (const cudaError_t bad = describe_row(to, from, count, kind, &copy); bad != cudaSuccess) return bad;
    return from_driver(body(driver, &copy));
  });
}

// The same with one end in a variable.
cudaError_t place_in(const Driver& driver, const void* symbol, size_t count, size_t offset, void** out) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  if (const cudaError_t bad = find_symbol(driver, symbol, &address, &bytes); bad != cudaSuccess) return bad;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  *out = reinterpret_cast<void*>(address + offset);
  return cudaSuccess;
}
template <class Body>
cudaError_t with_row_to(const void* symbol, const void* from, size_t count, size_t offset,
                        cudaMemcpyKind kind, Body body) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
      return cudaErrorInvalidMemcpyDirection;
    void* at = nullptr;
    CUDA_MEMCPY3D copy{};
    if (const cudaError_t bad = place_in(driver, symbol, count, offset, &at); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = describe_row(at, from, count, kind, &copy); bad != cudaSuccess) return bad;
    return from_driver(body(driver, &copy));
  });
}
template <class Body>
cudaError_t with_row_from(void* to, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                          Body body) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
      return cudaErrorInvalidMemcpyDirection;
    void* at = nullptr;
    CUDA_MEMCPY3D copy{};
    if (const cudaError_t bad = place_in(driver, symbol, count, offset, &at); bad != cudaSuccess) return bad;
    if (const cudaError_t bad = describe_row(to, at, count, kind, &copy); bad != cudaSuccess) return bad;
    return from_driver(body(driver, &copy));
  });
}

// Adds, changes, or changes in an executable graph.
auto add_copy(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count) {
  return [=](const Driver& d, const CUDA_MEMCPY3D* copy) {
    return d.cuGraphAddMemcpyNode(out, graph, dependencies, count, copy, current(d));
  };
}
auto set_copy(cudaGraphNode_t node) {
  return [=](const Driver& d, const CUDA_MEMCPY3D* copy) { return d.cuGraphMemcpyNodeSetParams(node, copy); };
}
auto set_copy(cudaGraphExec_t exec, cudaGraphNode_t node) {
  return [=](const Driver& d, const CUDA_MEMCPY3D* copy) {
    return d.cuGraphExecMemcpyNodeSetParams(exec, node, copy, current(d));
  };
}

// All kinds of nodes. What is not turned has one layout.
cudaError_t describe_node(const Driver& driver, const cudaGraphNodeParams& asked, CUgraphNodeParams* out) {
  *out = turned<CUgraphNodeParams>(asked);
  if (asked.type == cudaGraphNodeTypeKernel) {
    memset(out->reserved1, 0, sizeof out->reserved1);
    CUDA_KERNEL_NODE_PARAMS kernel{};
    if (const cudaError_t bad = describe_kernel(driver, asked.kernel, &kernel); bad != cudaSuccess)
      return bad;
    out->kernel = turned<CUDA_KERNEL_NODE_PARAMS_v3>(kernel);
  } else if (asked.type == cudaGraphNodeTypeMemcpy) {
    if (asked.memcpy.flags != 0) return cudaErrorInvalidValue;
    for (const int reserved : asked.memcpy.reserved)
      if (reserved != 0) return cudaErrorInvalidValue;
    memset(out->reserved1, 0, sizeof out->reserved1);
    out->memcpy.copyCtx = current(driver);
    return describe_copy(driver, asked.memcpy.copyParams, &out->memcpy.copyParams);
  } else if (asked.type == cudaGraphNodeTypeMemset) {
    out->memset.ctx = current(driver);
  }
  return cudaSuccess;
}

template <class Body>
cudaError_t with_node(cudaGraphNodeParams* asked, Body body) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (asked == nullptr) return cudaErrorInvalidValue;
    CUgraphNodeParams params{};
    if (const cudaError_t bad = describe_node(driver, *asked, &params); bad != cudaSuccess) return bad;
    const CUresult result = body(driver, &params);
    if (result == CUDA_SUCCESS && asked->type == cudaGraphNodeTypeMemAlloc)
      asked->alloc.dptr = reinterpret_cast<void*>(params.alloc.dptr);
    if (result == CUDA_SUCCESS && asked->type == cudaGraphNodeTypeConditional)
      asked->conditional.phGraph_out = params.conditional.phGraph_out;
    return from_driver(result);
  });
}

}  // namespace

// ---- Graphs ----

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuGraphCreate(graph, flags); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return in_context([&](const Driver& d) { return d.cuGraphDestroy(graph); });
}
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return in_context([&](const Driver& d) { return d.cuGraphClone(clone, graph); });
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
  return in_context([&](const Driver& d) { return d.cuGraphNodeFindInClone(node, original, clone); });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (type == nullptr) return cudaErrorInvalidValue;
    CUgraphNodeType told{};
    const CUresult got = d.cuGraphNodeGetType(node, &told);
    if (got == CUDA_SUCCESS) *type = static_cast<cudaGraphNodeType>(told);
    return from_driver(got);
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return in_context([&](const Driver& d) { return d.cuGraphGetNodes(graph, nodes, count); });
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return in_context([&](const Driver& d) { return d.cuGraphGetRootNodes(graph, nodes, count); });
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, size_t* count) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphGetEdges_v2(graph, from, to, edges(data), count); });
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                         cudaGraphEdgeData* data, size_t* count) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphNodeGetDependencies_v2(node, nodes, edges(data), count); });
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                           cudaGraphEdgeData* data, size_t* count) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphNodeGetDependentNodes_v2(node, nodes, edges(data), count); });
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* data, size_t count) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphAddDependencies_v2(graph, from, to, edges(data), count); });
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* data,
                                        size_t count) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphRemoveDependencies_v2(graph, from, to, edges(data), count); });
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return in_context([&](const Driver& d) { return d.cuGraphDestroyNode(node); });
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuGraphDebugDotPrint(graph, path, flags); });
}

// ---- Nodes of any kind ----

cudaError_t cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* data, size_t count, cudaGraphNodeParams* params) {
  return with_node(params, [&](const Driver& d, CUgraphNodeParams* asked) {
    return d.cuGraphAddNode_v2(out, graph, dependencies, edges(data), count, asked);
  });
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return with_node(
      params, [&](const Driver& d, CUgraphNodeParams* asked) { return d.cuGraphNodeSetParams(node, asked); });
}
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  return with_node(params, [&](const Driver& d, CUgraphNodeParams* asked) {
    return d.cuGraphExecNodeSetParams(exec, node, asked);
  });
}

// ---- Kernel nodes ----

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaKernelNodeParams* params) {
  return with_kernel(params, [&](const Driver& d, const CUDA_KERNEL_NODE_PARAMS* asked) {
    return d.cuGraphAddKernelNode_v2(out, graph, dependencies, count, asked);
  });
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* out) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS told{};
    if (const CUresult got = d.cuGraphKernelNodeGetParams_v2(node, &told); got != CUDA_SUCCESS)
      return from_driver(got);
    *out = {};
    out->func = told.kern != nullptr ? known_as(told.kern) : static_cast<void*>(told.func);
    out->gridDim = dim3(told.gridDimX, told.gridDimY, told.gridDimZ);
    out->blockDim = dim3(told.blockDimX, told.blockDimY, told.blockDimZ);
    out->sharedMemBytes = told.sharedMemBytes;
    out->kernelParams = told.kernelParams;
    out->extra = told.extra;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return with_kernel(params, [&](const Driver& d, const CUDA_KERNEL_NODE_PARAMS* asked) {
    return d.cuGraphKernelNodeSetParams_v2(node, asked);
  });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return with_kernel(params, [&](const Driver& d, const CUDA_KERNEL_NODE_PARAMS* asked) {
    return d.cuGraphExecKernelNodeSetParams_v2(exec, node, asked);
  });
}
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  return in_context([&](const Driver& d) { return d.cuGraphKernelNodeCopyAttributes(to, from); });
}
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID which,
                                            cudaKernelNodeAttrValue* value) {
  return in_context([&](const Driver& d) {
    return d.cuGraphKernelNodeGetAttribute(node, attribute(which),
                                           reinterpret_cast<CUlaunchAttributeValue*>(value));
  });
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID which,
                                            const cudaKernelNodeAttrValue* value) {
  return in_context([&](const Driver& d) {
    return d.cuGraphKernelNodeSetAttribute(node, attribute(which),
                                           reinterpret_cast<const CUlaunchAttributeValue*>(value));
  });
}

// ---- Memcpy nodes ----

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaMemcpy3DParms* params) {
  return with_copy(params, add_copy(out, graph, dependencies, count));
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* out, cudaGraph_t graph,
                                     const cudaGraphNode_t* dependencies, size_t number, void* to,
                                     const void* from, size_t count, cudaMemcpyKind kind) {
  return with_row(to, from, count, kind, add_copy(out, graph, dependencies, number));
}
cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* out, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, size_t number,
                                           const void* symbol, const void* from, size_t count, size_t offset,
                                           cudaMemcpyKind kind) {
  return with_row_to(symbol, from, count, offset, kind, add_copy(out, graph, dependencies, number));
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* out, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t number, void* to,
                                             const void* symbol, size_t count, size_t offset,
                                             cudaMemcpyKind kind) {
  return with_row_from(to, symbol, count, offset, kind, add_copy(out, graph, dependencies, number));
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* out) {
  return in_context([&](const Driver& d) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D told{};
    const CUresult got = d.cuGraphMemcpyNodeGetParams(node, &told);
    return got == CUDA_SUCCESS ? tell_copy(d, told, out) : from_driver(got);
  });
}
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return with_copy(params, set_copy(node));
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t count,
                                           cudaMemcpyKind kind) {
  return with_row(to, from, count, kind, set_copy(node));
}
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                                 size_t count, size_t offset, cudaMemcpyKind kind) {
  return with_row_to(symbol, from, count, offset, kind, set_copy(node));
}
cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol,
                                                   size_t count, size_t offset, cudaMemcpyKind kind) {
  return with_row_from(to, symbol, count, offset, kind, set_copy(node));
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  return with_copy(params, set_copy(exec, node));
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t count, cudaMemcpyKind kind) {
  return with_row(to, from, count, kind, set_copy(exec, node));
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const void* symbol, const void* from, size_t count,
                                                     size_t offset, cudaMemcpyKind kind) {
  return with_row_to(symbol, from, count, offset, kind, set_copy(exec, node));
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                       const void* symbol, size_t count, size_t offset,
                                                       cudaMemcpyKind kind) {
  return with_row_from(to, symbol, count, offset, kind, set_copy(exec, node));
}

// ---- Memset, host, child and empty nodes ----

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaMemsetParams* params) {
  return in_context([&](const Driver& d) {
    return d.cuGraphAddMemsetNode(out, graph, dependencies, count, driver_params(params), current(d));
  });
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* out) {
  return in_context([&](const Driver& d) {
    return d.cuGraphMemsetNodeGetParams(node, reinterpret_cast<CUDA_MEMSET_NODE_PARAMS*>(out));
  });
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphMemsetNodeSetParams(node, driver_params(params)); });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return in_context([&](const Driver& d) {
    return d.cuGraphExecMemsetNodeSetParams(exec, node, driver_params(params), current(d));
  });
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                 size_t count, const cudaHostNodeParams* params) {
  return in_context([&](const Driver& d) {
    return d.cuGraphAddHostNode(out, graph, dependencies, count, driver_params(params));
  });
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* out) {
  return in_context([&](const Driver& d) {
    return d.cuGraphHostNodeGetParams(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(out));
  });
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return in_context([&](const Driver& d) { return d.cuGraphHostNodeSetParams(node, driver_params(params)); });
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphExecHostNodeSetParams(exec, node, driver_params(params)); });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                       const cudaGraphNode_t* dependencies, size_t count, cudaGraph_t child) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphAddChildGraphNode(out, graph, dependencies, count, child); });
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return in_context([&](const Driver& d) { return d.cuGraphChildGraphNodeGetGraph(node, graph); });
}
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaGraph_t child) {
  return in_context([&](const Driver& d) { return d.cuGraphExecChildGraphNodeSetParams(exec, node, child); });
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, size_t count) {
  return in_context([&](const Driver& d) { return d.cuGraphAddEmptyNode(out, graph, dependencies, count); });
}

// ---- Event nodes ----

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                        const cudaGraphNode_t* dependencies, size_t count,
                                        cudaEvent_t event) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphAddEventRecordNode(out, graph, dependencies, count, event); });
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return in_context([&](const Driver& d) { return d.cuGraphEventRecordNodeGetEvent(node, event); });
}
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuGraphEventRecordNodeSetEvent(node, event); });
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuGraphExecEventRecordNodeSetEvent(exec, node, event); });
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                      const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphAddEventWaitNode(out, graph, dependencies, count, event); });
}
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return in_context([&](const Driver& d) { return d.cuGraphEventWaitNodeGetEvent(node, event); });
}
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuGraphEventWaitNodeSetEvent(node, event); });
}
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return in_context([&](const Driver& d) { return d.cuGraphExecEventWaitNodeSetEvent(exec, node, event); });
}

// ---- Memory nodes, conditions ----

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                     const cudaGraphNode_t* dependencies, size_t count,
                                     cudaMemAllocNodeParams* params) {
  return in_context([&](const Driver& d) {
    return d.cuGraphAddMemAllocNode(out, graph, dependencies, count,
                                    reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* out) {
  return in_context([&](const Driver& d) {
    return d.cuGraphMemAllocNodeGetParams(node, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(out));
  });
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* out, cudaGraph_t graph,
                                    const cudaGraphNode_t* dependencies, size_t count, void* memory) {
  return in_context([&](const Driver& d) {
    return d.cuGraphAddMemFreeNode(out, graph, dependencies, count, reinterpret_cast<CUdeviceptr>(memory));
  });
}
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* out) {
  return in_context(
      [&](const Driver& d) { return d.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(out)); });
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* out, cudaGraph_t graph,
                                             unsigned int initial, unsigned int flags) {
  return in_context([&](const Driver& d) {
    CUgraphConditionalHandle handle = 0;
    const CUresult made = d.cuGraphConditionalHandleCreate(out == nullptr ? nullptr : &handle, graph,
                                                           current(d), initial, flags);
    if (made == CUDA_SUCCESS) *out = handle;
    return made;
  });
}

// ---- Executable graphs ----

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return in_context([&](const Driver& d) { return d.cuGraphInstantiateWithFlags(exec, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return in_context([&](const Driver& d) { return d.cuGraphInstantiateWithFlags(exec, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  return in_context([&](const Driver& d) {
    return d.cuGraphInstantiateWithParams(exec, graph,
                                          reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
  });
}
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams* params) {
  return in_context([&](const Driver& d) {
    return d.cuGraphInstantiateWithParams_ptsz(exec, graph,
                                               reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params));
  });
}
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return in_context([&](const Driver& d) -> cudaError_t {
    cuuint64_t told = 0;
    if (flags == nullptr) return cudaErrorInvalidValue;
    const CUresult got = d.cuGraphExecGetFlags(exec, &told);
    if (got == CUDA_SUCCESS) *flags = told;
    return from_driver(got);
  });
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return in_context([&](const Driver& d) {
    return d.cuGraphExecUpdate_v2(exec, graph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(info));
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return in_context([&](const Driver& d) { return d.cuGraphExecDestroy(exec); });
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled) {
  return in_context([&](const Driver& d) { return d.cuGraphNodeSetEnabled(exec, node, enabled); });
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int* enabled) {
  return in_context([&](const Driver& d) { return d.cuGraphNodeGetEnabled(exec, node, enabled); });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuGraphUpload(exec, stream); });
}
cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuGraphUpload_ptsz(exec, stream); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuGraphLaunch(exec, stream); });
}
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context([&](const Driver& d) { return d.cuGraphLaunch_ptsz(exec, stream); });
}

// ---- User objects ----

cudaError_t cudaUserObjectCreate(cudaUserObject_t* out, void* pointer, cudaHostFn_t destroy,
                                 unsigned int count, unsigned int flags) {
  return in_context(
      [&](const Driver& d) { return d.cuUserObjectCreate(out, pointer, destroy, count, flags); });
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return in_context([&](const Driver& d) { return d.cuUserObjectRetain(object, count); });
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return in_context([&](const Driver& d) { return d.cuUserObjectRelease(object, count); });
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                      unsigned int flags) {
  return in_context([&](const Driver& d) { return d.cuGraphRetainUserObject(graph, object, count, flags); });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  return in_context([&](const Driver& d) { return d.cuGraphReleaseUserObject(graph, object, count); });
}
