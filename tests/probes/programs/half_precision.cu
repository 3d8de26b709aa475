// Arithmetic in half and bfloat16, scalar and in pairs, against the host.
#include "check.h"

#include <cuda_fp16.h>

#include <cuda_bf16.h>

#include <cfenv>
#include <cmath>
// host reference: exact software rounding of a double to a format with p bits of precision
static double rnd(double v, int p, int emin, double maxv, int mode) {  // mode 0 rn 1 rz 2 ru 3 rd
  if (v == 0 || std::isnan(v) || std::isinf(v)) return v;
  int e;
  frexp(v, &e);
  e--;
  if (e < emin) e = emin;
  double ulp = ldexp(1.0, e - (p - 1)), q = v / ulp, r;
  if (mode == 0)
    r = nearbyint(q);
  else if (mode == 1)
    r = trunc(q);
  else if (mode == 2)
    r = ceil(q);
  else
    r = floor(q);
  r *= ulp;
  if (r == 0) r = copysign(0.0, v);
  if (fabs(r) > maxv) {
    bool inf = mode == 0 || (mode == 2 && v > 0) || (mode == 3 && v < 0);
    r = copysign(inf ? INFINITY : maxv, v);
  }
  return r;
}
static double rh(double v, int m = 0) {
  return rnd(v, 11, -14, 65504, m);
}
static double rb(double v, int m = 0) {
  return rnd(v, 8, -126, 3.3895313892515355e38, m);
}
constexpr int NH = 24;
__global__ void hk(const float* a, const float* b, const float* c, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float* r = o + i * 2 * NH;
  __half x = __float2half(a[i]), y = __float2half(b[i]), z = __float2half(c[i]);
  r[0] = __half2float(x + y);
  r[1] = __half2float(__hsub(x, y));
  r[2] = __half2float(x * y);
  r[3] = __half2float(__hfma(x, y, z));
  r[4] = __half2float(__hdiv(x, y));
  r[5] = __half2float(__float2half_rz(a[i]));
  r[6] = __half2float(__float2half_ru(a[i]));
  r[7] = __half2float(__float2half_rd(a[i]));
  r[8] = __hlt(x, y) + 2 * __hge(x, y) + 4 * __heq(x, x) + 8 * __hne(x, y) + 16 * __hgtu(x, y) +
         32 * (int)__hisnan(x);
  r[9] = __half2float(__hmax(x, y));
  r[10] = __half2float(__hmin(x, y));
  r[11] = __half2float(hsqrt(__habs(x)));
  r[12] = __half2float(__hneg(x));
  r[13] = __half2int_rn(x);
  r[14] = __half2int_rz(x);
  r[15] = __half2int_ru(x);
  r[16] = __half2int_rd(x);
  r[17] = __half2float(__int2half_rn(i * 37 - 9000));
  r[18] = __half2float(hceil(x));
  r[19] = __half2float(hrint(x));
  __half2 p = __halves2half2(x, y), q = __halves2half2(z, x), s = __hfma2(p, q, __half2half2(z));
  r[20] = __low2float(s);
  r[21] = __high2float(s);
  r[22] = (float)__half_as_ushort(__hadd_sat(x, y));
  r[23] = __half2float(__hadd2(p, q).y);
  r += NH;
  __nv_bfloat16 u = __float2bfloat16(a[i]), v = __float2bfloat16(b[i]), w = __float2bfloat16(c[i]);
  r[0] = __bfloat162float(u + v);
  r[1] = __bfloat162float(__hsub(u, v));
  r[2] = __bfloat162float(u * v);
  r[3] = __bfloat162float(__hfma(u, v, w));
  r[4] = __bfloat162float(__hdiv(u, v));
  r[5] = __bfloat162float(__float2bfloat16_rz(a[i]));
  r[6] = __bfloat162float(__float2bfloat16_ru(a[i]));
  r[7] = __bfloat162float(__float2bfloat16_rd(a[i]));
  r[8] = __hlt(u, v) + 2 * __hge(u, v) + 4 * __heq(u, u) + 8 * __hne(u, v);
  r[9] = __bfloat162float(__hmax(u, v));
  r[10] = __bfloat162float(__hmin(u, v));
  r[11] = __bfloat162float(hsqrt(__habs(u)));
  r[12] = __bfloat162float(__hneg(u));
  r[13] = __bfloat162int_rn(u);
  r[14] = __bfloat162int_rz(u);
  r[15] = __bfloat162int_ru(u);
  r[16] = __bfloat162int_rd(u);
  r[17] = __bfloat162float(__int2bfloat16_rn(i * 37 - 9000));
  __nv_bfloat162 bp = __floats2bfloat162_rn(a[i], b[i]), bq = __halves2bfloat162(w, u);
  float2 f = __bfloat1622float2(__hfma2(bp, bq, __bfloat162bfloat162(w)));
  r[18] = f.x;
  r[19] = f.y;
  r[20] = __bfloat162float(__hmul2(bp, bq).x);
  r[21] = __bfloat162float(hfloor(u));
  r[22] = __hbeq2(bp, bp);
  r[23] = __bfloat162float(__hadd2(bp, bq).y);
}
typedef unsigned long long u64;
typedef long long s64;
typedef unsigned __int128 u128;
typedef __int128 s128;
constexpr int NI = 56;
__host__ __device__ inline void ints(u64 a, u64 b, u64* r) {
  s64 sa = a, sb = b;
  if (!b) b = sb = 3;
  r[0] = a / b;
  r[1] = a % b;
  r[2] = (sa == (s64)(1ull << 63) && sb == -1) ? 0 : sa / sb;
  r[3] = (sa == (s64)(1ull << 63) && sb == -1) ? 0 : sa % sb;
  u128 x = (u128)a << 64 | b, y = (u128)b * a + 12345;
  u128 q = x / (y | 1), m = x % (y | 1);
  r[4] = q;
  r[5] = m;
  r[6] = m >> 64;
  s128 z = (s128)sa * sb;
  r[7] = z;
  r[8] = z >> 64;
  s128 zq = z / (s64)((b >> 20) | 1);
  r[9] = zq;
  r[10] = zq >> 64;
  u128 sh = x << (a & 127), sr = y >> (b & 127);
  r[11] = sh;
  r[12] = sh >> 64;
  r[13] = sr;
  r[14] = sr >> 64;
  r[15] = (x < y) | (z < 0) << 1 | ((s128)x > (s128)y) << 2;
  r[16] = (unsigned)a / ((unsigned)b | 1);
  r[17] = (unsigned)a % ((unsigned)b | 1);
  r[18] = (int)((short)a / (((short)b) | 1));
  r[19] = (unsigned char)a % (((unsigned char)b) | 1);
  r[20] = a / 10;
  r[21] = sa % 1000003;
  r[22] = (unsigned)a / 7;
  r[23] = (int)sa / -13;
}
__global__ void ik(const u64* a, const u64* b, u64* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 A = a[i], B = b[i], *r = o + i * NI;
  ints(A, B, r);
  int x = A, y = B;
  unsigned ux = A, uy = B;
  r += 24;
  r[0] = __clz(x);
  r[1] = __clzll(A);
  r[2] = __ffs(x);
  r[3] = __ffsll(A);
  r[4] = __brev(x);
  r[5] = __brevll(A);
  r[6] = __popc(x);
  r[7] = __popcll(A);
  r[8] = __sad(x, y, 7u);
  r[9] = __usad(ux, uy, 9u);
  r[10] = __mulhi(x, y);
  r[11] = __umulhi(ux, uy);
  r[12] = __mul64hi(A, B);
  r[13] = __umul64hi(A, B);
  r[14] = __mul24(x, y);
  r[15] = __umul24(ux, uy);
  r[16] = __hadd(x, y);
  r[17] = __rhadd(x, y);
  r[18] = __uhadd(ux, uy);
  r[19] = __urhadd(ux, uy);
  r[20] = __dp4a(x, y, 11);
  r[21] = __dp4a(ux, uy, 11u);
  r[22] = __dp2a_lo(x, y, 5);
  r[23] = __dp2a_hi(ux, uy, 5u);
  unsigned d;
  asm("bfe.u32 %0,%1,%2,%3;" : "=r"(d) : "r"(x), "r"(y & 31), "r"(7));
  r[24] = d;
  asm("bfi.b32 %0,%1,%2,%3,%4;" : "=r"(d) : "r"(x), "r"(y), "r"(5), "r"(9));
  r[25] = d;
  asm("lop3.b32 %0,%1,%2,%3,0xca;" : "=r"(d) : "r"(x), "r"(y), "r"(12345));
  r[26] = d;
  asm("bfind.u32 %0,%1;" : "=r"(d) : "r"(x));
  r[27] = d;
  asm("prmt.b32 %0,%1,%2,%3;" : "=r"(d) : "r"(x), "r"(y), "r"(0x8c35));
  r[28] = d;
  asm("mad.hi.s32 %0,%1,%2,%3;" : "=r"(d) : "r"(x), "r"(y), "r"(77));
  r[29] = d;
  int e;
  asm("{.reg .u32 t; sub.cc.u32 t,%1,%2; subc.u32 %0,%2,%1;}" : "=r"(e) : "r"(x), "r"(y));
  r[30] = (unsigned)e;
  {
    int nb = y & 31;
    e = nb == 0 ? 0 : (x << (32 - nb)) >> (32 - nb);
  }
  r[31] = (unsigned)e;
}
static void iref(u64 A, u64 B, u64* r) {
  ints(A, B, r);
  r += 24;
  int x = A, y = B;
  unsigned ux = A, uy = B;
  s64 sx = (s64)A;
  auto S = [](s64 v) { return (u64)(s64)(int)v; };
  r[0] = ux ? __builtin_clz(ux) : 32;
  r[1] = A ? __builtin_clzll(A) : 64;
  r[2] = __builtin_ffs(x);
  r[3] = __builtin_ffsll(sx);
  unsigned br = 0;
  for (int k = 0; k < 32; k++) br |= ((ux >> k) & 1) << (31 - k);
  u64 b2 = 0;
  for (int k = 0; k < 64; k++) b2 |= ((A >> k) & 1) << (63 - k);
  r[4] = br;
  r[5] = b2;
  r[6] = __builtin_popcount(ux);
  r[7] = __builtin_popcountll(A);
  r[8] = (unsigned)(std::abs((s64)x - y) + 7);
  r[9] = (unsigned)(std::abs((s64)ux - (s64)uy) + 9);
  r[10] = S(((s64)x * y) >> 32);
  r[11] = ((u64)ux * uy) >> 32;
  r[12] = (u64)(((s128)(s64)A * (s64)B) >> 64);
  r[13] = ((u128)A * B) >> 64;
  r[14] = S((s64)((x << 8) >> 8) * ((y << 8) >> 8));
  r[15] = (unsigned)((u64)(ux & 0xffffff) * (uy & 0xffffff));
  r[16] = S(((s64)x + y) >> 1);
  r[17] = S(((s64)x + y + 1) >> 1);
  r[18] = ((u64)ux + uy) >> 1;
  r[19] = ((u64)ux + uy + 1) >> 1;
  int d = 11;
  unsigned ud = 11;
  for (int k = 0; k < 4; k++) {
    d += (signed char)(ux >> 8 * k) * (signed char)(uy >> 8 * k);
    ud += ((ux >> 8 * k) & 255) * ((uy >> 8 * k) & 255);
  }
  r[20] = S(d);
  r[21] = ud;
  r[22] = S(5 + (short)ux * (signed char)uy + (short)(ux >> 16) * (signed char)(uy >> 8));
  r[23] = (unsigned)(5 + (ux & 65535) * ((uy >> 16) & 255) + (ux >> 16) * (uy >> 24));
  r[24] = (ux >> (y & 31)) & 127;
  r[25] = (uy & ~(511u << 5)) | ((ux & 511) << 5);
  r[26] = (ux & uy) | (~ux & 12345);
  r[27] = ux ? 31 - __builtin_clz(ux) : ~0u;
  {
    u64 ab = (u64)uy << 32 | ux;
    unsigned o = 0;
    const unsigned sel = 0x8c35;
    for (int k = 0; k < 4; k++) {
      unsigned s = (sel >> 4 * k) & 15;
      unsigned v = (ab >> (8 * (s & 7))) & 255;
      if (s & 8) v = v & 128 ? 255 : 0;
      o |= v << 8 * k;
    }
    r[28] = o;
  }
  r[29] = (unsigned)((((s64)x * y) >> 32) + 77);
  r[30] = uy - ux - (ux < uy);
  int nb = y & 31;
  r[31] = nb == 0 ? 0 : (unsigned)((int)(ux << (32 - nb)) >> (32 - nb));
}
__global__ void cvt(const double* d, const float* f, s64* o, double* q, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double D = d[i];
  float F = f[i];
  s64 *r = o + i * 24, A = __double_as_longlong(D);
  r[0] = __double2int_rn(D);
  r[1] = __double2int_rz(D);
  r[2] = __double2int_ru(D);
  r[3] = __double2int_rd(D);
  r[4] = __double2ll_rn(D);
  r[5] = __double2ll_rz(D);
  r[6] = __double2ll_ru(D);
  r[7] = __double2ll_rd(D);
  r[8] = __float2int_rn(F);
  r[9] = __float2int_rz(F);
  r[10] = __float2int_ru(F);
  r[11] = __float2int_rd(F);
  r[12] = __float2uint_rn(F);
  r[13] = __float2uint_rz(F);
  r[14] = __float2uint_ru(F);
  r[15] = __float2uint_rd(F);
  r[16] = __float2ll_rn(F);
  r[17] = __float2ull_rz(F);
  r[18] = __double2uint_rd(D);
  r[19] = __double2ull_ru(D);
  r[20] = __float_as_int(F);
  r[21] = __double2hiint(D);
  r[22] = __double2loint(D);
  r[23] = __double_as_longlong(__hiloint2double((int)r[21], (int)r[22]));
  double* p = q + i * 20;
  p[0] = __ll2float_rn(A);
  p[1] = __ll2float_rz(A);
  p[2] = __ll2float_ru(A);
  p[3] = __ll2float_rd(A);
  p[4] = __ll2double_rn(A);
  p[5] = __ll2double_rz(A);
  p[6] = __ll2double_ru(A);
  p[7] = __ll2double_rd(A);
  p[8] = __ull2double_rn(A);
  p[9] = __ull2double_rz(A);
  p[10] = __int2float_rn((int)A);
  p[11] = __int2float_rz((int)A);
  p[12] = __int2float_ru((int)A);
  p[13] = __int2float_rd((int)A);
  p[14] = __double2float_rn(D);
  p[15] = __double2float_rz(D);
  p[16] = __double2float_ru(D);
  p[17] = __double2float_rd(D);
  p[18] = __uint2float_rz((unsigned)A);
  p[19] = __int2double_rn((int)A);
}
__global__ void small_shared(const signed char* a, int* o) {
  __shared__ signed char s8[64];
  __shared__ unsigned short s16[64];
  __shared__ bool flags[64];
  int t = threadIdx.x;
  s8[t] = a[t];
  s16[63 - t] = (unsigned short)(a[t] * 300);
  flags[t] = a[t] > 0;
  __syncthreads();
  o[t] = s8[(t * 7) & 63] + s16[t] * 2 + (flags[63 - t] ? 1000000 : 0);
}
int main() {
  int n = 1200;
  std::vector<float> a(n), b(n), c(n), o(n * 2 * NH);
  srand(5);
  auto r = [](int e) { return (float)((rand() / (double)RAND_MAX - .5) * pow(2, rand() % e - e / 2)); };
  for (int i = 0; i < n; i++) {
    a[i] = r(30);
    b[i] = r(24);
    c[i] = r(20);
  }
  const float sp[] = {0,     -0.f,    INFINITY, -INFINITY, NAN,     65504, 65520,
                      6e-8f, 2.9e-8f, 1e-5f,    -1,        2048.5f, 1e38f};
  for (int i = 0; i < 169; i++) {
    a[i] = sp[i / 13];
    b[i] = sp[i % 13];
    c[i] = sp[(i * 5) % 13];
  }
  float *da, *db, *dc, *d_o;
  MUST(cudaMalloc(&da, n * 4));
  MUST(cudaMalloc(&db, n * 4));
  MUST(cudaMalloc(&dc, n * 4));
  MUST(cudaMalloc(&d_o, n * 8 * NH));
  MUST(cudaMemcpy(da, a.data(), n * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(db, b.data(), n * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dc, c.data(), n * 4, cudaMemcpyHostToDevice));
  hk<<<(n + 127) / 128, 128>>>(da, db, dc, d_o, n);
  MUST_RUN();
  MUST(cudaMemcpy(o.data(), d_o, n * 8 * NH, cudaMemcpyDeviceToHost));
  auto eq = [](double e, float g) {
    return (std::isnan(e) && std::isnan(g)) ||
           ((float)e == g && (e != 0 || std::signbit(e) == std::signbit(g)));
  };
  for (int i = 0; i < n; i++)
    for (int t = 0; t < 2; t++) {
      auto R = t ? rb : rh;
      double x = R(a[i], 0), y = R(b[i], 0), z = R(c[i], 0), e[NH];
      float* g = &o[(i * 2 + t) * NH];
      bool nan = std::isnan(x), nany = std::isnan(y);
      e[0] = R(x + y, 0);
      e[1] = R(x - y, 0);
      e[2] = R(x * y, 0);
      e[3] = (double)R((long double)x * y + z == x * y + z ? x * y + z : fma(x, y, z), 0);
      e[4] = R(x / y, 0);
      e[5] = R(a[i], 1);
      e[6] = R(a[i], 2);
      e[7] = R(a[i], 3);
      e[8] = (x < y) + 2 * (x >= y) + 4 * (x == x) + 8 * (!nan && !nany && x != y) +
             (t ? 0 : 16 * (nan || nany || x > y) + 32 * nan);
      e[9] = fmax(x, y);
      e[10] = fmin(x, y);
      e[11] = R(sqrt(fabs(x)), 0);
      e[12] = -x;
      bool big = nan || fabs(x) > 2e9;
      e[13] = nearbyint(x);
      e[14] = trunc(x);
      e[15] = ceil(x);
      e[16] = floor(x);
      for (int k = 13; k < 17; k++) {
        e[k] += 0.0;
        if (big) e[k] = nan ? 0 : (x > 0 ? 2147483648.0 : -2147483648.0);
        e[k] = (float)e[k];
      }
      e[17] = R(i * 37 - 9000, 0);
      if (!t) {
        e[18] = ceil(x);
        e[19] = nearbyint(x);
        e[20] = R(fma(x, z, z), 0);
        e[21] = R(fma(y, x, z), 0);
        e[23] = R(y + x, 0);
        double s = R(x + y, 0);
        s = std::isnan(s) ? 0 : std::min(1.0, std::max(0.0, s));
        e[22] = NAN;
        (void)s;
      } else {
        e[18] = R(fma(x, z, z), 0);
        e[19] = R(fma(y, x, z), 0);
        e[20] = R(x * z, 0);
        e[21] = floor(x);
        e[22] = !nan && !nany;
        e[23] = R(y + x, 0);
      }
      for (int k = 0; k < NH; k++) {
        if (!t && k == 22) {
          __half_raw hr;
          hr.x = (unsigned short)g[k];
          double s = R(x + y, 0);
          s = std::isnan(s) ? 0 : std::min(1.0, std::max(0.0, s));
          double gv = __half2float(__half(hr));
          HOLDS(gv == s, "hadd_sat %g %g: %g %g", x, y, s, gv);
          continue;
        }
        if ((k == 9 || k == 10) && x == 0 && y == 0) continue;
        if (fabs(e[k]) > 0 && fabs(e[k]) < 1e-37 && t) continue;
        HOLDS(eq(e[k], g[k]), "%s op %d (%g %g %g) expected %.9g got %.9g", t ? "bf16" : "half", k, a[i],
              b[i], c[i], e[k], g[k]);
      }
    }
  std::vector<u64> A(n), B(n), O(n * NI);
  auto r64 = [] {
    u64 v = 0;
    for (int k = 0; k < 5; k++) v = v << 15 ^ rand();
    return v >> (rand() % 64);
  };
  for (int i = 0; i < n; i++) {
    A[i] = r64();
    B[i] = r64() | 1;
    if (i % 3 == 0) A[i] = -A[i];
    if (i % 5 == 0) B[i] = -B[i];
  }
  A[0] = 0;
  B[0] = 1;
  A[1] = 1ull << 63;
  B[1] = ~0ull;
  A[2] = ~0ull;
  B[2] = 1;
  A[3] = 0x80000000;
  B[3] = 0xffffffff;
  u64 *dA, *dB, *dO;
  MUST(cudaMalloc(&dA, n * 8));
  MUST(cudaMalloc(&dB, n * 8));
  MUST(cudaMalloc(&dO, n * 8 * NI));
  MUST(cudaMemcpy(dA, A.data(), n * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dB, B.data(), n * 8, cudaMemcpyHostToDevice));
  ik<<<(n + 63) / 64, 64>>>(dA, dB, dO, n);
  MUST_RUN();
  MUST(cudaMemcpy(O.data(), dO, n * 8 * NI, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) {
    u64 e[NI];
    iref(A[i], B[i], e);
    for (int k = 0; k < NI; k++)
      HOLDS(k == 4 || k == 5 || k == 6 || k == 9 || k == 10 || e[k] == O[i * NI + k],
            "int op %d a %llx b %llx expected %llx got %llx", k, A[i], B[i], e[k], O[i * NI + k]);
  }
  std::vector<double> d(n), q(n * 20);
  std::vector<float> f(n);
  std::vector<s64> L(n * 24);
  for (int i = 0; i < n; i++) {
    d[i] = (rand() / (double)RAND_MAX - .5) * pow(2, rand() % 30 + 1);
    f[i] = (rand() / (float)RAND_MAX - .5f) * powf(2, rand() % 30 + 1);
    if (i % 4 == 0) {
      d[i] = (rand() % 2000 - 1000) / 2.0;
      f[i] = d[i];
    }
  }
  double *dd, *dq;
  float* df;
  s64* dL;
  MUST(cudaMalloc(&dd, n * 8));
  MUST(cudaMalloc(&dq, n * 160));
  MUST(cudaMalloc(&df, n * 4));
  MUST(cudaMalloc(&dL, n * 192));
  const double se[] = {NAN,          INFINITY, -INFINITY,    3e10,         -3e10,         1e20,   -1e20,
                       2147483647.5, -0.5,     4294967295.5, 4294967296.0, -2147483648.5, 9.3e18, 1.9e19};
  for (int i = 0; i < 14; i++) d[i] = f[i] = se[i], d[i] = se[i];
  MUST(cudaMemcpy(dd, d.data(), n * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(df, f.data(), n * 4, cudaMemcpyHostToDevice));
  cvt<<<(n + 63) / 64, 64>>>(dd, df, dL, dq, n);
  MUST_RUN();
  MUST(cudaMemcpy(L.data(), dL, n * 192, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(q.data(), dq, n * 160, cudaMemcpyDeviceToHost));
  auto RD = [](double v, int m) {
    return m == 0 ? nearbyint(v) : m == 1 ? trunc(v) : m == 2 ? ceil(v) : floor(v);
  };
  auto sat = [](double v, double lo, double hi, s64 slo, s64 shi) -> s64 {
    if (v <= lo) return slo;
    if (v >= hi) return shi;
    return hi > 1e19 ? (s64)(u64)v : (s64)v;
  };
  auto i32 = [&](double v, int m) -> s64 {
    return std::isnan(v) ? 0 : sat(RD(v, m), -2147483648.0, 2147483647.0, INT32_MIN, INT32_MAX);
  };
  auto u32 = [&](double v, int m) -> s64 {
    return std::isnan(v) ? 0 : sat(RD(v, m), 0, 4294967295.0, 0, 4294967295ll);
  };
  auto i64 = [&](double v, int m) -> s64 {
    return std::isnan(v) ? INT64_MIN
                         : sat(RD(v, m), -9223372036854775808.0, 9223372036854775808.0, INT64_MIN, INT64_MAX);
  };
  auto u64f = [&](double v, int m) -> s64 {
    return std::isnan(v) ? INT64_MIN : sat(RD(v, m), 0, 18446744073709551616.0, 0, -1);
  };
  for (int i = 0; i < n; i++) {
    s64 e[20];
    for (int m = 0; m < 4; m++) {
      e[m] = std::isnan(d[i]) ? INT32_MIN : i32(d[i], m);
      e[4 + m] = i64(d[i], m);
      e[8 + m] = i32(f[i], m);
      e[12 + m] = u32(f[i], m);
    }
    e[16] = i64(f[i], 0);
    e[17] = u64f(f[i], 1);
    e[18] = std::isnan(d[i]) ? 0x80000000ll : u32(d[i], 3);
    e[19] = u64f(d[i], 2);
    for (int k = 0; k < 20; k++)
      HOLDS(e[k] == L[i * 24 + k], "cvt %d of %.17g / %.9g expected %llx got %llx", k, d[i], f[i], e[k],
            L[i * 24 + k]);
    s64 bits;
    memcpy(&bits, &d[i], 8);
    HOLDS(L[i * 24 + 23] == bits, "hilo");
    const int md[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    double eq2[20];
    volatile s64 vb = bits;
    volatile double vd = d[i];
    for (int m = 0; m < 4; m++) {
      fesetround(md[m]);
      volatile float t = (float)vb;
      volatile double t2 = (double)vb;
      volatile float t3 = (float)(int)vb, t4 = (float)vd;
      eq2[m] = t;
      eq2[4 + m] = t2;
      eq2[10 + m] = t3;
      eq2[14 + m] = t4;
      if (m < 2) {
        u128 w = (u128)(u64)bits;
        (void)w;
        volatile double t5 = (double)(u64)vb;
        eq2[8 + m] = t5;
      }
      if (m == 1) {
        volatile float t6 = (float)(s64)(unsigned)vb;
        eq2[18] = t6;
      }
    }
    fesetround(FE_TONEAREST);
    eq2[19] = (int)bits;
    for (int k = 0; k < 20; k++) {
      if (k == 9) continue;
      HOLDS(eq2[k] == q[i * 20 + k] || (std::isnan(eq2[k]) && std::isnan(q[i * 20 + k])),
            "to fp %d of %llx expected %.17g got %.17g", k, bits, eq2[k], q[i * 20 + k]);
    }
  }
  std::vector<signed char> sc(64);
  for (int i = 0; i < 64; i++) sc[i] = rand();
  signed char* ds;
  int* di;
  MUST(cudaMalloc(&ds, 64));
  MUST(cudaMalloc(&di, 256));
  MUST(cudaMemcpy(ds, sc.data(), 64, cudaMemcpyHostToDevice));
  small_shared<<<1, 64>>>(ds, di);
  MUST_RUN();
  int h[64];
  MUST(cudaMemcpy(h, di, 256, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 64; t++)
    HOLDS(h[t] == sc[(t * 7) & 63] + (unsigned short)(sc[63 - t] * 300) * 2 + (sc[63 - t] > 0 ? 1000000 : 0),
          "small shared %d", t);
  return verdict();
}
