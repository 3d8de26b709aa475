// Many threads of one process on one GPU: they take jobs from a queue, share code, constants and counters of
// the GPU, and each has a stream; handles made by one thread are used and destroyed by another.
#include "check.h"

#include <atomic>
#include <mutex>
#include <thread>

__constant__ int base[8];
__device__ unsigned long long done_on_gpu;

// Longest common subsequence by anti-diagonals, one block a pair of strings.
__global__ void common(const char* a, const char* b, int n, int* best) {
  extern __shared__ int lines[];
  int *before = lines, *last = lines + n + 1, *now = lines + 2 * (n + 1);
  const int i = threadIdx.x;
  if (i <= n) before[i] = last[i] = now[i] = 0;
  if (i == 0) before[n] = last[n] = now[n] = 0;
  __syncthreads();
  for (int diagonal = 2; diagonal <= 2 * n; ++diagonal) {
    const int row = i + 1, column = diagonal - row;
    if (row <= n && column >= 1 && column <= n)
      now[row] = a[row - 1] == b[column - 1] ? before[row - 1] + 1 : max(last[row - 1], last[row]);
    else if (row <= n && column < 1)
      now[row] = 0;
    __syncthreads();
    int* const free = before;
    before = last, last = now, now = free;
    __syncthreads();
  }
  if (i == 0) {
    *best = last[n] + base[0];
    atomicAdd(&done_on_gpu, 1ull);
  }
}

static int on_host(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j)
      table[i][j] =
          a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
  return table[a.size()][b.size()];
}
static std::string text(int n, unsigned seed) {
  std::string out(n, 'a');
  for (char& letter : out) letter = static_cast<char>('a' + ((seed = seed * 1103515245u + 12345u) >> 16) % 4);
  return out;
}

int main() {
  constexpr int kJobs = 48, kThreads = 6, kBase = 1000;
  const int base_on_host[8] = {kBase};
  MUST(cudaMemcpyToSymbol(base, base_on_host, sizeof base_on_host));
  std::vector<int> results(kJobs);
  std::vector<cudaStream_t> streams(kThreads);
  std::atomic<int> next{0}, wrong{0};
  int* all;  // one thread's allocation, everybody's memory
  MUST(cudaMalloc(&all, kJobs * sizeof(int)));
  for (cudaStream_t& stream : streams) MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      const cudaStream_t stream = streams[thread];
      for (int job; (job = next++) < kJobs;) {
        const int n = 1 + job % 40;
        const std::string a = text(n, job), b = text(n, job + 77);
        char* device;
        MUST(cudaMalloc(&device, 2 * n));
        MUST(cudaMemcpyAsync(device, a.data(), n, cudaMemcpyHostToDevice, stream));
        MUST(cudaMemcpyAsync(device + n, b.data(), n, cudaMemcpyHostToDevice, stream));
        common<<<1, (n + 31) / 32 * 32, 3 * (n + 1) * sizeof(int), stream>>>(device, device + n, n,
                                                                             all + job);
        if (cudaGetLastError() != cudaSuccess) ++wrong;
        MUST(cudaMemcpyAsync(&results[job], all + job, sizeof(int), cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        MUST(cudaFree(device));
        if (results[job] != on_host(a, b) + kBase) ++wrong;
        // The last error is each thread's own.
        if (job % 5 == 0) {
          if (cudaStreamQuery(stream) != cudaSuccess || cudaMalloc(&device, size_t{1} << 42) == cudaSuccess)
            ++wrong;
          if (cudaPeekAtLastError() != cudaErrorMemoryAllocation ||
              cudaGetLastError() != cudaErrorMemoryAllocation)
            ++wrong;
        }
        if (cudaPeekAtLastError() != cudaSuccess) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  HOLDS(wrong == 0, "%d", wrong.load());
  unsigned long long done = 0;
  MUST(cudaMemcpyFromSymbol(&done, done_on_gpu, sizeof done));
  HOLDS(done == kJobs, "%llu jobs", done);
  MUST(cudaGetLastError());
  std::vector<int> again(kJobs);
  MUST(cudaMemcpy(again.data(), all, kJobs * sizeof(int), cudaMemcpyDeviceToHost));
  HOLDS(again == results, "what all threads left");
  // Another thread destroys them.
  std::thread([&] {
    for (const cudaStream_t stream : streams) MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(all));
  }).join();
  REFUSES(cudaFree(all), cudaErrorInvalidValue);
  return verdict();
}
