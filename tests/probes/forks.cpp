// Forks a child that uses CUDA. "before": the parent has made no CUDA call yet, which works; "after": it has,
// which CUDA does not support and answers with an error. Usage: forks before|after
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "check.h"

static CUresult use(const char* who, size_t mib) {
  CUresult result = cuInit(0);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  if (result == CUDA_SUCCESS) result = cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS) result = cuCtxCreate(&context, nullptr, 0, device);
  if (result == CUDA_SUCCESS) result = cuMemAlloc(&memory, mib * kMiB);
  std::printf("%s: %s\n", who, result == CUDA_SUCCESS ? "allocated" : name_of(result));
  std::fflush(stdout);
  return result;
}

int main(int argc, char** argv) {
  const bool after = argc > 1 && std::strcmp(argv[1], "after") == 0;
  if (after && use("parent", 128) != CUDA_SUCCESS) return 1;
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    const CUresult result = use("child", 128);
    std::exit(result == CUDA_SUCCESS ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  if (!after) return use("parent", 128) == CUDA_SUCCESS ? 0 : 1;
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo(&free, &total));
  std::printf("parent: goes on\n");
  return 0;
}
