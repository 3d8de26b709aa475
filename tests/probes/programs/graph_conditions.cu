// Graphs whose kernels decide what runs: IF with and without ELSE, WHILE, SWITCH, and one in another.
// Compiled with relocatable device code, which cudaGraphSetConditional needs.
#include "check.h"

__global__ void decide(cudaGraphConditionalHandle handle, const int* value, int limit) {
  cudaGraphSetConditional(handle, *value < limit);
}
__global__ void choose(cudaGraphConditionalHandle handle, unsigned value) {
  cudaGraphSetConditional(handle, value);
}
__global__ void add(int* at, int what) {
  *at += what;
}
// One step of Newton's square root, and whether it has to go on.
__global__ void newton(cudaGraphConditionalHandle handle, float* x, float of, int* steps) {
  const float before = *x;
  *x = 0.5f * (before + of / before);
  ++*steps;
  cudaGraphSetConditional(handle, fabsf(*x - before) > 1e-4f && *steps < 100);
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, void* function, void** params,
                                  const cudaGraphNode_t* behind = nullptr) {
  cudaKernelNodeParams kernel{};
  kernel.func = function;
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(1);
  kernel.kernelParams = params;
  cudaGraphNode_t node;
  MUST(cudaGraphAddKernelNode(&node, graph, behind, behind == nullptr ? 0 : 1, &kernel));
  return node;
}

static cudaGraph_t* add_condition(cudaGraph_t graph, cudaGraphConditionalHandle handle,
                                  cudaGraphConditionalNodeType type, unsigned size,
                                  const cudaGraphNode_t* behind, cudaGraphNode_t* node) {
  cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  MUST(cudaGraphAddNode(node, graph, behind, nullptr, behind == nullptr ? 0 : 1, &params));
  return params.conditional.phGraph_out;
}

static int value_of(const int* at) {
  int value = 0;
  MUST(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void if_and_else(bool with_else) {
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  MUST(cudaMemset(at, 0, sizeof(int)));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  MUST(cudaGraphConditionalHandleCreate(&handle, graph));
  int limit = 20, ten = 10, hundred = 100;
  void* question[] = {&handle, &at, &limit};
  const cudaGraphNode_t asks = add_kernel(graph, (void*)decide, question);
  cudaGraphNode_t node;
  cudaGraph_t* bodies = add_condition(graph, handle, cudaGraphCondTypeIf, with_else ? 2 : 1, &asks, &node);
  void *one[] = {&at, &ten}, *other[] = {&at, &hundred};
  add_kernel(bodies[0], (void*)add, one);
  if (with_else) add_kernel(bodies[1], (void*)add, other);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 4; ++i) MUST(cudaGraphLaunch(exec, 0));
  const int wanted = with_else ? 220 : 20;
  HOLDS(value_of(at) == wanted, "%d", value_of(at));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

static void while_it_improves() {
  float* x;
  int* steps;
  MUST(cudaMalloc(&x, sizeof(float)));
  MUST(cudaMalloc(&steps, sizeof(int)));
  MUST(cudaMemset(steps, 0, sizeof(int)));
  float start = 1, of = 1764, got = 0;
  MUST(cudaMemcpy(x, &start, sizeof start, cudaMemcpyHostToDevice));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  MUST(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNode_t node;
  cudaGraph_t* bodies = add_condition(graph, handle, cudaGraphCondTypeWhile, 1, nullptr, &node);
  // The body by capture.
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  MUST(cudaStreamBeginCaptureToGraph(stream, bodies[0], nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  newton<<<1, 1, 0, stream>>>(handle, x, of, steps);
  cudaGraph_t same;
  MUST(cudaStreamEndCapture(stream, &same));
  HOLDS(same == bodies[0], "another graph");
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, stream));
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaMemcpy(&got, x, sizeof got, cudaMemcpyDeviceToHost));
  HOLDS(std::fabs(got - 42) < 1e-3f, "%g", got);
  HOLDS(value_of(steps) > 5 && value_of(steps) < 20, "%d steps", value_of(steps));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(x));
  MUST(cudaFree(steps));
}

static void one_of_many() {
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  MUST(cudaMemset(at, 0, sizeof(int)));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle outer, inner;
  MUST(cudaGraphConditionalHandleCreate(&outer, graph, 0, 0));
  MUST(cudaGraphConditionalHandleCreate(&inner, graph, 1, cudaGraphCondAssignDefault));
  unsigned which = 2;
  void* question[] = {&outer, &which};
  const cudaGraphNode_t asks = add_kernel(graph, (void*)choose, question);
  cudaGraphNode_t node, nested;
  cudaGraph_t* bodies = add_condition(graph, outer, cudaGraphCondTypeSwitch, 4, &asks, &node);
  for (int i = 0; i < 4; ++i) {
    int what = 1 << i;
    void* params[] = {&at, &what};
    add_kernel(bodies[i], (void*)add, params);
  }
  cudaGraph_t* deeper = add_condition(bodies[2], inner, cudaGraphCondTypeIf, 1, nullptr, &nested);
  int thousand = 1000;
  void* params[] = {&at, &thousand};
  cudaGraphNode_t first;
  size_t count = 1;
  MUST(cudaGraphGetNodes(bodies[2], &first, &count));
  MUST(cudaGraphAddDependencies(bodies[2], &first, &nested, nullptr, 1));
  add_kernel(deeper[0], (void*)add, params);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, 0));
  HOLDS(value_of(at) == 1004, "%d", value_of(at));
  cudaGraph_t clone;
  REFUSES(cudaGraphClone(&clone, graph), cudaErrorInvalidValue);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

int main() {
  if_and_else(false);
  if_and_else(true);
  while_it_improves();
  one_of_many();
  return verdict();
}
