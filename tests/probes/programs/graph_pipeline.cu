// A solver as a graph of graphs: a child graph of two relaxations in the body of a while node, whose kernel
// looks whether more is needed; before it copies and memory of the graph's own, behind it a function of the
// host. Clones and captures of it do the same.
#include "check.h"

__global__ void relax(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = i == 0 || i == n - 1 ? in[i] : (in[i - 1] + in[i + 1]) * 0.5f;
}
__global__ void set_worst(unsigned* worst) {
  *worst = 0;
}
__global__ void look(const float* before, const float* now, int n, unsigned* worst) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  // Floats that are not negative are in the order of their bits.
  if (i < n) atomicMax(worst, __float_as_uint(fabsf(now[i] - before[i])));
}
__global__ void decide(const unsigned* worst, float enough, int* rounds, cudaGraphConditionalHandle more) {
  ++*rounds;
  cudaGraphSetConditional(more, __uint_as_float(*worst) > enough ? 1 : 0);
}

struct Problem {
  int n;
  float enough;
  float *a, *b;
  unsigned* worst;
  int* rounds;
  std::vector<float>* host;
};

static cudaGraphNode_t kernel_node(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, void* function,
                                   int n, std::vector<void*> arguments) {
  cudaKernelNodeParams params = {};
  params.func = function;
  params.gridDim = dim3((n + 63) / 64);
  params.blockDim = dim3(n == 1 ? 1 : 64);
  params.kernelParams = arguments.data();
  cudaGraphNode_t node;
  MUST(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

static void count_call(void* data) {
  ++*static_cast<int*>(data);
}

static cudaGraph_t build(Problem& p, int* calls) {
  cudaGraph_t graph, pair;
  MUST(cudaGraphCreate(&graph, 0));
  MUST(cudaGraphCreate(&pair, 0));
  const cudaGraphNode_t there =
      kernel_node(pair, {}, reinterpret_cast<void*>(relax), p.n, {&p.a, &p.b, &p.n});
  kernel_node(pair, {there}, reinterpret_cast<void*>(relax), p.n, {&p.b, &p.a, &p.n});

  cudaGraphConditionalHandle more;
  MUST(cudaGraphConditionalHandleCreate(&more, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNode_t start, clear, loop, report;
  cudaMemsetParams zero = {};
  zero.dst = p.rounds, zero.elementSize = 4, zero.width = 1, zero.height = 1;
  MUST(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &zero));
  MUST(cudaGraphAddMemcpyNode1D(&start, graph, nullptr, 0, p.a, p.host->data(), p.n * sizeof(float),
                                cudaMemcpyHostToDevice));
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = more;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  const cudaGraphNode_t both[] = {start, clear};
  MUST(cudaGraphAddNode(&loop, graph, both, nullptr, 2, &params));
  const cudaGraph_t body = params.conditional.phGraph_out[0];
  cudaGraphNode_t twice;
  MUST(cudaGraphAddChildGraphNode(&twice, body, nullptr, 0, pair));
  const cudaGraphNode_t reset = kernel_node(body, {}, reinterpret_cast<void*>(set_worst), 1, {&p.worst});
  const cudaGraphNode_t looked =
      kernel_node(body, {twice, reset}, reinterpret_cast<void*>(look), p.n, {&p.b, &p.a, &p.n, &p.worst});
  kernel_node(body, {looked}, reinterpret_cast<void*>(decide), 1, {&p.worst, &p.enough, &p.rounds, &more});
  cudaHostNodeParams host = {count_call, calls};
  MUST(cudaGraphAddHostNode(&report, graph, &loop, 1, &host));
  MUST(cudaGraphDestroy(pair));  // the node has a copy
  return graph;
}

static int on_host(std::vector<float>& values, float enough) {
  std::vector<float> next(values);
  const int n = static_cast<int>(values.size());
  auto step = [n](const std::vector<float>& in, std::vector<float>& out) {
    for (int i = 0; i < n; ++i) out[i] = i == 0 || i == n - 1 ? in[i] : (in[i - 1] + in[i + 1]) * 0.5f;
  };
  for (int rounds = 1;; ++rounds) {
    step(values, next);
    step(next, values);
    float worst = 0;
    for (int i = 0; i < n; ++i) worst = std::max(worst, std::abs(values[i] - next[i]));
    if (!(worst > enough)) return rounds;
  }
}

static void check(Problem& p, cudaGraph_t graph, cudaStream_t stream, int* calls, const char* which) {
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    const int before = *calls;
    MUST(cudaGraphLaunch(exec, stream));
    int rounds = 0;
    std::vector<float> out(p.n), wanted(*p.host);
    MUST(cudaMemcpyAsync(out.data(), p.a, p.n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    MUST(cudaMemcpyAsync(&rounds, p.rounds, sizeof rounds, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    const int wanted_rounds = on_host(wanted, p.enough);
    HOLDS(rounds == wanted_rounds && out == wanted, "%s of %d: %d rounds, %d", which, p.n, rounds,
          wanted_rounds);
    HOLDS(*calls == before + 1, "%s: the host's function ran %d times", which, *calls - before);
    for (float& value : *p.host) value = value * 0.5f + 1;  // the copy reads what is there at the launch
  }
  MUST(cudaGraphExecDestroy(exec));
}

static void solves(int n) {
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = static_cast<float>(i * 37 % 64);
  Problem p{n, 0.5f, nullptr, nullptr, nullptr, nullptr, &host};
  MUST(cudaMalloc(&p.a, n * sizeof(float)));
  MUST(cudaMalloc(&p.b, n * sizeof(float)));
  MUST(cudaMalloc(&p.worst, sizeof(unsigned)));
  MUST(cudaMalloc(&p.rounds, sizeof(int)));
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int calls = 0;
  const cudaGraph_t graph = build(p, &calls);
  size_t nodes = 0, edges = 0;
  MUST(cudaGraphGetNodes(graph, nullptr, &nodes));
  MUST(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  HOLDS(nodes == 4 && edges == 3, "%zu nodes, %zu edges", nodes, edges);
  check(p, graph, stream, &calls, "the graph");
  MUST(cudaGraphDestroy(graph));
  for (void* memory : {static_cast<void*>(p.a), static_cast<void*>(p.b), static_cast<void*>(p.worst),
                       static_cast<void*>(p.rounds)})
    MUST(cudaFree(memory));
  MUST(cudaStreamDestroy(stream));
}

// A fork and a join in memory of the graph's own, captured; its clone does the same when it is gone.
static void forks_and_clones() {
  constexpr int kCount = 300;
  cudaStream_t stream, side;
  cudaEvent_t fork, join;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  std::vector<float> in(kCount), out(kCount), wanted(kCount), between(kCount);
  for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i % 17);
  float *a, *b;
  unsigned *worst, worst_host = 0;
  MUST(cudaMalloc(&worst, sizeof *worst));
  cudaGraph_t graph, clone;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  MUST(cudaMallocAsync(&a, kCount * sizeof(float), stream));
  MUST(cudaMallocAsync(&b, kCount * sizeof(float), stream));
  MUST(cudaMemcpyAsync(a, in.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream));
  MUST(cudaEventRecord(fork, stream));
  MUST(cudaStreamWaitEvent(side, fork, 0));
  set_worst<<<1, 1, 0, side>>>(worst);
  relax<<<(kCount + 63) / 64, 64, 0, stream>>>(a, b, kCount);
  MUST(cudaEventRecord(join, side));
  MUST(cudaStreamWaitEvent(stream, join, 0));
  look<<<(kCount + 63) / 64, 64, 0, stream>>>(a, b, kCount, worst);
  MUST(cudaMemcpyAsync(out.data(), b, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream));
  MUST(cudaMemcpyAsync(&worst_host, worst, sizeof worst_host, cudaMemcpyDeviceToHost, stream));
  MUST(cudaFreeAsync(a, stream));
  MUST(cudaFreeAsync(b, stream));
  MUST(cudaStreamEndCapture(stream, &graph));
  cudaStreamCaptureStatus status;
  MUST(cudaStreamIsCapturing(side, &status));
  HOLDS(status == cudaStreamCaptureStatusNone, "the other stream is free again");
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphDestroy(graph));  // what is executable has all it needs
  for (int launch = 0; launch < 3; ++launch) {
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    float most = 0;
    for (int i = 0; i < kCount; ++i) {
      wanted[i] = i == 0 || i == kCount - 1 ? in[i] : (in[i - 1] + in[i + 1]) * 0.5f;
      most = std::max(most, std::abs(wanted[i] - in[i]));
    }
    float told;
    memcpy(&told, &worst_host, sizeof told);
    HOLDS(out == wanted && told == most, "launch %d: %g, %g", launch, told, most);
    for (float& value : in) value = value * 2 - 3;
  }
  MUST(cudaGraphExecDestroy(exec));
  // A graph without memory of its own can be cloned; nodes are found in the clone by those of the original.
  MUST(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t set = kernel_node(graph, {}, reinterpret_cast<void*>(set_worst), 1, {&worst});
  MUST(cudaGraphClone(&clone, graph));
  cudaGraphNode_t found;
  MUST(cudaGraphNodeFindInClone(&found, set, clone));
  HOLDS(found != set, "a node of its own");
  MUST(cudaGraphDestroyNode(found));
  size_t nodes = 9;
  MUST(cudaGraphGetNodes(clone, nullptr, &nodes));
  HOLDS(nodes == 0, "%zu", nodes);
  MUST(cudaGraphGetNodes(graph, nullptr, &nodes));
  HOLDS(nodes == 1, "the original has it still: %zu", nodes);
  MUST(cudaGraphDestroy(clone));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(worst));
  MUST(cudaEventDestroy(fork));
  MUST(cudaEventDestroy(join));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaStreamDestroy(side));
}

int main() {
  for (const int n : {3, 200}) solves(n);
  forks_and_clones();
  return verdict();
}
