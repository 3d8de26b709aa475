// Writes CUDA_VISIBLE_DEVICES before or after CUDA reads it, for itself or for a child.
// Usage: masks early|late|late_and_no_more|order|restored|launcher
//        masks parent MASK (starts itself as `masks child` under that mask) · masks child
#include <cuda_runtime.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern char** environ;

#define NEED(call)                                              \
  if (const cudaError_t error = (call); error != cudaSuccess) { \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));    \
    return 1;                                                   \
  }

extern "C" __attribute__((noinline)) cudaError_t start() {
  const cudaError_t error = cudaFree(nullptr);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t choose(int device) {
  const cudaError_t error = cudaSetDevice(device);
  return error;
}

static int spawn_child(char* self) {
  char word[] = "child";
  char* argv[] = {self, word, nullptr};
  pid_t child;
  int status = 0;
  if (posix_spawn(&child, self, nullptr, nullptr, argv, environ) != 0) return 1;
  if (waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "child") {
    int count = 0;
    NEED(cudaGetDeviceCount(&count));
    std::printf("child: %d GPUs\n", count);
    return 0;
  }
  if (what == "parent") {
    setenv("CUDA_VISIBLE_DEVICES", argv[2], 1);
    return spawn_child(argv[0]);
  }
  if (what == "early") setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  NEED(start());
  const char* given = getenv("CUDA_VISIBLE_DEVICES");
  const std::string before = given != nullptr ? given : "";
  if (what.rfind("late", 0) == 0 || what == "restored") setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  if (what == "order") setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  if (what == "restored") {
    if (given != nullptr)
      setenv("CUDA_VISIBLE_DEVICES", before.c_str(), 1);
    else
      unsetenv("CUDA_VISIBLE_DEVICES");
  }
  if (what == "launcher") {
    for (const char* mask : {"2", "0"}) {
      setenv("CUDA_VISIBLE_DEVICES", mask, 1);
      if (spawn_child(argv[0]) != 0) return 1;
    }
    return 0;
  }
  void* memory = nullptr;
  if (what == "late_and_no_more") {
    NEED(cudaMalloc(&memory, 4096));
  } else {
    for (int i = 0; i < 2; ++i) NEED(choose(0));
  }
  std::printf("went on\n");
  return 0;
}
