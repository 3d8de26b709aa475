// Bitonic sorting in shared memory and registers, radix sorting with match_any.
#include "check.h"

#include <random>
// bitonic sort in shared memory with the last stages in registers through shuffles; then LSD radix sort with
// match_any
template <class K>
__global__ void bitonic_block(K* keys) {
  extern __shared__ unsigned char raw[];
  K* s = reinterpret_cast<K*>(raw);
  int t = threadIdx.x, n = blockDim.x;
  K* base = keys + (size_t)blockIdx.x * n;
  s[t] = base[t];
  __syncthreads();
  for (int k = 2; k <= n; k <<= 1) {
    int j = k >> 1;
    for (; j >= 32; j >>= 1) {
      int p = t ^ j;
      if (p > t) {
        bool up = (t & k) == 0;
        K a = s[t], b = s[p];
        if ((a > b) == up) {
          s[t] = b;
          s[p] = a;
        }
      }
      __syncthreads();
    }
    K v = s[t];
    for (; j > 0; j >>= 1) {
      K o = __shfl_xor_sync(0xffffffffu, v, j);
      bool up = (t & k) == 0, lower = (t & j) == 0;
      K mn = v < o ? v : o, mx = v < o ? o : v;
      v = (up == lower) ? mn : mx;
    }
    s[t] = v;
    __syncthreads();
  }
  base[t] = s[t];
}
template <class K>
__global__ void hist(const K* in, unsigned* h, int n, int shift, int per) {
  __shared__ unsigned sh[16];
  if (threadIdx.x < 16) sh[threadIdx.x] = 0;
  __syncthreads();
  int b = blockIdx.x * per, e = min(b + per, n);
  for (int i = b + threadIdx.x; i < e; i += blockDim.x) atomicAdd(&sh[(in[i] >> shift) & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) h[threadIdx.x * gridDim.x + blockIdx.x] = sh[threadIdx.x];
}
__global__ void scan_one(unsigned* h, int n) {  // one block, chunked Hillis-Steele by warps
  __shared__ unsigned ws[32];
  __shared__ unsigned carry;
  if (threadIdx.x == 0) carry = 0;
  __syncthreads();
  int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  for (int base = 0; base < n; base += blockDim.x) {
    int i = base + threadIdx.x;
    unsigned v = i < n ? h[i] : 0, x = v;
    for (int d = 1; d < 32; d <<= 1) {
      unsigned y = __shfl_up_sync(~0u, x, d);
      if (lane >= d) x += y;
    }
    if (lane == 31) ws[w] = x;
    __syncthreads();
    if (w == 0) {
      unsigned q = lane < blockDim.x / 32 ? ws[lane] : 0;
      for (int d = 1; d < 32; d <<= 1) {
        unsigned y = __shfl_up_sync(~0u, q, d);
        if (lane >= d) q += y;
      }
      ws[lane] = q;
    }
    __syncthreads();
    unsigned off = carry + (w ? ws[w - 1] : 0);
    if (i < n) h[i] = off + x - v;
    __syncthreads();
    if (threadIdx.x == 0) carry += ws[blockDim.x / 32 - 1];
    __syncthreads();
  }
}
// one warp per block tile: stable ranks by match_any
template <class K>
__global__ void scatter(const K* in, K* out, const unsigned* h, int n, int shift, int per) {
  __shared__ unsigned pos[16];
  int lane = threadIdx.x;
  if (lane < 16) pos[lane] = h[lane * gridDim.x + blockIdx.x];
  __syncwarp();
  int b = blockIdx.x * per, e = min(b + per, n);
  for (int i0 = b; i0 < e; i0 += 32) {
    int i = i0 + lane;
    unsigned act = __ballot_sync(~0u, i < e);
    if (i < e) {
      K k = in[i];
      unsigned d = (unsigned)(k >> shift) & 15;
      unsigned peers = __match_any_sync(act, d);
      unsigned lt;
      asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
      unsigned rank = __popc(peers & lt);
      unsigned p = pos[d];
      __syncwarp(act);
      if (rank == 0) pos[d] = p + __popc(peers);
      out[p + rank] = k;
    }
    __syncwarp();
  }
}
template <class K>
void radix(K* a, K* b, int n, const char* name, std::vector<K> v) {
  int per = 256, blocks = (n + per - 1) / per;
  unsigned* h;
  MUST(cudaMalloc(&h, 16 * blocks * 4));
  MUST(cudaMemcpy(a, v.data(), n * sizeof(K), cudaMemcpyHostToDevice));
  for (int s = 0; s < (int)sizeof(K) * 8; s += 4) {
    hist<K><<<blocks, 128>>>(a, h, n, s, per);
    MUST(cudaGetLastError());
    scan_one<<<1, 256>>>(h, 16 * blocks);
    MUST(cudaGetLastError());
    scatter<K><<<blocks, 32>>>(a, b, h, n, s, per);
    MUST(cudaGetLastError());
    std::swap(a, b);
  }
  std::vector<K> r(n);
  MUST(cudaMemcpy(r.data(), a, n * sizeof(K), cudaMemcpyDeviceToHost));
  std::sort(v.begin(), v.end());
  HOLDS(r == v, "radix %s", name);
  MUST(cudaFree(h));
}
template <class K>
void bit(K* a, int n, const char* name, std::vector<K> v) {
  int bs = 512;
  n = n / bs * bs;
  MUST(cudaMemcpy(a, v.data(), n * sizeof(K), cudaMemcpyHostToDevice));
  bitonic_block<K><<<n / bs, bs, bs * sizeof(K)>>>(a);
  MUST_RUN();
  std::vector<K> r(n);
  MUST(cudaMemcpy(r.data(), a, n * sizeof(K), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i += bs) std::sort(v.begin() + i, v.begin() + i + bs);
  v.resize(n);
  HOLDS(r == v, "bitonic %s", name);
}
template <class K>
std::vector<K> gen(int n) {
  std::mt19937_64 g(7);
  std::vector<K> v(n);
  for (auto& x : v) x = (K)g();
  for (int i = 0; i < n; i += 17) v[i] = v[i / 2];
  return v;
}
int main() {
  int n = 10001;
  void *a, *b;
  MUST(cudaMalloc(&a, n * 8));
  MUST(cudaMalloc(&b, n * 8));
  bit<uint32_t>((uint32_t*)a, 4096, "u32", gen<uint32_t>(n));
  bit<long long>((long long*)a, 4096, "s64", gen<long long>(n));
  bit<float>((float*)a, 2048, "f32", [&] {
    auto u = gen<uint32_t>(n);
    std::vector<float> f(n);
    for (int i = 0; i < n; i++) f[i] = (float)(int)u[i];
    return f;
  }());
  bit<double>((double*)a, 2048, "f64", [&] {
    auto u = gen<long long>(n);
    std::vector<double> f(n);
    for (int i = 0; i < n; i++) f[i] = (double)u[i];
    return f;
  }());
  bit<short>((short*)a, 2048, "s16", gen<short>(n));
  radix<uint32_t>((uint32_t*)a, (uint32_t*)b, n, "u32", gen<uint32_t>(n));
  radix<uint64_t>((uint64_t*)a, (uint64_t*)b, 5003, "u64", [&] {
    auto v = gen<uint64_t>(5003);
    return v;
  }());
  return verdict();
}
