// Sums and extremes of arrays, by every way that the programming guide and cooperative groups offer.
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <cstdint>
namespace cg = cooperative_groups;
template <class T>
__device__ T warpSum(T v) {
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}
template <class T>
__global__ void blockSum(const T* in, T* out, int n) {
  __shared__ T s[32];
  T v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
  v = warpSum(v);
  int lane = threadIdx.x % warpSize, w = threadIdx.x / warpSize;
  if (lane == 0) s[w] = v;
  __syncthreads();
  if (w == 0) {
    v = lane < (blockDim.x + 31) / 32 ? s[lane] : T(0);
    v = warpSum(v);
    if (lane == 0) atomicAdd(out, v);
  }
}
__global__ void xorShuffleMax(const int64_t* in, int64_t* out, int n) {  // butterfly max
  int64_t m = INT64_MIN;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) m = max(m, in[i]);
  for (int o = 16; o; o >>= 1) m = max(m, (int64_t)__shfl_xor_sync(~0u, (long long)m, o));
  if (threadIdx.x % 32 == 0) atomicMax((long long*)out, (long long)m);
}
__global__ void redux(const unsigned* in, unsigned* o,
                      int n) {  // o[0]=add o[1]=min o[2]=max o[3]=and o[4]=or o[5]=xor ; o[6] signed min
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned act = __ballot_sync(~0u, i < n);
  if (i < n) {
    unsigned v = in[i];
    unsigned a = __reduce_add_sync(act, v), mi = __reduce_min_sync(act, v), ma = __reduce_max_sync(act, v);
    unsigned an = __reduce_and_sync(act, v), orr = __reduce_or_sync(act, v), x = __reduce_xor_sync(act, v);
    int smi = __reduce_min_sync(act, (int)v);
    if (__ffs(act) - 1 == threadIdx.x % 32) {
      atomicAdd(o, a);
      atomicMin(o + 1, mi);
      atomicMax(o + 2, ma);
      atomicAnd(o + 3, an);
      atomicOr(o + 4, orr);
      atomicXor(o + 5, x);
      atomicMin((int*)o + 6, smi);
    }
  }
}
template <int TS>
__global__ void tiled(const float* in, float* out, int n) {
  cg::thread_block b = cg::this_thread_block();
  auto t = cg::tiled_partition<TS>(b);
  int i = blockIdx.x * blockDim.x + b.thread_rank();
  float v = i < n ? in[i] : 0;
  for (int o = t.size() / 2; o; o /= 2) v += t.shfl_down(v, o);
  if (t.thread_rank() == 0) out[blockIdx.x * (blockDim.x / TS) + t.meta_group_rank()] = v;
}
__global__ void cgReduce(const int* in, int* sum, int* mx, unsigned long long* dsum, const double* din,
                         double* dout, int n) {
  auto b = cg::this_thread_block();
  auto t = cg::tiled_partition<32>(b);
  int i = b.group_index().x * b.size() + b.thread_rank();
  int v = i < n ? in[i] : 0;
  int s = cg::reduce(t, v, cg::plus<int>()), m = cg::reduce(t, v, cg::greater<int>());
  double d = cg::reduce(t, i < n ? din[i] : 0.0, cg::plus<double>());
  unsigned long long u =
      cg::reduce(t, (unsigned long long)(i < n ? (unsigned)in[i] : 0), cg::plus<unsigned long long>());
  if (t.thread_rank() == 0) {
    atomicAdd(sum, s);
    atomicMax(mx, m);
    atomicAdd(dout, d);
    atomicAdd(dsum, u);
  }
  if (i < n && in[i] % 3 == 0) {
    auto c = cg::coalesced_threads();
    if (c.thread_rank() == 0) atomicAdd(sum + 1, (int)c.size());
  }
  auto part = cg::labeled_partition(t, (int)(t.thread_rank() % 3));
  int c3 = cg::reduce(part, 1, cg::plus<int>());
  if (part.thread_rank() == 0) atomicAdd(sum + 2, c3);
}
__global__ void halfSum(const __half2* in, float* out, int n) {
  __half2 a = __float2half2_rn(0.f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) a = __hadd2(a, in[i]);
  for (int o = 16; o; o >>= 1) a = __hadd2(a, __shfl_down_sync(~0u, a, o));
  if (threadIdx.x % 32 == 0) {
    float2 f = __half22float2(a);
    atomicAdd(out, f.x + f.y);
  }
}
template <class T>
T runBlock(const std::vector<T>& h) {
  T *d, *o, r;
  MUST(cudaMalloc(&d, h.size() * sizeof(T)));
  MUST(cudaMalloc(&o, sizeof(T)));
  MUST(cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice));
  MUST(cudaMemset(o, 0, sizeof(T)));
  blockSum<T><<<20, 192>>>(d, o, (int)h.size());
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy(&r, o, sizeof(T), cudaMemcpyDeviceToHost));
  MUST(cudaFree(d));
  MUST(cudaFree(o));
  return r;
}
template <class T>
T* up(const std::vector<T>& h) {
  T* d;
  MUST(cudaMalloc(&d, h.size() * sizeof(T)));
  MUST(cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice));
  return d;
}
int main() {
  const int n = 50021;
  std::vector<float> f(n);
  std::vector<double> d(n);
  std::vector<int> i(n);
  std::vector<unsigned> u(n);
  std::vector<unsigned long long> ull(n);
  std::vector<int64_t> l(n);
  uint32_t s = 12345;
  double sf = 0, sd = 0;
  int64_t si = 0;
  unsigned su = 0;
  unsigned long long sul = 0;
  int64_t ml = INT64_MIN;
  unsigned rmin = ~0u, rmax = 0, rand_ = ~0u, ror = 0, rx = 0;
  int smin = INT32_MAX, cnt3 = 0, imax = INT32_MIN;
  unsigned long long usum = 0;
  for (int k = 0; k < n; k++) {
    s = s * 1664525u + 1013904223u;
    f[k] = (s >> 8) / 16777216.f;
    d[k] = f[k] * 1e-3 + k;
    i[k] = (int)(s >> 4) % 1000 - 300;
    u[k] = s | 0x10;
    ull[k] = (unsigned long long)s << 20;
    l[k] = ((int64_t)s << 31) - (1ll << 61);
    sf += f[k];
    sd += d[k];
    si += i[k];
    su += u[k];
    sul += ull[k];
    ml = std::max(ml, l[k]);
    rmin = std::min(rmin, u[k]);
    rmax = std::max(rmax, u[k]);
    rand_ &= u[k];
    ror |= u[k];
    rx ^= u[k];
    smin = std::min(smin, (int)u[k]);
    cnt3 += i[k] % 3 == 0;
    imax = std::max(imax, i[k]);
    usum += (unsigned)i[k];
  }
  float gf = runBlock(f);
  HOLDS(fabs(gf - sf) < 1e-3 * sf, "%g %g", gf, sf);
  double gd = runBlock(d);
  HOLDS(fabs(gd - sd) < 1e-9 * sd, "%.15g %.15g", gd, sd);
  HOLDS(runBlock(i) == si, "int");
  HOLDS(runBlock(u) == su, "uint");
  HOLDS(runBlock(ull) == sul, "ull");
  int64_t* dl = up(l);
  int64_t *dm, hm = INT64_MIN;
  MUST(cudaMalloc(&dm, 8));
  MUST(cudaMemcpy(dm, &hm, 8, cudaMemcpyHostToDevice));
  xorShuffleMax<<<13, 128>>>(dl, dm, n);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(&hm, dm, 8, cudaMemcpyDeviceToHost));
  HOLDS(hm == ml, "%lld %lld", (long long)hm, (long long)ml);
  unsigned ro[7] = {0, ~0u, 0, ~0u, 0, 0, 0x7fffffff};
  unsigned* du = up(u);
  unsigned* dro;
  MUST(cudaMalloc(&dro, 28));
  MUST(cudaMemcpy(dro, ro, 28, cudaMemcpyHostToDevice));
  redux<<<(n + 255) / 256, 256>>>(du, dro, n);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(ro, dro, 28, cudaMemcpyDeviceToHost));
  HOLDS(ro[0] == su, "redux add %u %u", ro[0], su);
  HOLDS(ro[1] == rmin && ro[2] == rmax, "redux min max");
  HOLDS(ro[3] == rand_ && ro[4] == ror && ro[5] == rx, "redux bits");
  HOLDS((int)ro[6] == smin, "redux smin");
  float* df = up(f);
  float* dt;
  MUST(cudaMalloc(&dt, sizeof(float) * (n + 512)));
  auto tl = [&](auto k, int ts) {
    int nb = (n + 127) / 128;
    k<<<nb, 128>>>(df, dt, n);
    MUST(cudaGetLastError());
    std::vector<float> h(nb * 128 / ts);
    MUST(cudaMemcpy(h.data(), dt, h.size() * 4, cudaMemcpyDeviceToHost));
    for (size_t q = 0; q < h.size(); q++) {
      double r = 0;
      for (int z = 0; z < ts; z++)
        if (q * ts + z < n) r += f[q * ts + z];
      HOLDS(fabs(r - h[q]) < 1e-4, "tile %d at %zu: %g %g", ts, q, h[q], r);
      if (failures) break;
    }
  };
  tl(tiled<32>, 32);
  tl(tiled<16>, 16);
  tl(tiled<4>, 4);
  tl(tiled<2>, 2);
  int* di = up(i);
  double* dd = up(d);
  int *ds, hs[4] = {0, 0, 0, INT32_MIN};
  MUST(cudaMalloc(&ds, 16));
  MUST(cudaMemcpy(ds, hs, 16, cudaMemcpyHostToDevice));
  double* dout;
  MUST(cudaMalloc(&dout, 16));
  MUST(cudaMemset(dout, 0, 16));
  cgReduce<<<(n + 127) / 128, 128>>>(di, ds, ds + 3, (unsigned long long*)(dout + 1), dd, dout, n);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  double ho[2];
  MUST(cudaMemcpy(hs, ds, 16, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(ho, dout, 16, cudaMemcpyDeviceToHost));
  unsigned long long hu;
  memcpy(&hu, ho + 1, 8);
  HOLDS(hs[0] == si, "cg sum %d %lld", hs[0], (long long)si);
  HOLDS(hs[1] == cnt3, "coalesced %d %d", hs[1], cnt3);
  HOLDS(hs[2] == (n + 127) / 128 * 128, "labeled %d", hs[2]);
  HOLDS(hs[3] == imax, "cg max %d %d", hs[3], imax);
  HOLDS(fabs(ho[0] - sd) < 1e-9 * sd, "cg dbl");
  HOLDS(hu == usum, "cg ull %llu %llu", hu, usum);
  std::vector<__half2> hh(512);
  double hsum = 0;
  for (int k = 0; k < 512; k++) {
    hh[k] = __floats2half2_rn(k % 4, 0.5f);
    hsum += k % 4 + 0.5;
  }
  __half2* dh = up(hh);
  float* fo;
  MUST(cudaMalloc(&fo, 4));
  MUST(cudaMemset(fo, 0, 4));
  halfSum<<<1, 64>>>(dh, fo, 512);
  MUST(cudaGetLastError());
  float hf;
  MUST(cudaMemcpy(&hf, fo, 4, cudaMemcpyDeviceToHost));
  HOLDS(hf == hsum, "half %g %g", hf, hsum);
  return verdict();
}
