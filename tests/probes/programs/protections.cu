// Mapped memory with less than all access: read-only pages, pages without access and addresses without
// memory, each tried in a process of its own; and copies of what may be read.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_driver.h"

__global__ void copy_up(const int* from, int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] + 1;
}

struct Mapped {
  size_t bytes = 0;  // of each of two parts
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle memory[2] = {};  // access is of whole allocations

  Mapped() {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CU(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(cuMemAddressReserve(&base, 3 * bytes, 0, 0, 0));
    for (int which = 0; which < 2; ++which) {
      CU(cuMemCreate(&memory[which], bytes, &prop, 0));
      CU(cuMemMap(base + which * bytes, bytes, 0, memory[which], 0));
      allow(which, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      CU(cuMemsetD32(base + which * bytes, 41, bytes / 4));
    }
    CU(cuCtxSynchronize());
  }
  void allow(int part, CUmemAccess_flags flags) const {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    CU(cuMemSetAccess(base + part * bytes, bytes, &access, 1));
  }
  int* part(int which) const { return reinterpret_cast<int*>(base + which * bytes); }
};

static int in_child(const char* what) {
  MUST(cudaFree(nullptr));
  const Mapped m;
  if (strcmp(what, "write") == 0) {
    m.allow(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
    copy_up<<<1, 32>>>(m.part(0), m.part(1), 32);
  } else if (strcmp(what, "none") == 0) {
    m.allow(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    copy_up<<<1, 32>>>(m.part(1), m.part(0), 32);
  } else if (strcmp(what, "hole") == 0) {
    copy_up<<<1, 32>>>(m.part(2), m.part(0), 32);
  } else if (strcmp(what, "unmapped") == 0) {
    CU(cuMemUnmap(m.base, 2 * m.bytes));
    copy_up<<<1, 32>>>(m.part(0), m.part(1), 32);
  } else {  // across the border of both, which is nothing special
    copy_up<<<2, 32>>>(m.part(0), m.part(1) - 10, 20);
    MUST_RUN();
    int host[20];
    MUST(cudaMemcpy(host, m.part(1) - 10, 10 * sizeof(int), cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(host + 10, m.part(1), 10 * sizeof(int), cudaMemcpyDeviceToHost));
    HOLDS(std::count(host, host + 20, 42) == 20, "%d", host[0]);
    return failures == 0 ? 43 : 1;
  }
  return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 42 : 1;
}

int main(int argc, char** argv) {
  if (argc > 1) return in_child(argv[1]);
  for (const char* what : {"write", "none", "hole", "unmapped", "across"}) {
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/proc/self/exe", argv[0], what, nullptr);
      _exit(9);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    const int wanted = strcmp(what, "across") == 0 ? 43 : 42;
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "%s: %x", what, status);
  }
  MUST(cudaFree(nullptr));
  const Mapped m;
  m.allow(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  copy_up<<<1, 64>>>(m.part(0), m.part(1), 64);  // what is read-only may be read
  MUST_RUN();
  int host[64];
  MUST(cudaMemcpy(host, m.part(1), sizeof host, cudaMemcpyDeviceToHost));
  HOLDS(std::count(host, host + 64, 42) == 64, "%d", host[0]);
  MUST(cudaMemcpy(host, m.part(0), sizeof host, cudaMemcpyDeviceToHost));
  HOLDS(std::count(host, host + 64, 41) == 64, "%d", host[0]);
  unsigned long long flags = 0;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CU(cuMemGetAccess(&flags, &here, m.base));
  HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READ, "%llu", flags);
  m.allow(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  copy_up<<<1, 64>>>(m.part(1), m.part(0), 64);
  MUST(cudaMemcpy(host, m.part(0), sizeof host, cudaMemcpyDeviceToHost));
  HOLDS(std::count(host, host + 64, 43) == 64, "%d", host[0]);
  // A range with memory in it can't be freed, nor a reservation mapped twice.
  HOLDS(cuMemAddressFree(m.base, 3 * m.bytes) != CUDA_SUCCESS, "memory is mapped there");
  HOLDS(cuMemMap(m.base, m.bytes, 0, m.memory[1], 0) != CUDA_SUCCESS, "something is mapped there already");
  CU(cuMemUnmap(m.base, 2 * m.bytes));
  for (const CUmemGenericAllocationHandle memory : m.memory) CU(cuMemRelease(memory));
  CU(cuMemAddressFree(m.base, 3 * m.bytes));
  HOLDS(cuMemRelease(m.memory[0]) != CUDA_SUCCESS, "it is released already");
  return verdict();
}
