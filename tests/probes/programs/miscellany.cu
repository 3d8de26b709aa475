// Occupancy, attributes, symbols, clocks and other corners of the runtime.
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <new>
#include <string>
struct Shape {
  __device__ virtual double area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Sq : Shape {
  double a;
  __device__ Sq(double a) : a(a) {}
  __device__ double area() const override { return a * a; }
};
struct Ci : Shape {
  double r;
  __device__ Ci(double r) : r(r) {}
  __device__ double area() const override { return 3 * r * r; }
};
__global__ void shapes(double* o) {
  Shape* s = threadIdx.x & 1 ? (Shape*)new Sq(threadIdx.x) : (Shape*)new Ci(threadIdx.x);
  o[threadIdx.x] = s->area();
  delete s;
}
__global__ void heap(int** p, int n) {
  p[threadIdx.x] = (int*)malloc(n * 4);
  if (p[threadIdx.x])
    for (int i = 0; i < n; i++) p[threadIdx.x][i] = threadIdx.x * 100 + i;
}
__global__ void heapread(int** p, int n, int* o) {
  int s = 0;
  for (int i = 0; i < n; i++) s += p[threadIdx.x][i];
  o[threadIdx.x] = s;
  free(p[threadIdx.x]);
}
typedef int (*Fn)(int, int);
__device__ int fadd(int a, int b) {
  return a + b;
}
__device__ int fmul(int a, int b) {
  return a * b;
}
__device__ Fn table[2] = {fadd, fmul};
__global__ void fp(int* o) {
  o[threadIdx.x] = table[threadIdx.x & 1](threadIdx.x, 7);
}
__global__ void pr(int a, const char* fmt) {
  if (threadIdx.x < 2)
    printf("t%d %5.2f %s %lld %x %c %%\n", threadIdx.x, a * 1.5, "str", (long long)a << 40, 0xabc, 'z');
}
__global__ void clocks(long long* o) {
  long long a = clock64();
  unsigned long long g, g2;
  asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(g));
  __nanosleep(1000);
  asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(g2));
  long long b = clock64();
  unsigned sm, nsm, lane, w;
  asm("mov.u32 %0,%%smid;" : "=r"(sm));
  asm("mov.u32 %0,%%nsmid;" : "=r"(nsm));
  asm("mov.u32 %0,%%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0,%%warpid;" : "=r"(w));
  o[0] = b - a;
  o[1] = g2 >= g;
  o[2] = sm < nsm;
  o[3] = lane == threadIdx.x % 32;
  o[4] = w < 64;
}
__global__ void spaces(int* g, int* o) {
  __shared__ int s;
  int l = threadIdx.x;
  o[0] = __isGlobal(g) + 2 * __isShared(&s) + 4 * __isLocal(&l) + 8 * !__isShared(g);
  o[1] = (int)(__cvta_generic_to_shared(&s) < 48 * 1024);
  s = 5;
  __syncthreads();
  int* p = threadIdx.x >= 0 ? &s : g;
  *p += 1;
  o[2] = s;
}
__global__ void at(double* d, float* f, __half2* h, __nv_bfloat16* b, float2* f2, int* i) {
  atomicAdd(d, 1.5);
  atomicAdd(f, 1.f);
  atomicAdd(h, __floats2half2_rn(1, 2));
#if __CUDA_ARCH__ >= 800
  atomicAdd(b, __float2bfloat16(1.f));
#endif
#if __CUDA_ARCH__ >= 900
  atomicAdd(f2, make_float2(1, 2));
#endif
#ifdef __CUDA_ARCH__
  if (threadIdx.x == 0) i[0] = __CUDA_ARCH__;
#endif
}
template <class... A>
__device__ int sum(A... a) {
  return (a + ...);
}
struct alignas(16) Cfg {
  int a;
  float b[5];
  unsigned char c;
  long long d;
};
__constant__ Cfg cfg;
__global__ void k4(Cfg c, int* o) {
  Cfg l = c;
  l.b[threadIdx.x % 5] += cfg.b[1];
  o[threadIdx.x] = sum(c.a, (int)l.b[threadIdx.x % 5], (int)cfg.c, (int)(cfg.d >> 33));
}
template <class F>
__global__ void apply(F f, int* o) {
  o[threadIdx.x] = f(threadIdx.x);
}
__global__ void warps(int* o) {
  int l = threadIdx.x;
  int v = l * 3;
  o[l] = __shfl_up_sync(~0u, v, 2) + __shfl_down_sync(~0u, v, 3, 8) * 100 +
         __shfl_sync(~0u, v, l + 1, 4) * 10000;
  if (l < 10) {
    unsigned m = __ballot_sync(0x3ff, l % 3 == 0);
    o[l] += m * 10000000;
  } else if (l >= 20)
    o[l] -= __popc(__ballot_sync(0xfff00000, l & 1));
}
__global__ void early(int* o) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  o[threadIdx.x] = s[39 - threadIdx.x];
}
__global__ void named(int* o) {
  __shared__ int b[2];
  if (threadIdx.x < 64) {
    if (threadIdx.x == 0) b[0] = 11;
    asm volatile("bar.sync 1, 64;");
    o[threadIdx.x] = b[0];
    asm volatile("bar.arrive 3, 128;");
  } else {
    if (threadIdx.x == 64) b[1] = 22;
    asm volatile("bar.sync 2, 64;");
    asm volatile("bar.sync 3, 128;");
    o[threadIdx.x] = b[1] + b[0];
  }
}
__global__ void vla(int n, int* o) {
  int* a = (int*)alloca(n * 4);
  for (int i = 0; i < n; i++) a[i] = i * i;
  int s = 0;
  for (int i = n - 1; i >= 0; i -= 3) s += a[i];
  *o = s;
}
#define PART(name, ...)                                         \
  do {                                                          \
    auto fn = [&]() -> cudaError_t {                            \
      __VA_ARGS__;                                              \
      cudaError_t e = cudaGetLastError();                       \
      return e ? e : cudaDeviceSynchronize();                   \
    };                                                          \
    cudaError_t e_ = fn();                                      \
    ok = !e_;                                                   \
    if (e_) {                                                   \
      printf("FAIL part %s: %s\n", name, cudaGetErrorName(e_)); \
      failures++;                                               \
    }                                                           \
  } while (0)
int main() {
  bool ok;
  int *o, h[512];
  MUST(cudaMalloc(&o, 2048));
  double* d_o;
  MUST(cudaMalloc(&d_o, 512));
  auto get = [&] { MUST(cudaMemcpy(h, o, 2048, cudaMemcpyDeviceToHost)); };
  PART("virtual", shapes<<<1, 32>>>(d_o));
  if (ok) {
    double d[32];
    MUST(cudaMemcpy(d, d_o, 256, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) HOLDS(d[i] == (i & 1 ? 1. : 3.) * i * i, "virtual %d", i);
  }
  int** pp;
  MUST(cudaMalloc(&pp, 512));
  PART("malloc", heap<<<1, 64>>>(pp, 20); heapread<<<1, 64>>>(pp, 20, o));
  if (ok) {
    get();
    HOLDS(h[63] == 63 * 2000 + 190, "heap %d", h[63]);
  }
  size_t hs;
  MUST(cudaDeviceGetLimit(&hs, cudaLimitMallocHeapSize));
  HOLDS(hs == 8 << 20, "heap size %zu", hs);
  MUST(cudaDeviceGetLimit(&hs, cudaLimitPrintfFifoSize));
  PART("function pointers", fp<<<1, 32>>>(o));
  if (ok) {
    get();
    HOLDS(h[5] == 35 && h[6] == 13, "fp %d %d", h[5], h[6]);
  }
  fflush(stdout);
  PART("printf", pr<<<1, 32>>>(3, 0));
  long long* l;
  MUST(cudaMalloc(&l, 64));
  PART("clocks", clocks<<<1, 1>>>(l));
  if (ok) {
    long long v[5];
    MUST(cudaMemcpy(v, l, 40, cudaMemcpyDeviceToHost));
    HOLDS(v[0] > 0 && v[1] && v[2] && v[3] && v[4], "%lld %lld %lld %lld %lld", v[0], v[1], v[2], v[3], v[4]);
  }
  PART("spaces", spaces<<<1, 1>>>(o + 10, o));
  if (ok) {
    get();
    HOLDS(h[0] == 15 && h[1] && h[2] == 6, "spaces %d %d %d", h[0], h[1], h[2]);
  }
  char* z;
  MUST(cudaMalloc(&z, 256));
  MUST(cudaMemset(z, 0, 256));
  PART("atomics", at<<<2, 64>>>((double*)z, (float*)(z + 16), (__half2*)(z + 32), (__nv_bfloat16*)(z + 48),
                                (float2*)(z + 64), (int*)(z + 80)));
  if (ok) {
    char b[256];
    MUST(cudaMemcpy(b, z, 256, cudaMemcpyDeviceToHost));
    int arch = *(int*)(b + 80);
    HOLDS(*(double*)b == 192 && *(float*)(b + 16) == 128, "atomic d f");
    float2 hh = __half22float2(*(__half2*)(b + 32));
    HOLDS(hh.x == 128 && hh.y == 256, "half2 %g %g", hh.x, hh.y);
    if (arch >= 800) HOLDS(__bfloat162float(*(__nv_bfloat16*)(b + 48)) == 128, "bf16");
    if (arch >= 900) HOLDS(*(float*)(b + 68) == 256, "float2");
    printf("arch %d\n", arch);
  }
  Cfg c = {5, {1, 2, 3, 4, 5}, 200, 7ll << 33};
  MUST(cudaMemcpyToSymbol(cfg, &c, sizeof c));
  PART("struct", k4<<<1, 32>>>(c, o));
  if (ok) {
    get();
    HOLDS(h[4] == 5 + 7 + 200 + 7, "struct %d", h[4]);
  }
  int cap = 9;
  PART("lambda", apply<<<1, 32>>>([=] __device__(int x) { return x * cap; }, o));
  if (ok) {
    get();
    HOLDS(h[31] == 279, "lambda");
  }
  PART("warps", warps<<<1, 32>>>(o));
  if (ok) {
    get();
    for (int i = 0; i < 32; i++) {
      int e =
          (i >= 2 ? i - 2 : i) * 3 + ((i % 8) + 3 < 8 ? i + 3 : i) * 300 + ((i & ~3) | ((i + 1) & 3)) * 30000;
      if (i < 10)
        e += 0x249 * 10000000u;
      else if (i >= 20)
        e -= 6;
      HOLDS(h[i] == e, "warps %d %d %d", i, h[i], e);
    }
  }
  PART("early exit", early<<<1, 64>>>(o));
  if (ok) {
    get();
    HOLDS(h[0] == 39 && h[39] == 0, "early");
  }
  PART("named barriers", named<<<1, 128>>>(o));
  if (ok) {
    get();
    HOLDS(h[10] == 11 && h[100] == 33, "named %d %d", h[10], h[100]);
  }
  PART("alloca", vla<<<1, 1>>>(30, o));
  if (ok) {
    get();
    int s = 0;
    for (int i = 29; i >= 0; i -= 3) s += i * i;
    HOLDS(h[0] == s, "alloca %d %d", h[0], s);
  }
  return verdict();
}
