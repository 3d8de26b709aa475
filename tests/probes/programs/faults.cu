// What CUDA answers to wrong calls and to kernels that fault, and what goes on after.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>
#include <cassert>
#include <set>
#include <string>
// Each sticky fault runs in a child process; non-sticky ones run in one process that goes on.
__global__ void null_write(int* p) {
  *p = 1;
}
__global__ void oob(int* p, long long i) {
  p[i] = 1;
}
__global__ void oob_read(const int* p, long long i, int* o) {
  *o = p[i];
}
__global__ void misaligned(char* p) {
  *(int*)(p + 1) = 5;
}
__global__ void mis16(char* p, int4* o) {
  *o = *(int4*)(p + 8);
}
__global__ void trap() {
  if (threadIdx.x == 3) __trap();
}
__global__ void asrt(int v) {
  assert(v == 7);
}
__global__ void bad_pc(void (**f)(int)) {
  (*f)(3);
}
__global__ void shared_oob(int i, int* o) {
  __shared__ int s[16];
  s[threadIdx.x & 15] = i;
  __syncthreads();
  int* p = s;
  o[0] = p[(long long)i];
}
__global__ void mis_atomic(char* p) {
  atomicAdd((unsigned*)(p + 2), 1u);
}
__global__ void illegal_insn() {
  asm volatile("brkpt;");
}
__global__ void recurse(int* o, int n);
__device__ __noinline__ int deep(int n) {
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = n + i;
  if (n == 0) return a[3];
  return deep(n - 1) + a[n & 63];
}
__global__ void recurse(int* o, int n) {
  *o = deep(n);
}
__global__ void ok(int* p) {
  p[threadIdx.x] = threadIdx.x;
}
__global__ void __launch_bounds__(128) bounded(int* p) {
  p[threadIdx.x] = 1;
}
__device__ int sym;
static std::set<cudaError_t> seen;
static cudaError_t E(cudaError_t e) {
  seen.insert(e);
  return e;
}
static int sticky(const char* name, cudaError_t want, void (*go)(int*)) {
  fflush(stdout);
  pid_t c = fork();
  if (c == 0) {
    int* p;
    MUST(cudaMalloc(&p, 1 << 16));
    ok<<<1, 32>>>(p);
    MUST(cudaDeviceSynchronize());
    go(p);
    cudaError_t a = cudaGetLastError(), b = cudaDeviceSynchronize();
    int bad = 0;
    if (a != cudaSuccess) {
      printf("WRONG %s: launch itself said %s\n", name, cudaGetErrorName(a));
      bad++;
    }
    if (b != want) {
      printf("WRONG %s: synchronize said %s, expected %s\n", name, cudaGetErrorName(b),
             cudaGetErrorName(want));
      bad++;
    }
    // sticky: all further calls in this context return the same error, cudaGetLastError does not clear it
    void* q;
    int h;
    cudaError_t r[6] = {cudaPeekAtLastError(),   cudaGetLastError(),
                        cudaMalloc(&q, 4),       cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost),
                        cudaDeviceSynchronize(), cudaFree(p)};
    for (int i = 0; i < 6; i++)
      if (r[i] != want) {
        printf("WRONG %s: call %d after the fault said %s\n", name, i, cudaGetErrorName(r[i]));
        bad++;
      }
    ok<<<1, 32>>>(p);
    cudaError_t l = cudaGetLastError();
    if (l != want) {
      printf("WRONG %s: launch after the fault said %s\n", name, cudaGetErrorName(l));
      bad++;
    }
    // another device is unhurt; then cudaDeviceReset heals the first
    {
      cudaError_t s = cudaSetDevice(1);
      int* p1;
      cudaError_t m = cudaMalloc(&p1, 64);
      if (m) {
        printf("WRONG %s: other device: %s %s\n", name, cudaGetErrorName(s), cudaGetErrorName(m));
        bad++;
      }
      cudaSetDevice(0);
    }
    fflush(stdout);
    _exit(bad ? 1 : 0);
  }
  int st;
  waitpid(c, &st, 0);
  if (!WIFEXITED(st) || WEXITSTATUS(st)) {
    printf("case %s failed (status %x)\n", name, st);
    failures++;
  }
  return 0;
}
int main() {
  sticky("null write", cudaErrorIllegalAddress, [](int*) { null_write<<<1, 1>>>(nullptr); });
  sticky("out of bounds", cudaErrorIllegalAddress, [](int* p) { oob<<<1, 1>>>(p, 1ll << 40); });
  sticky("out of bounds read", cudaErrorIllegalAddress, [](int* p) { oob_read<<<1, 1>>>(p, 1ll << 34, p); });
  sticky("host pointer", cudaErrorIllegalAddress, [](int*) {
    static int h;
    null_write<<<1, 1>>>((int*)0x10);
    (void)h;
  });
  sticky("misaligned", cudaErrorMisalignedAddress, [](int* p) { misaligned<<<1, 1>>>((char*)p); });
  sticky("misaligned int4", cudaErrorMisalignedAddress, [](int* p) { mis16<<<1, 1>>>((char*)p, (int4*)p); });
  sticky("misaligned atomic", cudaErrorMisalignedAddress, [](int* p) { mis_atomic<<<1, 1>>>((char*)p); });
  sticky("trap", cudaErrorLaunchFailure, [](int*) { trap<<<2, 32>>>(); });
  sticky("assert", cudaErrorAssert, [](int*) { asrt<<<1, 1>>>(3); });
  sticky("shared out of bounds", cudaErrorIllegalAddress, [](int* p) { shared_oob<<<1, 32>>>(1 << 24, p); });
  sticky("misaligned int8 ok then null", cudaErrorIllegalAddress, [](int* p) {
    ok<<<1, 32>>>(p);
    null_write<<<1, 1>>>((int*)8);
  });
  int* p;
  MUST(cudaMalloc(&p, 4096));
  asrt<<<1, 1>>>(7);
  MUST_RUN();
  cudaDeviceProp pr;
  MUST(cudaGetDeviceProperties(&pr, 0));
  HOLDS(cudaPeekAtLastError() == cudaSuccess, "clean start");
  ok<<<1, pr.maxThreadsPerBlock + 1>>>(p);
  ANSWERS(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ANSWERS(cudaGetLastError(), cudaSuccess);  // cleared
  ok<<<0, 32>>>(p);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ok<<<1, 0>>>(p);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ok<<<dim3(1, 65536), 32>>>(p);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ok<<<dim3(1, 1, 65536), 32>>>(p);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ok<<<1, dim3(1, 1, 65)>>>(p);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ok<<<1, 32, pr.sharedMemPerBlockOptin + 1>>>(p);
  cudaError_t e = E(cudaGetLastError());
  HOLDS(e == cudaErrorInvalidValue || e == cudaErrorInvalidConfiguration, "too much shared: %s",
        cudaGetErrorName(e));
  ok<<<1, 32, 49153>>>(p);
  e = E(cudaGetLastError());
  HOLDS(e == cudaErrorInvalidValue, "49153 without opt-in: %s", cudaGetErrorName(e));
  MUST(cudaFuncSetAttribute(ok, cudaFuncAttributeMaxDynamicSharedMemorySize, 49153));
  ok<<<1, 32, 49153>>>(p);
  MUST(cudaGetLastError());
  bounded<<<1, 256>>>(p);
  e = E(cudaGetLastError());
  HOLDS(e == cudaErrorLaunchOutOfResources || e == cudaErrorInvalidValue, "bounded: %s", cudaGetErrorName(e));
  cudaFuncAttributes fa;
  MUST(cudaFuncGetAttributes(&fa, bounded));
  HOLDS(fa.maxThreadsPerBlock == 128, "%d", fa.maxThreadsPerBlock);
  // non-sticky errors of the API
  void* q;
  ANSWERS(cudaMalloc(&q, (size_t)1 << 46), cudaErrorMemoryAllocation);
  ANSWERS(cudaGetLastError(), cudaErrorMemoryAllocation);
  ANSWERS(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  ANSWERS(cudaFree((void*)0x123456), cudaErrorInvalidValue);
  MUST(cudaFree(nullptr));
  ANSWERS(cudaMemcpy(p, p, 4, (cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
  ANSWERS(cudaSetDevice(-1), cudaErrorInvalidDevice);
  ANSWERS(cudaSetDevice(64), cudaErrorInvalidDevice);
  ANSWERS(cudaMemcpyToSymbol(sym, &e, 5), cudaErrorInvalidValue);
  int dummy;
  ANSWERS(cudaMemcpyToSymbol((const void*)&dummy, &e, 4), cudaErrorInvalidSymbol);
  ANSWERS(cudaFuncGetAttributes(&fa, (const void*)&dummy), cudaErrorInvalidDeviceFunction);
  ANSWERS(cudaLaunchKernel((const void*)&dummy, dim3(1), dim3(1), nullptr, 0, 0),
          cudaErrorInvalidDeviceFunction);
  int at;
  ANSWERS(cudaDeviceGetAttribute(&at, (cudaDeviceAttr)100000, 0), cudaErrorInvalidValue);
  ANSWERS(cudaMemset2D(p, 8, 0, 16, 4), cudaErrorInvalidValue);
  ANSWERS(cudaMemcpy2D(p, 8, p, 16, 12, 4, cudaMemcpyDeviceToDevice), cudaErrorInvalidPitchValue);
  ANSWERS(cudaHostGetDevicePointer(&q, &dummy, 0), cudaErrorInvalidValue);
  ANSWERS(cudaFreeHost(&dummy), cudaErrorInvalidValue);
  ANSWERS(cudaGetDeviceProperties(&pr, 9), cudaErrorInvalidDevice);
  // the last error is the last failing call's and stays across successes
  cudaGetLastError();
  cudaSetDevice(99);
  int cur;
  MUST(cudaGetDevice(&cur));
  MUST(cudaMemset(p, 0, 64));
  ok<<<1, 32>>>(p);
  MUST(cudaDeviceSynchronize());
  ANSWERS(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidDevice);
  int h[32];
  MUST(cudaMemcpy(h, p, 128, cudaMemcpyDeviceToHost));
  HOLDS(h[31] == 31, "goes on");
  // double destroy of events, streams not ready
  cudaEvent_t ev;
  MUST(cudaEventCreate(&ev));
  float ms;
  cudaEvent_t e2;
  MUST(cudaEventCreate(&e2));
  ANSWERS(cudaEventElapsedTime(&ms, ev, e2), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  for (cudaError_t c : seen) {
    std::string n = cudaGetErrorName(c), s = cudaGetErrorString(c);
    HOLDS(n.rfind("cuda", 0) == 0 && s.size() > 5 && s != "unrecognized error code", "name %s string %s",
          n.c_str(), s.c_str());
    printf("%d %s: %s\n", c, n.c_str(), s.c_str());
  }
  HOLDS(std::string(cudaGetErrorString((cudaError_t)12345)) == "unrecognized error code", "%s",
        cudaGetErrorString((cudaError_t)12345));
  HOLDS(std::string(cudaGetErrorString(cudaErrorIllegalAddress)) ==
                "an illegal memory access was encountered" &&
            std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory" &&
            std::string(cudaGetErrorString(cudaErrorInvalidConfiguration)) ==
                "invalid configuration argument" &&
            std::string(cudaGetErrorString(cudaErrorLaunchFailure)) == "unspecified launch failure" &&
            std::string(cudaGetErrorString(cudaErrorMisalignedAddress)) == "misaligned address" &&
            std::string(cudaGetErrorString(cudaErrorAssert)) == "device-side assert triggered",
        "strings");
  int* ro;
  MUST(cudaMalloc(&ro, 4));
  MUST(cudaDeviceSetLimit(cudaLimitStackSize, 65536));
  size_t ss;
  MUST(cudaDeviceGetLimit(&ss, cudaLimitStackSize));
  HOLDS(ss >= 65536, "%zu", ss);
  recurse<<<1, 1>>>(ro, 100);
  MUST(cudaDeviceSynchronize());
  int rv;
  MUST(cudaMemcpy(&rv, ro, 4, cudaMemcpyDeviceToHost));
  int ex = 3;
  for (int n = 1; n <= 100; n++) ex += n + (n & 63);
  HOLDS(rv == ex, "recursion %d %d", rv, ex);
  // reset heals a faulted device
  null_write<<<1, 1>>>(nullptr);
  HOLDS(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "fault");
  MUST(cudaDeviceReset());
  cudaGetLastError();
  MUST(cudaMalloc(&p, 4096));
  ok<<<1, 32>>>(p);
  MUST_RUN();
  MUST(cudaMemcpy(h, p, 128, cudaMemcpyDeviceToHost));
  HOLDS(h[5] == 5, "after reset");
  return verdict();
}
