// Executable graphs that change between launches, and objects that live as long as their graphs.
#include "check.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

__device__ int counter;
__global__ void step(int* at, int times, int plus) {
  *at = *at * times + plus;
}
__global__ void other(int* at, int times, int plus) {
  *at = *at + times * plus;
}

static cudaGraph_t capture(cudaStream_t stream, int* at, int times, int plus) {
  cudaGraph_t graph;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  step<<<1, 1, 0, stream>>>(at, times, plus);
  step<<<1, 1, 0, stream>>>(at, 1, 1);
  MUST(cudaStreamEndCapture(stream, &graph));
  return graph;
}

static int value_of(const int* at) {
  int value = 0;
  MUST(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void of_a_whole_graph() {
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  MUST(cudaMemset(at, 0, sizeof(int)));
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaGraphExec_t exec = nullptr;
  int wanted = 0;
  // As frameworks do: capture anew, update if the shape is the same, else instantiate anew.
  for (int round = 1; round <= 5; ++round) {
    cudaGraph_t graph = capture(stream, at, round, round * 10);
    cudaGraphExecUpdateResultInfo info{};
    if (exec == nullptr)
      MUST(cudaGraphInstantiate(&exec, graph, 0));
    else
      MUST(cudaGraphExecUpdate(exec, graph, &info));
    HOLDS(info.result == cudaGraphExecUpdateSuccess, "%d", info.result);
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphLaunch(exec, stream));
    wanted = wanted * round + round * 10 + 1;
  }
  MUST(cudaStreamSynchronize(stream));
  HOLDS(value_of(at) == wanted, "%d", value_of(at));
  cudaGraph_t larger = capture(stream, at, 1, 1);
  cudaGraphNode_t node;
  MUST(cudaGraphAddEmptyNode(&node, larger, nullptr, 0));
  cudaGraphExecUpdateResultInfo info{};
  REFUSES(cudaGraphExecUpdate(exec, larger, &info), cudaErrorGraphExecUpdateFailure);
  HOLDS(info.result == cudaGraphExecUpdateErrorTopologyChanged, "%d", info.result);
  MUST(cudaGraphDestroy(larger));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(at));
}

static void of_single_nodes() {
  int *at, got = 0, source = 40, another = 50;
  MUST(cudaMalloc(&at, sizeof(int)));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t in, work, fill, out, variable;
  MUST(cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, at, &source, sizeof source, cudaMemcpyHostToDevice));
  int times = 2, plus = 1;
  void* params[] = {&at, &times, &plus};
  cudaKernelNodeParams kernel{};
  kernel.func = (void*)step;
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(1);
  kernel.kernelParams = params;
  MUST(cudaGraphAddKernelNode(&work, graph, &in, 1, &kernel));
  MUST(cudaGraphAddMemcpyNode1D(&out, graph, &work, 1, &got, at, sizeof got, cudaMemcpyDeviceToHost));
  cudaMemsetParams zero{at, 0, 0, 4, 1, 1};
  MUST(cudaGraphAddMemsetNode(&fill, graph, &out, 1, &zero));
  MUST(cudaGraphAddMemcpyNodeToSymbol(&variable, graph, nullptr, 0, counter, &source, sizeof source, 0,
                                      cudaMemcpyHostToDevice));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  const auto run = [&] {
    MUST(cudaGraphLaunch(exec, 0));
    MUST(cudaDeviceSynchronize());
    return got;
  };
  HOLDS(run() == 81, "%d", got);
  kernel.func = (void*)other;
  times = 3;
  plus = 5;
  MUST(cudaGraphExecKernelNodeSetParams(exec, work, &kernel));
  HOLDS(run() == 55, "%d", got);
  MUST(cudaGraphExecMemcpyNodeSetParams1D(exec, in, at, &another, sizeof another, cudaMemcpyHostToDevice));
  HOLDS(run() == 65, "%d", got);
  MUST(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, variable, counter, &another, sizeof another, 0,
                                                cudaMemcpyHostToDevice));
  zero.value = 9;
  MUST(cudaGraphExecMemsetNodeSetParams(exec, fill, &zero));
  MUST(cudaGraphNodeSetEnabled(exec, work, 0));
  unsigned enabled = 1;
  MUST(cudaGraphNodeGetEnabled(exec, work, &enabled));
  HOLDS(enabled == 0, "%u", enabled);
  HOLDS(run() == 50, "%d", got);
  HOLDS(value_of(at) == 9, "%d", value_of(at));
  int held = 0;
  MUST(cudaMemcpyFromSymbol(&held, counter, sizeof held));
  HOLDS(held == 50, "%d", held);
  REFUSES(cudaGraphExecMemcpyNodeSetParams1D(exec, in, &got, &another, 4, cudaMemcpyHostToHost),
          cudaErrorInvalidValue);
  // The graph is as it was.
  cudaKernelNodeParams told{};
  MUST(cudaGraphKernelNodeGetParams(work, &told));
  HOLDS(told.func == (void*)step, "the node changed too");
  cudaKernelNodeAttrValue value{};
  value.priority = -1;
  MUST(cudaGraphKernelNodeSetAttribute(work, cudaKernelNodeAttributePriority, &value));
  value = {};
  MUST(cudaGraphKernelNodeGetAttribute(work, cudaKernelNodeAttributePriority, &value));
  HOLDS(value.priority == -1, "%d", value.priority);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

static std::atomic<int> destroyed{0};
static void destroy(void* data) {
  delete static_cast<int*>(data);
  ++destroyed;
}

static void objects() {
  cudaUserObject_t object;
  MUST(cudaUserObjectCreate(&object, new int(5), destroy, 1, cudaUserObjectNoDestructorSync));
  cudaGraph_t graph;
  MUST(cudaGraphCreate(&graph, 0));
  MUST(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphDestroy(graph));
  HOLDS(destroyed == 0, "destroyed too early");
  MUST(cudaGraphLaunch(exec, 0));
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaDeviceSynchronize());
  while (destroyed == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

static void pictures() {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("graph-" + std::to_string(getpid()) + ".dot")).string();
  int* at;
  MUST(cudaMalloc(&at, sizeof(int)));
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  cudaGraph_t graph = capture(stream, at, 1, 2);
  MUST(cudaGraphDebugDotPrint(graph, path.c_str(), cudaGraphDebugDotFlagsVerbose));
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  HOLDS(text.find("digraph") == 0 && text.find("step") != std::string::npos, "%s", text.c_str());
  remove(path.c_str());
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(at));
}

int main() {
  of_a_whole_graph();
  of_single_nodes();
  objects();
  pictures();
  return verdict();
}
