// Eight threads do at random what programs do with streams, events, copies and kernels on four GPUs, and now
// and then mix two GPUs up. Prints how often each mix was made, and by how many KiB the process grew after
// the first half. Usage: stresses ROUNDS
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

__global__ void touch(int* memory) {
  memory[threadIdx.x] += 1;
}

constexpr int kGpus = 4;
static cudaStream_t shared_stream[kGpus];
static cudaEvent_t shared_event[kGpus];
static int* shared_memory[kGpus];
static std::atomic<int> launches{0}, records{0}, copies{0}, wrong{0};

static void expect(cudaError_t got, cudaError_t wanted) {
  if (got != wanted) ++wrong;
}

static void work(int gpu, unsigned seed, int rounds) {
  std::mt19937 random(seed);
  const int other = (gpu + 1 + static_cast<int>(seed % 3)) % kGpus;
  expect(cudaSetDevice(gpu), cudaSuccess);
  for (int round = 0; round < rounds; ++round) {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    int* memory = nullptr;
    expect(cudaStreamCreate(&stream), cudaSuccess);
    expect(cudaEventCreate(&event), cudaSuccess);
    expect(cudaMalloc(&memory, 4096), cudaSuccess);
    void* arguments[] = {&memory};
    const auto launch = [&](cudaStream_t in) {
      return cudaLaunchKernel(reinterpret_cast<const void*>(touch), dim3(1), dim3(32), arguments, 0, in);
    };
    for (int step = 0; step < 8; ++step) {
      switch (random() % 8) {
        case 0:
          expect(launch(shared_stream[other]), cudaErrorInvalidResourceHandle);
          ++launches;
          break;
        case 1:
          expect(cudaEventRecord(event, shared_stream[other]), cudaErrorInvalidResourceHandle);
          ++records;
          break;
        case 2:
          expect(cudaMemcpyPeerAsync(memory, gpu, shared_memory[other], other, 128, stream), cudaSuccess);
          ++copies;
          break;
        case 3:
          expect(cudaEventRecord(event, stream), cudaSuccess);
          expect(cudaStreamWaitEvent(shared_stream[other], event, 0), cudaSuccess);
          break;
        case 4:
          expect(cudaMemsetAsync(memory, 1, 128, stream), cudaSuccess);
          break;
        default:
          expect(launch(stream), cudaSuccess);
      }
    }
    (void)cudaGetLastError();
    expect(cudaStreamSynchronize(stream), cudaSuccess);
    expect(cudaFree(memory), cudaSuccess);
    expect(cudaEventDestroy(event), cudaSuccess);
    expect(cudaStreamDestroy(stream), cudaSuccess);
  }
}

static long resident_kib() {
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * 4;
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    expect(cudaSetDevice(gpu), cudaSuccess);
    expect(cudaStreamCreate(&shared_stream[gpu]), cudaSuccess);
    expect(cudaEventCreate(&shared_event[gpu]), cudaSuccess);
    expect(cudaMalloc(&shared_memory[gpu], 4096), cudaSuccess);
  }
  long half = 0;
  for (int part = 0; part < 2; ++part) {
    half = resident_kib();
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 8; ++i)
      threads.emplace_back(work, static_cast<int>(i) % kGpus, 8 * static_cast<unsigned>(part) + i,
                           rounds / 2);
    for (std::thread& thread : threads) thread.join();
  }
  std::printf("launches %d records %d copies %d wrong %d grown %ld\n", launches.load(), records.load(),
              copies.load(), wrong.load(), resident_kib() - half);
  return 0;
}
