// Graphs built node by node: dependencies, branches, copies of every form, children, clones, changed
// parameters, and what the calls tell of them.
#include "check.h"

__constant__ float factors[4];
__device__ int totals[4];

__global__ void scale(float* data, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * factor + factors[i % 4];
}
__global__ void add(float* out, const float* a, const float* b, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = a[i] + b[i];
}
__global__ void step(int* at, int times, int plus) {
  *at = *at * times + plus;
}
__global__ void count(int which) {
  atomicAdd(&totals[which], 1);
}

static cudaKernelNodeParams kernel(void* function, int blocks, int threads, void** params) {
  cudaKernelNodeParams p{};
  p.func = function;
  p.gridDim = dim3(blocks);
  p.blockDim = dim3(threads);
  p.kernelParams = params;
  return p;
}

// Two branches from one copy that meet in a sum.
static void diamond() {
  constexpr int kCount = 1000;
  std::vector<float> in(kCount), out(kCount), wanted(kCount);
  const float offsets[4] = {1, 2, 3, 4};
  for (int i = 0; i < kCount; ++i) {
    in[i] = static_cast<float>(i);
    wanted[i] = (in[i] * 2 + offsets[i % 4]) + (in[i] * 3 + offsets[i % 4]);
  }
  float *a, *b, *sum;
  MUST(cudaMalloc(&a, kCount * sizeof(float)));
  MUST(cudaMalloc(&b, kCount * sizeof(float)));
  MUST(cudaMalloc(&sum, kCount * sizeof(float)));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t constants, copies[2], scales[2], adds, back;
  MUST(cudaGraphAddMemcpyNodeToSymbol(&constants, graph, nullptr, 0, factors, offsets, sizeof offsets, 0,
                                      cudaMemcpyHostToDevice));
  MUST(cudaGraphAddMemcpyNode1D(&copies[0], graph, nullptr, 0, a, in.data(), kCount * sizeof(float),
                                cudaMemcpyHostToDevice));
  MUST(cudaGraphAddMemcpyNode1D(&copies[1], graph, &copies[0], 1, b, a, kCount * sizeof(float),
                                cudaMemcpyDeviceToDevice));
  int number = kCount;
  float two = 2, three = 3;
  void *first[] = {&a, &number, &two}, *second[] = {&b, &number, &three}, *third[] = {&sum, &a, &b, &number};
  cudaKernelNodeParams p = kernel((void*)scale, 4, 256, first);
  const cudaGraphNode_t before[] = {copies[1], constants};
  MUST(cudaGraphAddKernelNode(&scales[0], graph, before, 2, &p));
  p.kernelParams = second;
  MUST(cudaGraphAddKernelNode(&scales[1], graph, before, 2, &p));
  p = kernel((void*)add, 4, 256, third);
  MUST(cudaGraphAddKernelNode(&adds, graph, scales, 2, &p));
  MUST(cudaGraphAddMemcpyNode1D(&back, graph, &adds, 1, out.data(), sum, kCount * sizeof(float),
                                cudaMemcpyDeviceToHost));
  size_t nodes = 0, edges = 0, roots = 0;
  MUST(cudaGraphGetNodes(graph, nullptr, &nodes));
  MUST(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  MUST(cudaGraphGetRootNodes(graph, nullptr, &roots));
  HOLDS(nodes == 7 && edges == 8 && roots == 2, "%zu nodes, %zu edges, %zu roots", nodes, edges, roots);
  cudaKernelNodeParams told{};
  MUST(cudaGraphKernelNodeGetParams(scales[1], &told));
  HOLDS(told.func == (void*)scale && told.gridDim.x == 4 && told.blockDim.x == 256, "another kernel");
  HOLDS(*static_cast<float*>(told.kernelParams[2]) == 3, "another parameter");
  cudaMemcpy3DParms copy{};
  MUST(cudaGraphMemcpyNodeGetParams(back, &copy));
  HOLDS(copy.kind == cudaMemcpyDeviceToHost && copy.dstPtr.ptr == out.data() &&
            copy.extent.width == kCount * sizeof(float),
        "another copy");
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  for (int round = 0; round < 3; ++round) {
    std::fill(out.begin(), out.end(), 0.0f);
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < kCount; ++i) HOLDS(out[i] == wanted[i], "[%d] is %g", i, out[i]);
  }
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(a));
  MUST(cudaFree(b));
  MUST(cudaFree(sum));
}

static void order_of_edges() {
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  MUST(cudaMemset(at, 0, sizeof(int)));
  cudaGraph_t graph, clone;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t steps[5];
  for (int i = 0; i < 5; ++i) {
    int times = 10, plus = i + 1;
    void* params[] = {&at, &times, &plus};
    const cudaKernelNodeParams p = kernel((void*)step, 1, 1, params);
    MUST(cudaGraphAddKernelNode(&steps[i], graph, nullptr, 0, &p));
  }
  for (int i = 0; i + 1 < 5; ++i) MUST(cudaGraphAddDependencies(graph, &steps[i], &steps[i + 1], nullptr, 1));
  MUST(cudaGraphClone(&clone, graph));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, clone, 0));
  MUST(cudaGraphLaunch(exec, 0));
  int value = 0;
  MUST(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost));
  HOLDS(value == 12345, "%d", value);
  // The last in place of the first: 5 1 2 3 4.
  MUST(cudaGraphRemoveDependencies(graph, &steps[3], &steps[4], nullptr, 1));
  MUST(cudaGraphAddDependencies(graph, &steps[4], &steps[0], nullptr, 1));
  cudaGraphExec_t other;
  MUST(cudaGraphInstantiate(&other, graph, 0));
  MUST(cudaMemset(at, 0, sizeof(int)));
  MUST(cudaGraphLaunch(other, 0));
  MUST(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost));
  HOLDS(value == 51234, "%d", value);
  // A circle.
  MUST(cudaGraphAddDependencies(graph, &steps[3], &steps[4], nullptr, 1));
  cudaGraphExec_t none;
  REFUSES(cudaGraphInstantiate(&none, graph, 0), cudaErrorInvalidValue);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphExecDestroy(other));
  MUST(cudaGraphDestroy(clone));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

static void say(void* data) {
  *static_cast<std::string*>(data) += '.';
}

static void children_and_hosts() {
  std::string said;
  int zero[4] = {}, got[4] = {};
  MUST(cudaMemcpyToSymbol(totals, zero, sizeof zero));
  cudaGraph_t inner, graph;
  MUST(cudaGraphCreate(&inner, 0));
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node, children[3], host, back;
  int which = 2;
  void* params[] = {&which};
  const cudaKernelNodeParams p = kernel((void*)count, 2, 32, params);
  MUST(cudaGraphAddKernelNode(&node, inner, nullptr, 0, &p));
  for (int i = 0; i < 3; ++i)
    MUST(cudaGraphAddChildGraphNode(&children[i], graph, i == 0 ? nullptr : &children[i - 1], i == 0 ? 0 : 1,
                                    inner));
  cudaHostNodeParams call{say, &said};
  MUST(cudaGraphAddHostNode(&host, graph, &children[2], 1, &call));
  MUST(cudaGraphAddMemcpyNodeFromSymbol(&back, graph, &host, 1, got, totals, sizeof got, 0,
                                        cudaMemcpyDeviceToHost));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, 0));
  MUST(cudaDeviceSynchronize());
  HOLDS(got[2] == 3 * 64 && got[1] == 0 && said == ".", "%d, %s", got[2], said.c_str());
  cudaGraphNodeType type;
  MUST(cudaGraphNodeGetType(children[1], &type));
  HOLDS(type == cudaGraphNodeTypeGraph, "%d", type);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(inner));
  MUST(cudaGraphDestroy(graph));
}

static void rows_and_arrays() {
  constexpr size_t kWidth = 20, kHeight = 6;
  std::vector<int> in(kWidth * kHeight), out(kWidth * kHeight);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i);
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  MUST(cudaMallocArray(&array, &format, kWidth, kHeight));
  cudaPitchedPtr pitched;
  MUST(cudaMallocPitch(&pitched.ptr, &pitched.pitch, kWidth * sizeof(int), kHeight));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(in.data(), kWidth * sizeof(int), kWidth, kHeight);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(kWidth, kHeight, 1);
  copy.kind = cudaMemcpyHostToDevice;
  cudaGraphNode_t nodes[4];
  MUST(cudaGraphAddMemcpyNode(&nodes[0], graph, nullptr, 0, &copy));
  copy = {};
  copy.srcArray = array;
  copy.dstPtr = make_cudaPitchedPtr(pitched.ptr, pitched.pitch, kWidth * sizeof(int), kHeight);
  copy.extent = make_cudaExtent(kWidth, kHeight, 1);
  copy.kind = cudaMemcpyDeviceToDevice;
  MUST(cudaGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &copy));
  cudaMemsetParams fill{};
  fill.dst = static_cast<char*>(pitched.ptr) + pitched.pitch;
  fill.pitch = pitched.pitch;
  fill.value = 77;
  fill.elementSize = 4;
  fill.width = 3;
  fill.height = 2;
  MUST(cudaGraphAddMemsetNode(&nodes[2], graph, &nodes[1], 1, &fill));
  copy = {};
  copy.srcPtr = make_cudaPitchedPtr(pitched.ptr, pitched.pitch, kWidth * sizeof(int), kHeight);
  copy.dstPtr = make_cudaPitchedPtr(out.data(), kWidth * sizeof(int), kWidth * sizeof(int), kHeight);
  copy.extent = make_cudaExtent(kWidth * sizeof(int), kHeight, 1);
  copy.kind = cudaMemcpyDeviceToHost;
  MUST(cudaGraphAddMemcpyNode(&nodes[3], graph, &nodes[2], 1, &copy));
  cudaMemcpy3DParms told{};
  MUST(cudaGraphMemcpyNodeGetParams(nodes[0], &told));
  HOLDS(told.dstArray == array && told.extent.width == kWidth, "%zu", told.extent.width);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, 0));
  MUST(cudaDeviceSynchronize());
  for (size_t y = 0; y < kHeight; ++y)
    for (size_t x = 0; x < kWidth; ++x) {
      const int wanted = (y == 1 || y == 2) && x < 3 ? 77 : in[y * kWidth + x];
      HOLDS(out[y * kWidth + x] == wanted, "(%zu, %zu) is %d", x, y, out[y * kWidth + x]);
    }
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFreeArray(array));
  MUST(cudaFree(pitched.ptr));
}

static void nodes_of_any_kind() {
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t fill, kernels[2], copy;
  cudaGraphNodeParams params = {cudaGraphNodeTypeMemset};
  params.memset.dst = at;
  params.memset.value = 5;
  params.memset.elementSize = 4;
  params.memset.width = 1;
  params.memset.height = 1;
  MUST(cudaGraphAddNode(&fill, graph, nullptr, nullptr, 0, &params));
  int times = 3, plus = 1, got = 0;
  void* arguments[] = {&at, &times, &plus};
  params = {cudaGraphNodeTypeKernel};
  params.kernel.func = (void*)step;
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = arguments;
  MUST(cudaGraphAddNode(&kernels[0], graph, &fill, nullptr, 1, &params));
  cudaGraphEdgeData programmatic{};
  programmatic.type = cudaGraphDependencyTypeProgrammatic;
  programmatic.from_port = cudaGraphKernelNodePortProgrammatic;
  times = 2;
  MUST(cudaGraphAddNode(&kernels[1], graph, &kernels[0], &programmatic, 1, &params));
  params = {cudaGraphNodeTypeMemcpy};
  params.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(at, 4, 4, 1);
  params.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(&got, 4, 4, 1);
  params.memcpy.copyParams.extent = make_cudaExtent(4, 1, 1);
  params.memcpy.copyParams.kind = cudaMemcpyDefault;
  MUST(cudaGraphAddNode(&copy, graph, &kernels[1], nullptr, 1, &params));
  cudaGraphNode_t from[3], to[3];
  size_t count = 3;
  REFUSES(cudaGraphGetEdges(graph, from, to, nullptr, &count), cudaErrorLossyQuery);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, 0));
  MUST(cudaDeviceSynchronize());
  HOLDS(got == 33, "%d", got);
  params.reserved2 = 1;
  REFUSES(cudaGraphNodeSetParams(copy, &params), cudaErrorInvalidValue);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

static void events_between_graphs_and_streams() {
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  MUST(cudaMemset(at, 0, sizeof(int)));
  cudaEvent_t start, end;
  MUST(cudaEventCreate(&start));
  MUST(cudaEventCreate(&end));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first, work, last;
  int times = 1, plus = 4;
  void* params[] = {&at, &times, &plus};
  const cudaKernelNodeParams p = kernel((void*)step, 1, 1, params);
  MUST(cudaGraphAddEventRecordNode(&first, graph, nullptr, 0, start));
  MUST(cudaGraphAddKernelNode(&work, graph, &first, 1, &p));
  MUST(cudaGraphAddEventRecordNode(&last, graph, &work, 1, end));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream, other;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  MUST(cudaGraphLaunch(exec, stream));
  MUST(cudaStreamWaitEvent(other, end, 0));
  int got = 0;
  MUST(cudaMemcpyAsync(&got, at, sizeof got, cudaMemcpyDeviceToHost, other));
  MUST(cudaStreamSynchronize(other));
  HOLDS(got == 4, "%d", got);
  MUST(cudaEventSynchronize(end));
  float ms = -1;
  MUST(cudaEventElapsedTime(&ms, start, end));
  HOLDS(ms >= 0, "%g", ms);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

int main() {
  diamond();
  order_of_edges();
  children_and_hosts();
  rows_and_arrays();
  nodes_of_any_kind();
  events_between_graphs_and_streams();
  REFUSES(cudaGraphCreate(nullptr, 0), cudaErrorInvalidValue);
  REFUSES(cudaGraphLaunch(nullptr, 0), cudaErrorInvalidValue);
  return verdict();
}
