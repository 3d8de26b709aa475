// Graphs as frameworks replay them: each thread captures its own stream while others work, static buffers are
// filled before a replay, and a graph spans two GPUs. Compiled with a default stream per thread.
#include "check.h"

#include <atomic>
#include <thread>

__global__ void layer(float* out, const float* in, const float* weights, int width) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float sum = 0;
  for (int k = 0; k < width; ++k) sum += weights[i * width + k] * in[k];
  out[i] = sum > 0 ? sum : 0;
}
__global__ void step(int* at, int times, int plus) {
  *at = *at * times + plus;
}

static std::vector<float> on_host(const std::vector<float>& in, const std::vector<float>& weights,
                                  int width) {
  std::vector<float> out(width);
  for (int i = 0; i < width; ++i) {
    float sum = 0;
    for (int k = 0; k < width; ++k) sum += weights[i * width + k] * in[k];
    out[i] = sum > 0 ? sum : 0;
  }
  return out;
}

static std::atomic<int> wrong{0};

// cudaStreamPerThread is what <<<>>> means here, and may be captured.
static void replay(int seed) {
  constexpr int kWidth = 32;
  std::vector<float> weights(kWidth * kWidth), in(kWidth), out(kWidth);
  for (int i = 0; i < kWidth * kWidth; ++i) weights[i] = static_cast<float>((i * seed) % 7 - 3);
  float *w, *x, *hidden, *y;
  MUST(cudaMalloc(&w, weights.size() * sizeof(float)));
  MUST(cudaMalloc(&x, kWidth * sizeof(float)));
  MUST(cudaMalloc(&hidden, kWidth * sizeof(float)));
  MUST(cudaMalloc(&y, kWidth * sizeof(float)));
  MUST(cudaMemcpy(w, weights.data(), weights.size() * sizeof(float), cudaMemcpyHostToDevice));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  MUST(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
  layer<<<1, kWidth>>>(hidden, x, w, kWidth);
  layer<<<1, kWidth>>>(y, hidden, w, kWidth);
  MUST(cudaStreamEndCapture(cudaStreamPerThread, &graph));
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  MUST(cudaGraphUpload(exec, cudaStreamPerThread));
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kWidth; ++i) in[i] = static_cast<float>((i + round * seed) % 5);
    MUST(cudaMemcpyAsync(x, in.data(), kWidth * sizeof(float), cudaMemcpyHostToDevice, 0));
    MUST(cudaGraphLaunch(exec, 0));
    MUST(cudaMemcpyAsync(out.data(), y, kWidth * sizeof(float), cudaMemcpyDeviceToHost, 0));
    MUST(cudaStreamSynchronize(0));
    if (out != on_host(on_host(in, weights, kWidth), weights, kWidth)) ++wrong;
  }
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaFree(w));
  MUST(cudaFree(x));
  MUST(cudaFree(hidden));
  MUST(cudaFree(y));
}

static void over_two_gpus() {
  int count = 0;
  MUST(cudaGetDeviceCount(&count));
  if (count < 2) return;
  int *here, *there;
  cudaStream_t first, second;
  cudaEvent_t fork, join;
  MUST(cudaSetDevice(1));
  MUST(cudaMalloc(&there, sizeof(int)));
  MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  MUST(cudaMemset(there, 0, sizeof(int)));
  MUST(cudaDeviceSynchronize());
  MUST(cudaSetDevice(0));
  MUST(cudaMalloc(&here, sizeof(int)));
  MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  MUST(cudaMemset(here, 0, sizeof(int)));
  MUST(cudaDeviceSynchronize());
  cudaGraph_t graph;
  MUST(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  step<<<1, 1, 0, first>>>(here, 2, 1);
  MUST(cudaEventRecord(fork, first));
  MUST(cudaSetDevice(1));
  MUST(cudaStreamWaitEvent(second, fork, 0));
  step<<<1, 1, 0, second>>>(there, 3, 1);
  MUST(cudaEventRecord(join, second));
  MUST(cudaSetDevice(0));
  MUST(cudaStreamWaitEvent(first, join, 0));
  step<<<1, 1, 0, first>>>(here, 10, 0);
  MUST(cudaStreamEndCapture(first, &graph));
  cudaGraphExec_t exec;
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) MUST(cudaGraphLaunch(exec, first));
  MUST(cudaStreamSynchronize(first));
  int values[2] = {};
  MUST(cudaMemcpy(&values[0], here, sizeof(int), cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(&values[1], there, sizeof(int), cudaMemcpyDeviceToHost));
  HOLDS(values[0] == 210 && values[1] == 4, "%d, %d", values[0], values[1]);
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
}

int main() {
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 4; ++seed) threads.emplace_back(replay, seed);
  for (std::thread& thread : threads) thread.join();
  HOLDS(wrong == 0, "%d replays", wrong.load());
  over_two_gpus();
  return verdict();
}
