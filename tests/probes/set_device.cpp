// Chooses a device by a number from the command line, as programs with hard-coded ordinals do. Usage:
// set_device N
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 0;
  std::printf("cudaSetDevice(%d): %s\n", wanted, cudaGetErrorName(cudaSetDevice(wanted)));
  const cudaError_t last = cudaGetLastError();
  std::printf("last error: %s, then %s\n", cudaGetErrorName(last), cudaGetErrorName(cudaGetLastError()));
  int current = -1;
  const cudaError_t got = cudaGetDevice(&current);
  std::printf("cudaGetDevice: %s %d\n", cudaGetErrorName(got), current);
  char pci[32] = "";
  if (cudaDeviceGetPCIBusId(pci, sizeof pci, current) == cudaSuccess) std::printf("it is %s\n", pci);
  return 0;
}
