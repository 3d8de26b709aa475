// Two processes that compute in one memory: a parent without CUDA starts a producer and a
// consumer, which pass cudaMalloc's memory and an event by handles, and each says what it found.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

__global__ void fill(int* values, int from) {
  values[blockIdx.x * blockDim.x + threadIdx.x] = from + blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ void twice(int* values) {
  values[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
}

struct Handles {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

constexpr int kCount = 3000;

static int produce(int to, int from) {
  int* values = nullptr;
  cudaEvent_t filled;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMalloc(&values, kCount * sizeof(int));
  cudaEventCreateWithFlags(&filled, cudaEventDisableTiming | cudaEventInterprocess);
  fill<<<kCount / 100, 100, 0, stream>>>(values, 7);
  cudaEventRecord(filled, stream);
  Handles handles;
  cudaIpcGetMemHandle(&handles.memory, values);
  cudaIpcGetEventHandle(&handles.event, filled);
  if (write(to, &handles, sizeof handles) != sizeof handles) return 1;
  char done = 0;
  if (read(from, &done, 1) != 1) return 1;
  static int host[kCount];
  cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < kCount; ++i)
    if (host[i] != 2 * (7 + i)) return 1;
  return cudaFree(values) == cudaSuccess ? 0 : 1;
}

static int consume(int from, int to) {
  Handles handles;
  if (read(from, &handles, sizeof handles) != sizeof handles) return 1;
  int* values = nullptr;
  cudaEvent_t filled;
  if (cudaIpcOpenMemHandle((void**)&values, handles.memory, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess)
    return 1;
  if (cudaIpcOpenEventHandle(&filled, handles.event) != cudaSuccess) return 1;
  cudaStreamWaitEvent(cudaStreamPerThread, filled, 0);
  twice<<<kCount / 100, 100, 0, cudaStreamPerThread>>>(values);
  const cudaError_t result = cudaStreamSynchronize(cudaStreamPerThread);
  cudaIpcCloseMemHandle(values);
  return write(to, "d", 1) == 1 && result == cudaSuccess ? 0 : 1;
}

int main() {
  int there[2], back[2];
  if (pipe(there) != 0 || pipe(back) != 0) return 2;
  const pid_t producer = fork();
  if (producer == 0) _exit(produce(there[1], back[0]));
  const pid_t consumer = fork();
  if (consumer == 0) _exit(consume(there[0], back[1]));
  int status[2] = {-1, -1};
  waitpid(producer, &status[0], 0);
  waitpid(consumer, &status[1], 0);
  printf("producer: %s\nconsumer: %s\n", status[0] == 0 ? "right" : "wrong", status[1] == 0 ? "right" : "wrong");
  return status[0] == 0 && status[1] == 0 ? 0 : 1;
}
