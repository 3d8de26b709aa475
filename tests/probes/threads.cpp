// Eight threads take 32 MiB at a time on CUDA 0 until CUDA refuses, all at once, and give everything back.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

constexpr size_t kMiB = size_t{1} << 20;

int main() {
  std::atomic<size_t> held{0};
  std::atomic<int> refused{0}, wrong{0};
  const auto fill = [&](std::vector<void*>& mine) {
    if (cudaSetDevice(0) != cudaSuccess) ++wrong;
    for (;;) {
      void* memory = nullptr;
      const cudaError_t error = cudaMalloc(&memory, 32 * kMiB);
      if (error != cudaSuccess) {
        ++(error == cudaErrorMemoryAllocation ? refused : wrong);
        return;
      }
      ++held;
      mine.push_back(memory);
    }
  };
  std::vector<std::vector<void*>> owned(8);
  std::vector<std::thread> threads;
  for (auto& mine : owned) threads.emplace_back(fill, std::ref(mine));
  for (auto& thread : threads) thread.join();
  std::printf("held %zu MiB, %d threads refused, %d wrong\n", held.load() * 32, refused.load(), wrong.load());
  threads.clear();
  for (auto& mine : owned) {
    threads.emplace_back([&] {
      for (void* memory : mine) {
        if (cudaFree(memory) != cudaSuccess) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  void* again = nullptr;
  const cudaError_t error = cudaMalloc(&again, 256 * kMiB);
  std::printf("then 256 MiB: %s, %d wrong\n", cudaGetErrorName(error), wrong.load());
  return error == cudaSuccess && wrong == 0 ? 0 : 1;
}
