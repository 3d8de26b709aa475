// Prefix sums in three phases and with look-back, compaction by ballots, and the votes of a warp.
#include "check.h"

#include <cstdint>
// three-phase inclusive scan, decoupled look-back scan, ballot stream compaction, warp-partition
template <class T>
__device__ T warpScan(T v) {
  int lane = threadIdx.x & 31;
  for (int o = 1; o < 32; o <<= 1) {
    T u = __shfl_up_sync(~0u, v, o);
    if (lane >= o) v += u;
  }
  return v;
}
template <class T, int B>
__device__ T blockScan(T v, T* total) {
  __shared__ T ws[B / 32];
  int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  v = warpScan(v);
  if (lane == 31) ws[w] = v;
  __syncthreads();
  if (w == 0) {
    T x = lane < B / 32 ? ws[lane] : T(0);
    x = warpScan(x);
    if (lane < B / 32) ws[lane] = x;
  }
  __syncthreads();
  T r = v + (w ? ws[w - 1] : T(0));
  *total = ws[B / 32 - 1];
  __syncthreads();
  return r;
}
template <class T, int B>
__global__ void scan1(const T* in, T* out, T* sums, int n) {
  int i = blockIdx.x * B + threadIdx.x;
  T tot, v = blockScan<T, B>(i < n ? in[i] : T(0), &tot);
  if (i < n) out[i] = v;
  if (threadIdx.x == 0 && sums) sums[blockIdx.x] = tot;
}
template <class T>
__global__ void addBase(T* out, const T* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x && i < n) out[i] += sums[blockIdx.x - 1];
}
struct Status {
  unsigned flag;
  int value;
};  // 0 none 1 aggregate 2 prefix : packed into 64 bits
__device__ unsigned ticket;
template <int B>
__global__ void lookback(const int* in, int* out, volatile unsigned long long* st, int n) {
  __shared__ int bid, base;
  if (threadIdx.x == 0) bid = atomicAdd(&ticket, 1);
  __syncthreads();
  int i = bid * B + threadIdx.x, tot, v = blockScan<int, B>(i < n ? in[i] : 0, &tot);
  if (threadIdx.x == 0) {
    int acc = 0;
    if (bid > 0) {
      st[bid] = (1ull << 32) | (unsigned)tot;
      __threadfence();
      int p = bid - 1;
      while (true) {
        unsigned long long s = st[p];
        unsigned f = s >> 32;
        if (f == 0) continue;
        acc += (int)(unsigned)s;
        if (f == 2) break;
        p--;
      }
    }
    st[bid] = (2ull << 32) | (unsigned)(acc + tot);
    __threadfence();
    base = acc;
  }
  __syncthreads();
  if (i < n) out[i] = v + base;
}
// stable compaction of even values: count per block; scan; scatter
template <int B>
__global__ void cntKeep(const int16_t* in, int* cnt, int n) {
  int i = blockIdx.x * B + threadIdx.x;
  int c = __syncthreads_count(i < n && in[i] % 2 == 0);
  if (threadIdx.x == 0) cnt[blockIdx.x] = c;
}
template <int B>
__global__ void scatter(const int16_t* in, const int* base, int16_t* out, int n) {
  __shared__ int wc[B / 32];
  int i = blockIdx.x * B + threadIdx.x, w = threadIdx.x / 32;
  unsigned lt;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
  bool keep = i < n && in[i] % 2 == 0;
  unsigned m = __ballot_sync(~0u, keep);
  if (threadIdx.x % 32 == 0) wc[w] = __popc(m);
  __syncthreads();
  int b = blockIdx.x ? base[blockIdx.x - 1] : 0;
  for (int k = 0; k < w; k++) b += wc[k];
  if (keep) out[b + __popc(m & lt)] = in[i];
}
// unordered compaction with warp-aggregated atomics in divergent code
__global__ void aggInc(const int* in, int* out, unsigned* ctr, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] > 3) {
    unsigned m = __activemask();
    int lead = __ffs(m) - 1, lane = threadIdx.x & 31;
    unsigned b;
    if (lane == lead) b = atomicAdd(ctr, (unsigned)__popc(m));
    b = __shfl_sync(m, b, lead);
    out[b + __popc(m & ((1u << lane) - 1))] = i;
  }
}
__global__ void anyAll(const int* in, int* r) {
  int v = in[threadIdx.x];
  r[0 * 64 + threadIdx.x] = __any_sync(~0u, v == 5);
  r[64 + threadIdx.x] = __all_sync(~0u, v >= 0);
  r[128 + threadIdx.x] = __syncthreads_and(v < 100);
  r[192 + threadIdx.x] = __syncthreads_or(v == 9999);
  int pred;
  r[256 + threadIdx.x] = __match_any_sync(~0u, v);
  r[320 + threadIdx.x] = __match_all_sync(~0u, v / 1000, &pred);
  r[384 + threadIdx.x] = pred;
}
int main() {
  const int n = 100003;
  constexpr int B = 256;
  int nb = (n + B - 1) / B;
  std::vector<int> h(n), g(n);
  std::vector<int64_t> h8(n), g8(n);
  std::vector<int16_t> hs(n), want;
  uint32_t s = 7;
  int big = 0;
  for (int i = 0; i < n; i++) {
    s = s * 1103515245u + 12345;
    h[i] = (s >> 16) % 7;
    h8[i] = (int64_t)(s >> 8) * 1000003 - 5000000000ll;
    hs[i] = (int16_t)(s >> 9);
    if (hs[i] % 2 == 0) want.push_back(hs[i]);
    big += h[i] > 3;
  }
  int *di, *dout, *dsum, *dss;
  MUST(cudaMalloc(&di, n * 4));
  MUST(cudaMalloc(&dout, n * 4));
  MUST(cudaMalloc(&dsum, 4096 * 8));
  MUST(cudaMalloc(&dss, 4096 * 8));
  int64_t *d8, *o8;
  MUST(cudaMalloc(&d8, n * 8));
  MUST(cudaMalloc(&o8, n * 8));
  MUST(cudaMemcpy(di, h.data(), n * 4, cudaMemcpyDefault));
  MUST(cudaMemcpy(d8, h8.data(), n * 8, cudaMemcpyHostToDevice));
  int64_t *s8 = (int64_t*)dsum, *t8 = (int64_t*)dss;
  scan1<int64_t, B><<<nb, B>>>(d8, o8, s8, n);
  scan1<int64_t, 512><<<1, 512>>>(s8, t8, (int64_t*)nullptr, nb);
  addBase<<<nb, B>>>(o8, t8, n);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(g8.data(), o8, n * 8, cudaMemcpyDeviceToHost));
  int64_t a = 0;
  for (int i = 0; i < n; i++) {
    a += h8[i];
    if (a != g8[i]) {
      HOLDS(0, "scan64 at %d", i);
      break;
    }
  }
  unsigned long long* st;
  MUST(cudaMalloc(&st, nb * 8));
  MUST(cudaMemset(st, 0, nb * 8));
  lookback<B><<<nb, B>>>(di, dout, st, n);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  MUST(cudaMemcpy(g.data(), dout, n * 4, cudaMemcpyDeviceToHost));
  int b = 0;
  for (int i = 0; i < n; i++) {
    b += h[i];
    if (b != g[i]) {
      HOLDS(0, "lookback at %d: %d %d", i, g[i], b);
      break;
    }
  }
  unsigned tk;
  MUST(cudaMemcpyFromSymbol(&tk, ticket, 4));
  HOLDS(tk == (unsigned)nb, "ticket %u", tk);
  int16_t *d2, *o2;
  MUST(cudaMalloc(&d2, n * 2));
  MUST(cudaMalloc(&o2, n * 2));
  MUST(cudaMemcpy(d2, hs.data(), n * 2, cudaMemcpyHostToDevice));
  MUST(cudaMemset(o2, 0xff, n * 2));
  cntKeep<B><<<nb, B>>>(d2, dsum, n);
  scan1<int, 512><<<1, 512>>>(dsum, dss, (int*)nullptr, nb);
  scatter<B><<<nb, B>>>(d2, dss, o2, n);
  MUST(cudaGetLastError());
  std::vector<int16_t> got(want.size());
  MUST(cudaMemcpy(got.data(), o2, got.size() * 2, cudaMemcpyDeviceToHost));
  HOLDS(got == want, "compaction");
  unsigned* c;
  MUST(cudaMalloc(&c, 4));
  MUST(cudaMemset(c, 0, 4));
  aggInc<<<nb, B>>>(di, dout, c, n);
  MUST(cudaGetLastError());
  unsigned hc;
  MUST(cudaMemcpy(&hc, c, 4, cudaMemcpyDeviceToHost));
  HOLDS((int)hc == big, "agg %u %d", hc, big);
  MUST(cudaMemcpy(g.data(), dout, big * 4, cudaMemcpyDeviceToHost));
  std::vector<char> seen(n);
  for (int i = 0; i < big; i++) {
    if (h[g[i]] <= 3 || seen[g[i]]) {
      HOLDS(0, "agg idx");
      break;
    }
    seen[g[i]] = 1;
  }
  std::vector<int> v(64);
  for (int i = 0; i < 64; i++) v[i] = i < 32 ? i % 5 : 5 + i % 3 * 1;
  v[40] = 77;
  int* r;
  MUST(cudaMalloc(&r, 448 * 4));
  MUST(cudaMemcpy(di, v.data(), 256, cudaMemcpyHostToDevice));
  anyAll<<<1, 64>>>(di, r);
  MUST(cudaGetLastError());
  int hr[448];
  MUST(cudaMemcpy(hr, r, sizeof hr, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 64; t++) {
    unsigned m = 0;
    for (int q = 0; q < 32; q++)
      if (v[t / 32 * 32 + q] == v[t]) m |= 1u << q;
    HOLDS(!!hr[t] == (t >= 32) && hr[64 + t] && hr[128 + t] && !hr[192 + t], "vote %d", t);
    HOLDS((unsigned)hr[256 + t] == m, "match_any %d %x %x", t, hr[256 + t], m);
    HOLDS((unsigned)hr[320 + t] == ~0u && hr[384 + t], "match_all");
    if (failures) break;
  }
  return verdict();
}
