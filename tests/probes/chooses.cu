// Threads that choose a GPU, and threads that don't. Usage: chooses helper|context|launches|chosen|one_stays|ranks
//   helper     the process has left CUDA 0 for CUDA 1; a helper thread says nothing
//   context    the same, and nobody had used CUDA 0 before
//   launches   the same, and the first that the helper does is a kernel
//   chosen     the helper chooses too
//   one_stays  the main thread stays on CUDA 0 without a word, and so does a helper of its own
//   ranks      every thread chooses a GPU of its own
#include <cuda_runtime.h>
#include <pthread.h>

#include <cstdio>
#include <string>
#include <thread>

#define NEED(call)                                            \
  if (const cudaError_t error = (call); error != cudaSuccess) \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));

extern "C" __attribute__((noinline)) void choose(int device) {
  NEED(cudaSetDevice(device));
}
extern "C" __attribute__((noinline)) void work() {
  void* memory = nullptr;
  for (int i = 0; i < 3; ++i) {
    NEED(cudaMallocHost(&memory, 4096));
    NEED(cudaFreeHost(memory));
  }
}

__global__ void nothing() {}
extern "C" __attribute__((noinline)) void launch() {
  nothing<<<1, 1>>>();
  NEED(cudaDeviceSynchronize());
}

static void in_thread(const char* name, void (*body)(int), int device = -1) {
  std::thread([&] {
    pthread_setname_np(pthread_self(), name);
    body(device);
  }).join();
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto silent = [](int) { work(); };
  const auto choosing = [](int device) {
    choose(device);
    work();
  };
  if (what == "helper") {
    NEED(cudaFree(nullptr));
    choose(1);
    work();
    in_thread("pin_memory", silent);
  } else if (what == "context") {
    choose(1);
    work();
    in_thread("pin_memory", silent);
  } else if (what == "launches") {
    choose(1);
    work();
    in_thread("helper", [](int) { launch(); });
  } else if (what == "chosen") {
    choose(1);
    work();
    in_thread("pin_memory", choosing, 1);
  } else if (what == "one_stays") {
    work();
    in_thread("other", choosing, 1);
    in_thread("helper", silent);
  } else if (what == "ranks") {
    for (int device = 0; device < 2; ++device) in_thread("rank", choosing, device);
  }
  std::printf("done\n");
  return 0;
}
