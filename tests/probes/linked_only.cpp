// Linked with driver and runtime, as many programs are whose GPU path is not taken today: makes no CUDA call.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>

int main(int argc, char**) {
  if (argc > 1) {
    int count = 0;
    cudaGetDeviceCount(&count);
    cuInit(0);
  }
  std::printf("no CUDA call was made\n");
  return 0;
}
