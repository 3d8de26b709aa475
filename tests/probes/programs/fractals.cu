// Escape times in float and double, over several streams and pinned memory.
#include "check.h"

#include <cmath>
// escape time; double compared bit-exact (explicit rn intrinsics and compiled with fma contraction off by
// intrinsics)
template <class T>
struct Op;
template <>
struct Op<double> {
  __device__ static double mul(double a, double b) { return __dmul_rn(a, b); }
  __device__ static double add(double a, double b) { return __dadd_rn(a, b); }
};
template <>
struct Op<float> {
  __device__ static float mul(float a, float b) { return __fmul_rn(a, b); }
  __device__ static float add(float a, float b) { return __fadd_rn(a, b); }
};
template <class T>
__global__ void mandel(int* out, T* zr, int w, int h, int maxit) {
  using O = Op<T>;
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  T cr = O::add(O::mul((T)x, (T)3 / (T)w), (T)-2.25), ci = O::add(O::mul((T)y, (T)2.5 / (T)h), (T)-1.25);
  T r = 0, i = 0;
  int it = 0;
  while (true) {
    T rr = O::mul(r, r), ii = O::mul(i, i);
    if (O::add(rr, ii) > (T)4) break;
    if (++it >= maxit) goto inside;
    i = O::add(O::mul(O::mul(r, i), (T)2), ci);
    r = O::add(O::add(rr, -ii), cr);
  }
  out[y * w + x] = it;
  zr[y * w + x] = r;
  return;
inside:
  out[y * w + x] = -maxit;
  zr[y * w + x] = i;
}
template <class T>
void mandel_cpu(int* out, T* zr, int w, int h, int maxit) {
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      volatile T dx = (T)3 / (T)w, dy = (T)2.5 / (T)h;
      volatile T t = (T)x * dx;
      volatile T cr = t + (T)-2.25;
      t = (T)y * dy;
      volatile T ci = t + (T)-1.25;
      volatile T r = 0, i = 0;
      int it = 0;
      bool in = false;
      while (true) {
        volatile T rr = r * r, ii = i * i;
        volatile T s = rr + ii;
        if (s > 4) break;
        if (++it >= maxit) {
          in = true;
          break;
        }
        volatile T ri = r * i;
        volatile T p2 = ri * 2;
        i = p2 + ci;
        volatile T d = rr - ii;
        r = d + cr;
      }
      out[y * w + x] = in ? -maxit : it;
      zr[y * w + x] = in ? i : r;
    }
}
// Julia with a tiny virtual machine: switch-heavy, continue, nested loops, early returns, goto state machine
__host__ __device__ inline unsigned vm(unsigned seed, const unsigned char* prog, int len) {
  unsigned acc = seed, r[4] = {seed, seed * 3u, seed ^ 0x55u, 1u};
  int pc = 0, steps = 0;
top:
  if (++steps > 200) return acc ^ 0xdead0000u;
  if (pc >= len) goto end;
  switch (prog[pc] & 15) {
    case 0:
      acc += r[prog[pc] >> 6];
      break;
    case 1:
      acc ^= r[(prog[pc] >> 4) & 3];
      pc++;
      goto top;
    case 2:
      if (acc & 1) {
        pc += 2;
        goto top;
      }
      break;
    case 3:
      for (int i = 0; i < (int)(acc & 7); i++) {
        if (i == 3) continue;
        if (r[i & 3] & 0x100) break;
        acc = acc * 5 + i;
      }
      break;
    case 4:
      r[acc & 3] = acc;  // fall through
    case 5:
      acc = (acc >> 3) | (acc << 29);
      break;
    case 6:
      if (steps < 150 && (acc & 0x30)) {
        pc = prog[pc] >> 4;
        goto top;
      }
      break;
    case 7: {
      int k = 0;
      do {
        acc = (acc & 1) ? acc * 3 + 1 : acc >> 1;
        if (acc == 1) goto end;
      } while (++k < 10);
      break;
    }
    case 8:
      while (acc > 0xf0000000u) {
        acc -= 0x12345678u;
        if (!(acc & 2)) break;
      }
      break;
    case 9:
      return acc * 7u;
    case 10:
      r[3] = acc / (r[0] | 1);
      break;
    case 11:
      r[2] = acc % (r[1] | 1);
      break;
    case 12:
      acc = (int)acc >> 2;
      break;
    default:
      acc ^= prog[pc] * 0x9e3779b9u;
  }
  pc++;
  goto top;
end:
  return acc + steps;
}
__global__ void vmk(const unsigned char* prog, int len, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = vm(i * 2654435761u, prog + (i % 7) * 3, len - (i % 7) * 3);
}
__global__ void julia(float2* out, int n, float cr, float ci) {
  for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < n * n; p += gridDim.x * blockDim.x) {
    float x = -1.5f + 3.f * (p % n) / n, y = -1.5f + 3.f * (p / n) / n;
    int k = 0;
    float m = 0;
    for (; k < 100; ++k) {
      float xx = x * x - y * y + cr;
      y = 2 * x * y + ci;
      x = xx;
      m = x * x + y * y;
      if (m > 16.f) break;
      if (m < 1e-12f) continue;
    }
    out[p] = make_float2(k, m);
  }
}
__global__ void collatz(int* steps, int n) {  // heavy divergence + nested function + warp vote at end
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  int s = 0;
  long long v = i + 1;
  if (i < n) {
    while (v != 1) {
      v = v % 2 ? 3 * v + 1 : v / 2;
      if (++s > 400) break;
    }
  }
  int any = __syncthreads_or(s > 100), cnt = __syncthreads_count(s & 1), all = __syncthreads_and(s < 300);
  if (i < n) steps[i] = s + 1000 * any + 10000 * cnt + 100000000 * all;
}
template <class T>
void mt(const char* nm) {
  int w = 90, h = 70, mi = 120;
  int* o;
  T* z;
  MUST(cudaMalloc(&o, w * h * 4));
  MUST(cudaMalloc(&z, w * h * sizeof(T)));
  mandel<T><<<dim3((w + 15) / 16, (h + 7) / 8), dim3(16, 8)>>>(o, z, w, h, mi);
  MUST_RUN();
  std::vector<int> a(w * h), b(w * h);
  std::vector<T> za(w * h), zb(w * h);
  MUST(cudaMemcpy(a.data(), o, w * h * 4, cudaMemcpyDefault));
  MUST(cudaMemcpy(za.data(), z, w * h * sizeof(T), cudaMemcpyDefault));
  mandel_cpu<T>(b.data(), zb.data(), w, h, mi);
  HOLDS(a == b, "%s counts", nm);
  HOLDS(!memcmp(za.data(), zb.data(), w * h * sizeof(T)), "%s values", nm);
}
int main() {
  mt<double>("double");
  mt<float>("float");
  std::vector<unsigned char> prog(60);
  unsigned s = 99;
  for (auto& c : prog) {
    s = s * 1664525u + 1013904223u;
    c = s >> 20;
  }
  unsigned char* dp;
  unsigned* o;
  int n = 4000;
  MUST(cudaMalloc(&dp, 60));
  MUST(cudaMalloc(&o, n * 4));
  MUST(cudaMemcpy(dp, prog.data(), 60, cudaMemcpyHostToDevice));
  vmk<<<(n + 255) / 256, 256>>>(dp, 60, o, n);
  MUST_RUN();
  std::vector<unsigned> r(n);
  MUST(cudaMemcpy(r.data(), o, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) {
    unsigned e = vm(i * 2654435761u, prog.data() + (i % 7) * 3, 60 - (i % 7) * 3);
    HOLDS(e == r[i], "vm %d %08x %08x", i, e, r[i]);
  }
  int jn = 48;
  float2* j;
  MUST(cudaMalloc(&j, jn * jn * 8));
  julia<<<5, 96>>>(j, jn, -0.4f, 0.6f);
  MUST_RUN();
  std::vector<float2> jr(jn * jn);
  MUST(cudaMemcpy(jr.data(), j, jn * jn * 8, cudaMemcpyDeviceToHost));
  int diff = 0;
  for (int p = 0; p < jn * jn; p++) {
    double x = -1.5 + 3. * (p % jn) / jn, y = -1.5 + 3. * (p / jn) / jn, m = 0;
    int k = 0;
    for (; k < 100; k++) {
      double xx = x * x - y * y + (double)-0.4f;
      y = 2 * x * y + (double)0.6f;
      x = xx;
      m = x * x + y * y;
      if (m > 16) break;
    }
    diff += abs(k - (int)jr[p].x) > 1;
  }
  HOLDS(diff < jn * jn / 50, "julia differs in %d", diff);
  int cn = 1000, *c;
  MUST(cudaMalloc(&c, cn * 4));
  collatz<<<8, 128>>>(c, cn);
  MUST_RUN();
  std::vector<int> cr(cn);
  MUST(cudaMemcpy(cr.data(), c, cn * 4, cudaMemcpyDeviceToHost));
  for (int b = 0; b < 8; b++) {
    int st[128], any = 0, cnt = 0, all = 1;
    for (int t = 0; t < 128; t++) {
      int i = b * 128 + t, k = 0;
      long long v = i + 1;
      if (i < cn)
        while (v != 1) {
          v = v % 2 ? 3 * v + 1 : v / 2;
          if (++k > 400) break;
        }
      st[t] = k;
      any |= k > 100;
      cnt += k & 1;
      all &= k < 300;
    }
    for (int t = 0; t < 128 && b * 128 + t < cn; t++)
      HOLDS(cr[b * 128 + t] == st[t] + 1000 * any + 10000 * cnt + 100000000 * all, "collatz %d", b * 128 + t);
  }
  return verdict();
}
