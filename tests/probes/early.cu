// A context on CUDA 0 that a call made before the first cudaSetDevice, in a program that then works on
// CUDA 1. Usage: early HOW
//   initialises|allocates|pins|asks          and that is all that ever happened on CUDA 0
//   launches|copies|fills|streams            CUDA 0 was used too, before
//   receives|peers|returns                   and after: by a copy from CUDA 1, as its peer, by its choice
//   stays                                    the thread never left it; another works on CUDA 1
//   resets|idles|managed                     the context went; nothing works anywhere; its managed memory is
//   used
#include <cuda_runtime.h>

#include <cstdio>
#include <string>
#include <thread>

__global__ void touch(int* memory) {
  memory[threadIdx.x] += 1;
}

#define NEED(call)                                            \
  if (const cudaError_t error = (call); error != cudaSuccess) \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));

extern "C" __attribute__((noinline)) void start() {
  NEED(cudaFree(nullptr));
}
extern "C" __attribute__((noinline)) int* allocate() {
  int* memory = nullptr;
  NEED(cudaMalloc(&memory, 4096));
  return memory;
}
extern "C" __attribute__((noinline)) void pin() {
  void* memory = nullptr;
  NEED(cudaMallocHost(&memory, 4096));
}
extern "C" __attribute__((noinline)) void ask() {
  size_t free = 0, total = 0;
  NEED(cudaMemGetInfo(&free, &total));
}
extern "C" __attribute__((noinline)) void choose(int device) {
  NEED(cudaSetDevice(device));
}

static void step(int* memory) {
  touch<<<1, 32>>>(memory);
  NEED(cudaGetLastError());
  NEED(cudaDeviceSynchronize());
}
static void work_on_one() {
  choose(1);
  for (int i = 0; i < 3; ++i) step(allocate());
}

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  int here[32] = {};
  if (how == "initialises") {
    start();
    work_on_one();
  } else if (how == "allocates") {
    NEED(cudaFree(allocate()));
    work_on_one();
  } else if (how == "pins") {
    pin();
    work_on_one();
  } else if (how == "asks") {
    ask();
    work_on_one();
  } else if (how == "launches") {
    step(allocate());
    work_on_one();
  } else if (how == "copies") {
    NEED(cudaMemcpy(allocate(), here, sizeof here, cudaMemcpyHostToDevice));
    work_on_one();
  } else if (how == "fills") {
    NEED(cudaMemset(allocate(), 0, 128));
    work_on_one();
  } else if (how == "streams") {
    cudaStream_t stream = nullptr;
    NEED(cudaStreamCreate(&stream));
    work_on_one();
  } else if (how == "receives") {
    int* first = allocate();
    work_on_one();
    NEED(cudaMemcpyPeer(first, 0, allocate(), 1, 128));
  } else if (how == "peers") {
    allocate();
    choose(1);
    NEED(cudaDeviceEnablePeerAccess(0, 0));
    step(allocate());
  } else if (how == "returns") {
    start();
    work_on_one();
    choose(0);
    ask();
  } else if (how == "stays") {
    pin();
    std::thread(work_on_one).join();
    pin();
  } else if (how == "resets") {
    start();
    NEED(cudaDeviceReset());
    work_on_one();
  } else if (how == "idles") {
    start();
    choose(1);
  } else if (how == "managed") {
    int* memory = nullptr;
    NEED(cudaMallocManaged(&memory, 4096));
    work_on_one();
    step(memory);
  }
  std::printf("done\n");
  return 0;
}
