// Threads that allocate and free in streams all the time, from pools that they share, on several GPUs: no two
// buffers that live at once may overlap, and what one stream freed another may use only behind it.
#include "check.h"

#include <atomic>
#include <thread>

__global__ void stamp(uint32_t* memory, int n, uint32_t with) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) memory[i] = with + i;
}
__global__ void verify(const uint32_t* memory, int n, uint32_t with, unsigned* wrong) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    if (memory[i] != with + i) atomicAdd(wrong, 1u);
}

static std::atomic<int> wrong_on_host{0};

static void work(int gpu, cudaMemPool_t pool, unsigned* wrong, unsigned seed) {
  MUST(cudaSetDevice(gpu));
  cudaStream_t streams[2];
  cudaEvent_t handed;
  for (cudaStream_t& stream : streams) MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaEventCreateWithFlags(&handed, cudaEventDisableTiming));
  struct Buffer {
    uint32_t* memory;
    int n;
    uint32_t with;
    int stream;
  };
  std::vector<Buffer> live;
  auto next = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 10; };
  for (int step = 0; step < 60; ++step) {
    if (live.size() < 6 && next() % 3 != 0) {
      Buffer made = {nullptr, 1 + static_cast<int>(next() % 4000), next(), static_cast<int>(next() % 2)};
      const cudaStream_t stream = streams[made.stream];
      if (next() % 2 == 0)
        MUST(cudaMallocFromPoolAsync(&made.memory, made.n * sizeof(uint32_t), pool, stream));
      else
        MUST(cudaMallocAsync(&made.memory, made.n * sizeof(uint32_t), stream));
      stamp<<<1, 64, 0, stream>>>(made.memory, made.n, made.with);
      live.push_back(made);
    } else if (!live.empty()) {
      const size_t which = next() % live.size();
      const Buffer gone = live[which];
      live.erase(live.begin() + which);
      int in = gone.stream;
      if (next() % 2 == 0) {  // checked and freed in the other stream
        MUST(cudaEventRecord(handed, streams[in]));
        in = 1 - in;
        MUST(cudaStreamWaitEvent(streams[in], handed, 0));
      }
      verify<<<1, 64, 0, streams[in]>>>(gone.memory, gone.n, gone.with, wrong);
      MUST(cudaFreeAsync(gone.memory, streams[in]));
    }
    if (step % 20 == 19) MUST(cudaMemPoolTrimTo(pool, 0));
  }
  for (const Buffer& rest : live) {
    MUST(cudaStreamSynchronize(streams[rest.stream]));
    std::vector<uint32_t> host(rest.n);
    MUST(cudaMemcpy(host.data(), rest.memory, rest.n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    for (int i = 0; i < rest.n; ++i) wrong_on_host += host[i] != rest.with + i;
    MUST(cudaFree(rest.memory));  // what was allocated in a stream may be freed by cudaFree
  }
  for (const cudaStream_t stream : streams) {
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamDestroy(stream));
  }
  MUST(cudaEventDestroy(handed));
}

int main() {
  int gpus = 0;
  MUST(cudaGetDeviceCount(&gpus));
  gpus = std::min(gpus, 2);
  std::vector<cudaMemPool_t> pools(gpus);
  std::vector<unsigned*> wrong(gpus);
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    MUST(cudaSetDevice(gpu));
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, gpu};
    props.maxSize = 64 << 20;
    MUST(cudaMemPoolCreate(&pools[gpu], &props));
    MUST(cudaMalloc(&wrong[gpu], sizeof(unsigned)));
    MUST(cudaMemset(wrong[gpu], 0, sizeof(unsigned)));
    MUST(cudaDeviceSynchronize());
    for (unsigned k = 0; k < 3; ++k)
      threads.emplace_back(work, gpu, pools[gpu], wrong[gpu], 1000 * gpu + 77 * k + 1);
  }
  for (std::thread& thread : threads) thread.join();
  HOLDS(wrong_on_host == 0, "%d", wrong_on_host.load());
  for (int gpu = 0; gpu < gpus; ++gpu) {
    unsigned count = 1;
    uint64_t used = 1;
    MUST(cudaSetDevice(gpu));
    MUST(cudaMemcpy(&count, wrong[gpu], sizeof count, cudaMemcpyDeviceToHost));
    HOLDS(count == 0, "GPU %d: %u words", gpu, count);
    MUST(cudaMemPoolGetAttribute(pools[gpu], cudaMemPoolAttrUsedMemCurrent, &used));
    HOLDS(used == 0, "GPU %d: %llu", gpu, static_cast<unsigned long long>(used));
    MUST(cudaMemPoolDestroy(pools[gpu]));
    MUST(cudaFree(wrong[gpu]));
  }
  return verdict();
}
