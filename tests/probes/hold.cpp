// Takes memory on a GPU, says so, and keeps it until its standard input ends. Usage: hold ORDINAL MIB
#include <unistd.h>

#include "check.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, std::atoi(argv[1])));
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, device));
  CUdeviceptr memory = 0;
  const CUresult got = cuMemAlloc(&memory, std::strtoull(argv[2], nullptr, 10) * kMiB);
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  std::printf("%s: free %zu of %zu MiB\n", got == CUDA_SUCCESS ? "held" : name_of(got), free / kMiB,
              total / kMiB);
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return got == CUDA_SUCCESS ? 0 : 1;
}
