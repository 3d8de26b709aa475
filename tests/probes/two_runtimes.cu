// A program linked to the shared runtime that opens a plug-in with a runtime of its own inside, each unaware of the
// other. Both take memory of CUDA 0 in turns until both are refused. Usage: two_runtimes PLUGIN
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return 1;
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto their_count = reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_count"));
  const auto their_malloc = reinterpret_cast<int (*)(size_t)>(dlsym(plugin, "plugin_malloc"));
  std::printf("GPUs: %d, the plug-in's %d\n", count, their_count());
  size_t mine = 0, theirs = 0;
  cudaError_t error = cudaSuccess;
  int their_error = 0;
  while (error == cudaSuccess || their_error == 0) {
    void* memory = nullptr;
    if (error == cudaSuccess && (error = cudaMalloc(&memory, size_t{64} << 20)) == cudaSuccess) mine += 64;
    if (their_error == 0 && (their_error = their_malloc(size_t{64} << 20)) == 0) theirs += 64;
  }
  std::printf("held %zu and %zu MiB, then %s and %s\n", mine, theirs, cudaGetErrorName(error),
              cudaGetErrorName(static_cast<cudaError_t>(their_error)));
  return 0;
}
