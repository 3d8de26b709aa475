// Graphs that change: nodes of an executable one that get other parameters or are switched off, dependencies
// that are taken away, updates that do and do not fit, and objects that live as long as a graph needs them.
#include "check.h"

#include <atomic>

__global__ void affine(int* values, int n, int times, int plus) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = values[i] * times + plus;
}

constexpr int kCount = 100;
struct Chain {
  cudaGraph_t graph;
  cudaGraphNode_t fill, first, second, back;
};

static cudaKernelNodeParams affine_params(void** arguments, unsigned threads = 128) {
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(affine);
  params.gridDim = dim3(1);
  params.blockDim = dim3(threads);
  params.kernelParams = arguments;
  return params;
}

static Chain chain(int* device, int* host, int start, int times, int plus, bool with_second = true) {
  Chain c = {};
  MUST(cudaGraphCreate(&c.graph, 0));
  cudaMemsetParams fill = {};
  fill.dst = device, fill.elementSize = 4, fill.value = start, fill.width = kCount, fill.height = 1;
  MUST(cudaGraphAddMemsetNode(&c.fill, c.graph, nullptr, 0, &fill));
  int n = kCount, ten = 10;
  void* arguments[] = {&device, &n, &times, &plus};
  cudaKernelNodeParams params = affine_params(arguments);
  MUST(cudaGraphAddKernelNode(&c.first, c.graph, &c.fill, 1, &params));
  times = ten;  // parameters are copied when the node is added
  plus = 0;
  cudaGraphNode_t last = c.first;
  if (with_second) {
    MUST(cudaGraphAddKernelNode(&c.second, c.graph, &c.first, 1, &params));
    last = c.second;
  }
  MUST(cudaGraphAddMemcpyNode1D(&c.back, c.graph, &last, 1, host, device, kCount * sizeof(int),
                                cudaMemcpyDeviceToHost));
  return c;
}

static int run(cudaGraphExec_t exec, int* host) {
  std::fill_n(host, kCount, -1);
  MUST(cudaGraphLaunch(exec, cudaStreamPerThread));
  MUST(cudaStreamSynchronize(cudaStreamPerThread));
  HOLDS(std::count(host, host + kCount, host[0]) == kCount, "all alike");
  return host[0];
}

static void executable_changes(int* device, int* host) {
  const Chain c = chain(device, host, 1, 2, 3);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, c.graph, 0));
  HOLDS(run(exec, host) == 50, "(1 * 2 + 3) * 10: %d", host[0]);
  int n = kCount, times = 4, plus = 1;
  void* arguments[] = {&device, &n, &times, &plus};
  cudaKernelNodeParams params = affine_params(arguments);
  MUST(cudaGraphExecKernelNodeSetParams(exec, c.first, &params));
  HOLDS(run(exec, host) == 50, "(1 * 4 + 1) * 10: %d", host[0]);
  cudaMemsetParams fill = {};
  fill.dst = device, fill.elementSize = 4, fill.value = 7, fill.width = kCount, fill.height = 1;
  MUST(cudaGraphExecMemsetNodeSetParams(exec, c.fill, &fill));
  HOLDS(run(exec, host) == 290, "(7 * 4 + 1) * 10: %d", host[0]);
  unsigned enabled = 9;
  MUST(cudaGraphNodeSetEnabled(exec, c.second, 0));
  MUST(cudaGraphNodeGetEnabled(exec, c.second, &enabled));
  HOLDS(enabled == 0 && run(exec, host) == 29, "without the second: %d", host[0]);
  MUST(cudaGraphNodeSetEnabled(exec, c.second, 1));
  HOLDS(run(exec, host) == 290, "with it again: %d", host[0]);
  // The graph itself is as it was, and so is another executable of it.
  cudaGraphExec_t other;
  MUST(cudaGraphInstantiate(&other, c.graph, 0));
  HOLDS(run(other, host) == 50, "(1 * 2 + 3) * 10: %d", host[0]);
  MUST(cudaGraphKernelNodeSetParams(c.first, &params));
  HOLDS(run(other, host) == 50, "an executable doesn't follow its graph: %d", host[0]);
  cudaKernelNodeParams told = {};
  MUST(cudaGraphKernelNodeGetParams(c.first, &told));
  HOLDS(told.func == params.func && told.blockDim.x == 128 && *static_cast<int*>(told.kernelParams[2]) == 4,
        "the graph has it: %d", *static_cast<int*>(told.kernelParams[2]));
  REFUSES(cudaGraphMemsetNodeSetParams(c.first, &fill), cudaErrorInvalidValue);
  REFUSES(cudaGraphNodeSetEnabled(exec, nullptr, 1), cudaErrorInvalidValue);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphExecDestroy(other));
  MUST(cudaGraphDestroy(c.graph));
}

static void updates(int* device, int* host) {
  const Chain was = chain(device, host, 1, 2, 3), fits = chain(device, host, 2, 5, 6),
              shorter = chain(device, host, 2, 5, 6, false);
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, was.graph, 0));
  cudaGraphExecUpdateResultInfo result = {};
  MUST(cudaGraphExecUpdate(exec, fits.graph, &result));
  HOLDS(result.result == cudaGraphExecUpdateSuccess && run(exec, host) == 160, "(2 * 5 + 6) * 10: %d",
        host[0]);
  REFUSES(cudaGraphExecUpdate(exec, shorter.graph, &result), cudaErrorGraphExecUpdateFailure);
  HOLDS(result.result == cudaGraphExecUpdateErrorTopologyChanged, "%d", result.result);
  HOLDS(run(exec, host) == 160, "it is as it was: %d", host[0]);
  MUST(cudaGraphExecDestroy(exec));
  // Dependencies: without the edge, the second comes when it likes; with another, before the first.
  size_t count = 0;
  MUST(cudaGraphNodeGetDependencies(was.second, nullptr, nullptr, &count));
  HOLDS(count == 1, "%zu", count);
  MUST(cudaGraphRemoveDependencies(was.graph, &was.first, &was.second, nullptr, 1));
  MUST(cudaGraphRemoveDependencies(was.graph, &was.fill, &was.first, nullptr, 1));
  MUST(cudaGraphAddDependencies(was.graph, &was.fill, &was.second, nullptr, 1));
  MUST(cudaGraphAddDependencies(was.graph, &was.second, &was.first, nullptr, 1));
  MUST(cudaGraphRemoveDependencies(was.graph, &was.second, &was.back, nullptr, 1));
  MUST(cudaGraphAddDependencies(was.graph, &was.first, &was.back, nullptr, 1));
  MUST(cudaGraphInstantiate(&exec, was.graph, 0));
  HOLDS(run(exec, host) == 23, "1 * 10 * 2 + 3: %d", host[0]);
  MUST(cudaGraphExecDestroy(exec));
  // A circle can't be run.
  MUST(cudaGraphAddDependencies(was.graph, &was.back, &was.fill, nullptr, 1));
  HOLDS(cudaGraphInstantiate(&exec, was.graph, 0) != cudaSuccess && cudaGetLastError() != cudaSuccess,
        "a circle");
  for (const Chain& c : {was, fits, shorter}) MUST(cudaGraphDestroy(c.graph));
}

static std::atomic<int> destroyed{0};
static void destroy(void* data) {
  ++destroyed;
  delete static_cast<int*>(data);
}

static void objects(int* device, int* host) {
  const Chain c = chain(device, host, 1, 2, 3);
  cudaUserObject_t object;
  MUST(cudaUserObjectCreate(&object, new int(5), destroy, 1, cudaUserObjectNoDestructorSync));
  MUST(cudaGraphRetainUserObject(c.graph, object, 1, cudaGraphUserObjectMove));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, c.graph, 0));
  MUST(cudaGraphDestroy(c.graph));
  HOLDS(destroyed == 0, "the executable graph has it still");
  HOLDS(run(exec, host) == 50, "%d", host[0]);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaDeviceSynchronize());
  for (int i = 0; i < 1000000 && destroyed == 0; ++i) MUST(cudaStreamQuery(cudaStreamPerThread));
  HOLDS(destroyed == 1, "%d", destroyed.load());
}

// Memory that a graph allocates and leaves to the program, freed by the next launch of it.
static void memory_that_stays(int* host) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t node, kernel;
  MUST(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams alloc = {};
  alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
  alloc.bytesize = kCount * sizeof(int);
  MUST(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc));
  int* memory = static_cast<int*>(alloc.dptr);
  int n = kCount, times = 0, plus = 8;
  void* arguments[] = {&memory, &n, &times, &plus};
  cudaKernelNodeParams params = affine_params(arguments);
  MUST(cudaGraphAddKernelNode(&kernel, graph, &node, 1, &params));
  MUST(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  for (int launch = 0; launch < 3; ++launch) {
    MUST(cudaGraphLaunch(exec, cudaStreamPerThread));
    MUST(cudaMemcpyAsync(host, memory, kCount * sizeof(int), cudaMemcpyDeviceToHost, cudaStreamPerThread));
    MUST(cudaStreamSynchronize(cudaStreamPerThread));
    HOLDS(std::count(host, host + kCount, 8) == kCount, "launch %d: %d", launch, host[0]);
  }
  MUST(cudaFreeAsync(memory, cudaStreamPerThread));
  MUST(cudaStreamSynchronize(cudaStreamPerThread));
  MUST(cudaGraphExecDestroy(exec));
  // Without the flag a second launch is refused while the memory is there.
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphLaunch(exec, cudaStreamPerThread));
  REFUSES(cudaGraphLaunch(exec, cudaStreamPerThread), cudaErrorInvalidValue);
  MUST(cudaFreeAsync(memory, cudaStreamPerThread));
  MUST(cudaGraphLaunch(exec, cudaStreamPerThread));
  MUST(cudaFreeAsync(memory, cudaStreamPerThread));
  MUST(cudaStreamSynchronize(cudaStreamPerThread));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  size_t used = 1;
  MUST(cudaDeviceGraphMemTrim(0));
  MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  HOLDS(used == 0, "%zu", used);
}

int main() {
  int *device, *host;
  MUST(cudaMalloc(&device, kCount * sizeof(int)));
  MUST(cudaMallocHost(&host, kCount * sizeof(int)));
  executable_changes(device, host);
  updates(device, host);
  objects(device, host);
  memory_that_stays(host);
  MUST(cudaFree(device));
  MUST(cudaFreeHost(host));
  return verdict();
}
