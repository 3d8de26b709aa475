// A default stream per thread: threads that use no stream by name work beside each other, each on work of its
// own; what the legacy default stream orders is asked for by name. Compiled with a default stream per thread.
#include "check.h"

#include <atomic>
#include <thread>

constexpr int kThreads = 6, kPoints = 4096, kRounds = 5;

__global__ void smooth(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (in[(i + n - 1) % n] + 2 * in[i] + in[(i + 1) % n]) / 4;
}
__global__ void wait_for(volatile int* flag, int* seen) {
  while (*flag == 0) {
  }
  *seen = 1;
}
__global__ void add_to(int* sum, int what) {
  *sum = *sum * 2 + what;
}

static std::atomic<int> wrong{0};

static void smooths(int seed) {
  std::vector<float> now(kPoints), next(kPoints), out(kPoints);
  for (int i = 0; i < kPoints; ++i) now[i] = static_cast<float>((i * seed) % 97);
  float* buffers[2];
  for (float*& buffer : buffers) MUST(cudaMallocAsync(&buffer, kPoints * sizeof(float), 0));
  MUST(cudaMemcpyAsync(buffers[0], now.data(), kPoints * sizeof(float), cudaMemcpyHostToDevice));
  for (int round = 0; round < kRounds; ++round) {
    smooth<<<kPoints / 128, 128>>>(buffers[round % 2], buffers[(round + 1) % 2], kPoints);
    for (int i = 0; i < kPoints; ++i)
      next[i] = (now[(i + kPoints - 1) % kPoints] + 2 * now[i] + now[(i + 1) % kPoints]) / 4;
    now.swap(next);
  }
  MUST(cudaMemcpyAsync(out.data(), buffers[kRounds % 2], kPoints * sizeof(float), cudaMemcpyDeviceToHost, 0));
  for (float* buffer : buffers) MUST(cudaFreeAsync(buffer, 0));
  MUST(cudaStreamSynchronize(0));  // of this thread alone
  if (out != now) ++wrong;
}

// A kernel of one thread waits for what another thread does later: neither waits for the other's stream.
static void beside_each_other() {
  int *flag, *seen;
  MUST(cudaHostAlloc(&flag, 2 * sizeof(int), cudaHostAllocMapped));
  seen = flag + 1;
  flag[0] = flag[1] = 0;
  int* on_device;
  MUST(cudaHostGetDevicePointer(&on_device, flag, 0));
  wait_for<<<1, 1>>>(on_device, on_device + 1);
  HOLDS(cudaStreamQuery(0) == cudaErrorNotReady, "it waits");
  HOLDS(cudaPeekAtLastError() == cudaSuccess, "cudaErrorNotReady is no last error: %d",
        cudaPeekAtLastError());
  std::thread([] { smooths(11); }).join();
  HOLDS(*static_cast<volatile int*>(seen) == 0, "still");
  *static_cast<volatile int*>(flag) = 1;
  MUST(cudaStreamSynchronize(cudaStreamPerThread));
  HOLDS(*seen == 1, "seen");
  MUST(cudaFreeHost(flag));
}

// "The legacy default stream ... synchronizes with" the per-thread streams, which are blocking ones.
static void legacy_orders() {
  int* sum;
  MUST(cudaMalloc(&sum, sizeof(int)));
  MUST(cudaMemsetAsync(sum, 0, sizeof(int), cudaStreamPerThread));
  add_to<<<1, 1>>>(sum, 1);
  add_to<<<1, 1, 0, cudaStreamLegacy>>>(sum, 0);
  add_to<<<1, 1>>>(sum, 1);
  int value = 0;
  MUST(cudaMemcpy(&value, sum, sizeof value, cudaMemcpyDeviceToHost));
  HOLDS(value == 5, "%d", value);
  std::thread([sum] { add_to<<<1, 1, 0, cudaStreamLegacy>>>(sum, 1); }).join();
  add_to<<<1, 1>>>(sum, 0);
  MUST(cudaMemcpy(&value, sum, sizeof value, cudaMemcpyDeviceToHost));
  HOLDS(value == 22, "%d", value);
  unsigned flags = 77;
  MUST(cudaStreamGetFlags(cudaStreamPerThread, &flags));
  HOLDS(flags == cudaStreamDefault, "a blocking stream: %u", flags);
  unsigned long long mine = 0, theirs = 0;
  MUST(cudaStreamGetId(cudaStreamPerThread, &mine));
  std::thread([&theirs] { MUST(cudaStreamGetId(cudaStreamPerThread, &theirs)); }).join();
  HOLDS(mine != theirs, "each thread has its own: %llu", mine);
  MUST(cudaFree(sum));
}

int main() {
  std::vector<std::thread> threads;
  for (int i = 1; i <= kThreads; ++i) threads.emplace_back(smooths, i);
  for (std::thread& thread : threads) thread.join();
  HOLDS(wrong == 0, "%d threads", wrong.load());
  beside_each_other();
  legacy_orders();
  return verdict();
}
