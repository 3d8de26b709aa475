// Forks with CUDA live or before it is. Usage: forks_runtime uses|idles|execs|frees|before
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// What many programs have: memory that a static object gives back when the process ends.
struct Kept {
  void* memory = nullptr;
  ~Kept() {
    if (memory != nullptr) cudaFree(memory);
  }
} kept;

extern "C" __attribute__((noinline)) cudaError_t start() {
  const cudaError_t error = cudaMalloc(&kept.memory, 4096);
  return error;
}
extern "C" __attribute__((noinline)) pid_t split() {
  const pid_t child = fork();
  return child;
}
extern "C" __attribute__((noinline)) cudaError_t use() {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, 4096);
  return error;
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "before") std::printf("parent: %s\n", cudaGetErrorName(start()));
  std::fflush(stdout);
  const pid_t child = split();
  if (child < 0) return 1;
  if (child == 0) {
    if (what == "execs") execl("/bin/true", "true", nullptr);
    if (what == "uses" || what == "before") std::printf("child: %s\n", cudaGetErrorName(use()));
    std::exit(0);  // runs the destructor of what the parent had
  }
  waitpid(child, nullptr, 0);
  std::printf("parent: %s\n", cudaGetErrorName(use()));
  return 0;
}
