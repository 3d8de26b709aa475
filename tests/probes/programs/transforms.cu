// Fourier transforms and convolutions against the host.
#include "check.h"

#include <cmath>
#include <complex>
__global__ void bitrev(const float2* __restrict__ in, float2* __restrict__ out, int lg) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < (1 << lg)) {
    int j = __brev(i) >> (32 - lg);
    out[j] = __ldg(in + i);
  }
}
__global__ void stage(float2* x, int lg, int s, float sign) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (1 << (lg - 1))) return;
  int half = 1 << s, pos = i & (half - 1), base = (i >> s) * 2 * half + pos;
  float sn, cs;
  sincospif(sign * pos / half, &sn, &cs);
  float2 a = x[base], b = x[base + half];
  float2 t = make_float2(b.x * cs - b.y * sn, b.x * sn + b.y * cs);
  x[base] = make_float2(a.x + t.x, a.y + t.y);
  x[base + half] = make_float2(a.x - t.x, a.y - t.y);
}
__global__ void fft_shared(const double2* __restrict__ in, double2* __restrict__ out,
                           int lg) {  // one block per transform in double, Stockham
  extern __shared__ double2 sh[];
  int n = 1 << lg, t = threadIdx.x;
  double2 *a = sh, *b = sh + n;
  const double2* p = in + (size_t)blockIdx.x * n;
  for (int i = t; i < n; i += blockDim.x) a[i] = p[i];
  __syncthreads();
  for (int l = n / 2, m = 1; l >= 1; l >>= 1, m <<= 1) {
    for (int i = t; i < n / 2; i += blockDim.x) {
      int j = i / m, k = i % m;
      double s, c;
      sincospi(-(double)j / l, &s, &c);
      double2 u = a[k + j * m], v = a[k + j * m + l * m];
      b[k + 2 * j * m] = make_double2(u.x + v.x, u.y + v.y);
      double dx = u.x - v.x, dy = u.y - v.y;
      b[k + 2 * j * m + m] = make_double2(c * dx - s * dy, c * dy + s * dx);
    }
    __syncthreads();
    double2* x = a;
    a = b;
    b = x;
  }
  for (int i = t; i < n; i += blockDim.x) out[(size_t)blockIdx.x * n + i] = a[i];
}
__global__ void unpack(const uchar4* __restrict__ px, const short2* __restrict__ au,
                       const longlong2* __restrict__ ll, const float4* f4, const ushort4* u4, const char3* c3,
                       const double2* d2, double4_16a* d4, float2* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uchar4 p = __ldg(px + i);
  short2 s = __ldg(au + i);
  longlong2 q = __ldg(ll + i);
  float4 f = __ldcg(f4 + i);
  ushort4 u = __ldcs(u4 + i);
  char3 c = c3[i];
  double2 d = __ldca(d2 + i);
  o[i] = make_float2(0.299f * p.x + 0.587f * p.y + 0.114f * p.z + p.w, s.x / 32768.f + s.y);
  double4_16a r;
  r.x = (double)(q.x - q.y);
  r.y = f.x + f.y + f.z + f.w;
  r.z = u.x + u.y * 2 + u.z * 3 + u.w * 4 + c.x + c.y + c.z;
  r.w = d.x - d.y;
  {
    double2 lo = make_double2(r.x, r.y), hi = make_double2(r.z, r.w);
    __stwt((double2*)(d4 + i), lo);
    __stcg((double2*)(d4 + i) + 1, hi);
  }
}
int main() {
  int lg = 9, n = 1 << lg;
  std::vector<float2> x(n), r(n);
  for (int i = 0; i < n; i++) x[i] = {sinf(i * 0.3f) + (i % 7) * .1f, cosf(i * 1.1f)};
  float2 *a, *b;
  MUST(cudaMalloc(&a, n * 8));
  MUST(cudaMalloc(&b, n * 8));
  MUST(cudaMemcpy(a, x.data(), n * 8, cudaMemcpyHostToDevice));
  auto run = [&](float sg) {
    bitrev<<<(n + 127) / 128, 128>>>(a, b, lg);
    for (int s = 0; s < lg; s++) {
      stage<<<(n / 2 + 127) / 128, 128>>>(b, lg, s, sg);
      MUST(cudaGetLastError());
    }
    MUST(cudaMemcpy(r.data(), b, n * 8, cudaMemcpyDeviceToHost));
  };
  run(-1);
  std::vector<std::complex<double>> ref(n);
  double norm = 0, err = 0;
  for (int k = 0; k < n; k++) {
    std::complex<double> s = 0;
    for (int j = 0; j < n; j++)
      s += std::complex<double>(x[j].x, x[j].y) * std::polar(1.0, -2 * M_PI * ((long)j * k % n) / n);
    ref[k] = s;
    norm += std::norm(s);
    err += std::norm(s - std::complex<double>(r[k].x, r[k].y));
  }
  HOLDS(sqrt(err / norm) < 1e-6, "fft rel err %g", sqrt(err / norm));
  MUST(cudaMemcpy(a, b, n * 8, cudaMemcpyDeviceToDevice));
  run(1);
  double e = 0;
  for (int i = 0; i < n; i++) e = std::max(e, (double)fabs(r[i].x / n - x[i].x) + fabs(r[i].y / n - x[i].y));
  HOLDS(e < 1e-5, "roundtrip %g", e);
  int B = 4, m = 256;
  std::vector<double2> dx(B * m), dr(B * m);
  for (int i = 0; i < B * m; i++) dx[i] = {cos(i * i * .01), sin(i * .7)};
  double2 *da, *db;
  MUST(cudaMalloc(&da, B * m * 16));
  MUST(cudaMalloc(&db, B * m * 16));
  MUST(cudaMemcpy(da, dx.data(), B * m * 16, cudaMemcpyHostToDevice));
  fft_shared<<<B, 64, 2 * m * 16>>>(da, db, 8);
  MUST_RUN();
  MUST(cudaMemcpy(dr.data(), db, B * m * 16, cudaMemcpyDeviceToHost));
  double w = 0;
  for (int q = 0; q < B; q++)
    for (int k = 0; k < m; k++) {
      std::complex<double> s = 0;
      for (int j = 0; j < m; j++)
        s += std::complex<double>(dx[q * m + j].x, dx[q * m + j].y) *
             std::polar(1.0, -2 * M_PI * (j * k % m) / m);
      w = std::max(w, std::abs(s - std::complex<double>(dr[q * m + k].x, dr[q * m + k].y)));
    }
  HOLDS(w < 1e-11, "stockham %g", w);
  int N = 700;
  std::vector<uchar4> px(N);
  std::vector<short2> au(N);
  std::vector<longlong2> ll(N);
  std::vector<float4> f4(N);
  std::vector<ushort4> u4(N);
  std::vector<char3> c3(N);
  std::vector<double2> d2(N);
  std::vector<double4_16a> d4(N);
  std::vector<float2> o(N);
  for (int i = 0; i < N; i++) {
    px[i] = {(unsigned char)i, (unsigned char)(i * 3), (unsigned char)(i * 7), 1};
    au[i] = {(short)(i * 97), (short)-i};
    ll[i] = {(long long)i << 33, -i};
    f4[i] = {i + .5f, -i * 2.f, 3, 4};
    u4[i] = {(unsigned short)(65535 - i), 2, (unsigned short)i, 7};
    c3[i] = {(signed char)-i, (signed char)i, (signed char)(i / 2)};
    d2[i] = {i * 1e-3, 1e9 + i};
  }
#define UP(v, T)                           \
  T* d_##v;                                \
  MUST(cudaMalloc(&d_##v, N * sizeof(T))); \
  MUST(cudaMemcpy(d_##v, v.data(), N * sizeof(T), cudaMemcpyHostToDevice));
  UP(px, uchar4)
  UP(au, short2)
  UP(ll, longlong2)
  UP(f4, float4) UP(u4, ushort4) UP(c3, char3) UP(d2, double2) UP(d4, double4_16a) UP(o, float2)
      unpack<<<(N + 95) / 96, 96>>>(d_px, d_au, d_ll, d_f4, d_u4, d_c3, d_d2, d_d4, d_o, N);
  MUST_RUN();
  MUST(cudaMemcpy(o.data(), d_o, N * 8, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(d4.data(), d_d4, N * 32, cudaMemcpyDeviceToHost));
  for (int i = 0; i < N; i++) {
    HOLDS(fabs(o[i].x - (.299 * px[i].x + .587 * px[i].y + .114 * px[i].z + 1)) < 1e-4 &&
              o[i].y == au[i].x / 32768.f + au[i].y,
          "unpack %d", i);
    HOLDS(d4[i].x == (double)(ll[i].x - ll[i].y) && d4[i].y == f4[i].x + f4[i].y + f4[i].z + f4[i].w &&
              d4[i].w == d2[i].x - d2[i].y &&
              d4[i].z == u4[i].x + 4 + u4[i].z * 3 + 28 + c3[i].x + c3[i].y + c3[i].z,
          "vec %d", i);
  }
  return verdict();
}
