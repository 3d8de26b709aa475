// Works on two GPUs, makes a finding amid, works on, and ends as it is told: so what is known of it
// afterwards must have been kept while it ran. Usage: leaves exit|_exit|abort|kill|term [healthy]
#include <cuda_runtime.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

__global__ void touch(int* memory) {
  memory[threadIdx.x] += 1;
}

#define NEED(call)                                            \
  if (const cudaError_t error = (call); error != cudaSuccess) \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));

static void work(int gpu, int launches, int copies, cudaStream_t stream) {
  int here[32] = {};
  int* memory = nullptr;
  NEED(cudaSetDevice(gpu));
  NEED(cudaMalloc(&memory, 4096));
  for (int i = 0; i < copies; ++i) NEED(cudaMemcpy(memory, here, sizeof here, cudaMemcpyHostToDevice));
  for (int i = 0; i < launches; ++i) touch<<<1, 32, 0, stream>>>(memory);
  NEED(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "exit";
  work(0, 2, 1, nullptr);
  cudaStream_t stream = nullptr;
  NEED(cudaStreamCreate(&stream));
  std::thread([] { work(1, 5, 0, nullptr); }).join();
  if (argc <= 2) {
    NEED(cudaSetDevice(1));
    touch<<<1, 32, 0, stream>>>(nullptr);  // a stream of the other GPU
    (void)cudaGetLastError();
  }
  work(0, 4, 2, stream);
  std::thread([] { work(0, 3, 0, nullptr); }).join();
  std::printf("worked\n");
  std::fflush(stdout);
  if (!std::strcmp(how, "_exit")) _exit(0);
  if (!std::strcmp(how, "abort")) abort();
  if (!std::strcmp(how, "kill")) kill(getpid(), SIGKILL);
  if (!std::strcmp(how, "term")) kill(getpid(), SIGTERM);
  return 0;
}
