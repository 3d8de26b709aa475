// Histograms and sums by atomics of every type, in shared and global memory.
#include "check.h"

#include <cuda_fp16.h>
#include <cstdint>
__global__ void hist(const unsigned char* in, unsigned* out, unsigned long long* out64, int n) {
  extern __shared__ unsigned s[];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  int t = blockIdx.x * blockDim.x + threadIdx.x, st = gridDim.x * blockDim.x;
  const uchar4* v = (const uchar4*)in;
  for (int i = t; i < n / 4; i += st) {
    uchar4 c = v[i];
    atomicAdd(&s[c.x], 1u);
    atomicAdd(&s[c.y], 1u);
    atomicAdd(&s[c.z], 1u);
    atomicAdd(s + c.w, 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    atomicAdd(out + i, s[i]);
    atomicAdd(out64 + i, (unsigned long long)s[i] << 33);
  }
}
__device__ double casAdd(double* a, double v) {
  unsigned long long *p = (unsigned long long*)a, old = *p, as;
  do {
    as = old;
    old = atomicCAS(p, as, __double_as_longlong(v + __longlong_as_double(as)));
  } while (as != old);
  return __longlong_as_double(old);
}
__device__ float casMaxF(float* a, float v) {
  int old = __float_as_int(*a), as;
  do {
    as = old;
    if (__int_as_float(as) >= v) break;
    old = atomicCAS((int*)a, as, __float_as_int(v));
  } while (as != old);
  return __int_as_float(old);
}
struct Out {
  double dsum, dsum2;
  float fmax, fsum;
  int imin, imax, iadd, isub;
  unsigned umin, umax, inc, dec, andv, orv, xorv, ringmax;
  unsigned long long lmin, lmax, land, lor, lxor;
  long long smin, smax;
  int exchHits, casWins;
  unsigned long long exch64;
  unsigned long long lock, crit;
  unsigned short c16;
};
__global__ void all(Out* o, const int* in, int n, __half2* h2, __half* h1) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = in[i];
  casAdd(&o->dsum, v * 0.5);
  atomicAdd(&o->dsum2, v * 0.25);
  casMaxF(&o->fmax, (float)v);
  atomicAdd(&o->fsum, 0.5f);
  atomicMin(&o->imin, v);
  atomicMax(&o->imax, v);
  atomicAdd(&o->iadd, v);
  atomicSub(&o->isub, v);
  atomicMin(&o->umin, (unsigned)v);
  atomicMax(&o->umax, (unsigned)v);
  unsigned r = atomicInc(&o->inc, 9);
  atomicMax(&o->ringmax, r);
  atomicDec(&o->dec, 6);
  atomicAnd(&o->andv, (unsigned)v | 0xff00ffu);
  atomicOr(&o->orv, (unsigned)v & 0x0f0f0f0f);
  atomicXor(&o->xorv, (unsigned)v);
  unsigned long long w = (unsigned long long)(unsigned)v << 17 | (unsigned)i;
  atomicMin(&o->lmin, w);
  atomicMax(&o->lmax, w);
  atomicAnd(&o->land, w | 0xff);
  atomicOr(&o->lor, w);
  atomicXor(&o->lxor, w);
  long long q = (long long)v * 10000000000ll;
  atomicMin(&o->smin, q);
  atomicMax(&o->smax, q);
  if (atomicExch(&o->exchHits, 1) == 0) atomicAdd(&o->exch64, 1ull);
  if (atomicCAS(&o->casWins, 0, i + 1) == 0) atomicAdd(&o->exch64, 1000ull);
  atomicCAS(&o->c16, (unsigned short)5, (unsigned short)6);
  if (i % 1000 == 0) {
    atomicAdd(h2, __floats2half2_rn(1.f, 0.5f));
    atomicAdd(h1, __float2half(2.f));
  }
  bool done = false;
  if (i % 64 == 0)
    while (!done)
      if (atomicExch(&o->lock, 1ull) == 0) {
        volatile unsigned long long* c = &o->crit;
        *c = *c + 3;
        __threadfence();
        atomicExch(&o->lock, 0ull);
        done = true;
      }
}
__global__ void spin_all_lanes(
    unsigned* lock,
    volatile int* c) {  // every lane takes the lock; Volta+ independent thread scheduling guarantees progress
  while (atomicCAS(lock, 0u, 1u) != 0u)
    ;
  __threadfence();
  *c = *c + 1;
  __threadfence();
  atomicExch(lock, 0u);
}
__global__ void scopes(unsigned* b, float4* f4, float2* f2) {
  atomicAdd_block(b, 1u);
  atomicAdd_system(b + 1, 2u);
  atomicMax_block((int*)b + 2, (int)threadIdx.x);
  atomicCAS_system(b + 3, 0u, 7u + threadIdx.x);
#if __CUDA_ARCH__ >= 900
  atomicAdd(f2, make_float2(1.f, 2.f));
  atomicAdd(f4, make_float4(1.f, 2.f, 3.f, 4.f));
#endif
}
int main() {
  const int n = 40000;
  std::vector<unsigned char> c(n);
  std::vector<int> v(n);
  uint32_t s = 99;
  unsigned hh[256] = {};
  for (int i = 0; i < n; i++) {
    s ^= s << 13;
    s ^= s >> 17;
    s ^= s << 5;
    c[i] = (s >> 7) & (s >> 15);
    hh[c[i]]++;
    v[i] = (int)s >> 6;
  }
  unsigned char* dc;
  unsigned* dh;
  unsigned long long* d64;
  MUST(cudaMalloc(&dc, n));
  MUST(cudaMalloc(&dh, 1024));
  MUST(cudaMalloc(&d64, 2048));
  MUST(cudaMemset(dh, 0, 1024));
  MUST(cudaMemset(d64, 0, 2048));
  MUST(cudaMemcpy(dc, c.data(), n, cudaMemcpyHostToDevice));
  hist<<<8, 256, 1024>>>(dc, dh, d64, n);
  MUST(cudaGetLastError());
  unsigned g[256];
  unsigned long long g64[256];
  MUST(cudaMemcpy(g, dh, 1024, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(g64, d64, 2048, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 256; i++)
    if (g[i] != hh[i] || g64[i] != (unsigned long long)hh[i] << 33) {
      HOLDS(0, "bin %d %u %u", i, g[i], hh[i]);
      break;
    }
  Out o = {}, w, *d;
  o.fmax = -1e30f;
  o.imin = INT32_MAX;
  o.imax = INT32_MIN;
  o.umin = ~0u;
  o.andv = ~0u;
  o.lmin = ~0ull;
  o.land = ~0ull;
  o.smin = INT64_MAX;
  o.smax = INT64_MIN;
  o.dec = 3;
  o.c16 = 5;
  w = o;
  for (int i = 0; i < n; i++) {
    int x = v[i];
    w.dsum += x * .5;
    w.dsum2 += x * .25;
    w.fmax = std::max(w.fmax, (float)x);
    w.fsum += .5f;
    w.imin = std::min(w.imin, x);
    w.imax = std::max(w.imax, x);
    w.iadd = (int)((unsigned)w.iadd + x);
    w.isub = (int)((unsigned)w.isub - x);
    w.umin = std::min(w.umin, (unsigned)x);
    w.umax = std::max(w.umax, (unsigned)x);
    w.inc = w.inc >= 9 ? 0 : w.inc + 1;
    w.dec = (w.dec == 0 || w.dec > 6) ? 6 : w.dec - 1;
    w.andv &= x | 0xff00ffu;
    w.orv |= x & 0x0f0f0f0f;
    w.xorv ^= x;
    unsigned long long q = (unsigned long long)(unsigned)x << 17 | (unsigned)i;
    w.lmin = std::min(w.lmin, q);
    w.lmax = std::max(w.lmax, q);
    w.land &= q | 0xff;
    w.lor |= q;
    w.lxor ^= q;
    long long z = (long long)x * 10000000000ll;
    w.smin = std::min(w.smin, z);
    w.smax = std::max(w.smax, z);
  }
  int* dv;
  __half2* h2;
  __half* h1;
  MUST(cudaMalloc(&dv, n * 4));
  MUST(cudaMalloc(&d, sizeof o));
  MUST(cudaMalloc(&h2, 4));
  MUST(cudaMalloc(&h1, 4));
  MUST(cudaMemset(h2, 0, 4));
  MUST(cudaMemset(h1, 0, 4));
  MUST(cudaMemcpy(dv, v.data(), n * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(d, &o, sizeof o, cudaMemcpyHostToDevice));
  all<<<(n + 127) / 128, 128>>>(d, dv, n, h2, h1);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy(&o, d, sizeof o, cudaMemcpyDeviceToHost));
  HOLDS(o.dsum == w.dsum && o.dsum2 == w.dsum2, "double %g %g %g %g", o.dsum, w.dsum, o.dsum2, w.dsum2);
  HOLDS(o.fmax == w.fmax && o.fsum == w.fsum, "float");
  HOLDS(o.imin == w.imin && o.imax == w.imax && o.iadd == w.iadd && o.isub == w.isub, "int");
  HOLDS(o.umin == w.umin && o.umax == w.umax, "uns");
  HOLDS(o.inc == w.inc && o.ringmax == 9, "inc %u %u", o.inc, w.inc);
  HOLDS(o.dec == w.dec, "dec %u %u", o.dec, w.dec);
  HOLDS(o.andv == w.andv && o.orv == w.orv && o.xorv == w.xorv, "bits");
  HOLDS(o.lmin == w.lmin && o.lmax == w.lmax && o.land == w.land && o.lor == w.lor && o.lxor == w.lxor, "64");
  HOLDS(o.smin == w.smin && o.smax == w.smax, "s64");
  HOLDS(o.exch64 == 1001, "exch/cas %llu", o.exch64);
  HOLDS(o.c16 == 6, "cas16 %u", o.c16);
  HOLDS(o.crit == 3ull * (n / 64), "lock %llu", o.crit);
  __half2 r2;
  __half r1;
  MUST(cudaMemcpy(&r2, h2, 4, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(&r1, h1, 2, cudaMemcpyDeviceToHost));
  HOLDS(__low2float(r2) == 40 && __high2float(r2) == 20 && __half2float(r1) == 80, "half atomics %g %g %g",
        __low2float(r2), __high2float(r2), __half2float(r1));
  MUST(cudaMemset(dh, 0, 64));
  spin_all_lanes<<<4, 64>>>(dh, (int*)dh + 1);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(g, dh, 64, cudaMemcpyDeviceToHost));
  HOLDS(g[1] == 256, "spinlock %u", g[1]);
  MUST(cudaMemset(dh, 0, 64));
  scopes<<<1, 96>>>(dh, (float4*)(dh + 4), (float2*)(dh + 8));
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(g, dh, 64, cudaMemcpyDeviceToHost));
  HOLDS(g[0] == 96 && g[1] == 192 && g[2] == 95 && g[3] >= 7 && g[3] < 103, "scopes");
  int maj;
  MUST(cudaDeviceGetAttribute(&maj, cudaDevAttrComputeCapabilityMajor, 0));
  float* ff = (float*)g;
  (void)ff;
  if (getenv("V90"))
    HOLDS(ff[4] == 96 && ff[7] == 4 * 96 && ff[8] == 96 && ff[9] == 192, "vector atomics cc %d %g", maj,
          ff[4]);
  return verdict();
}
