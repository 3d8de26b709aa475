// A small network trained on the device and on the host, step by step alike.
#include "check.h"

#include <cmath>
#include <random>
constexpr int TS = 16;
template <bool TA, bool TB>
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K, float alpha) {
  __shared__ float a[TS][TS + 1], b[TS][TS + 1];
  int r = blockIdx.y * TS + threadIdx.y, c = blockIdx.x * TS + threadIdx.x;
  float s = 0;
  for (int k0 = 0; k0 < K; k0 += TS) {
    int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    a[threadIdx.y][threadIdx.x] = r < M && ka < K ? (TA ? A[ka * M + r] : A[r * K + ka]) : 0.f;
    b[threadIdx.y][threadIdx.x] = c < N && kb < K ? (TB ? B[c * K + kb] : B[kb * N + c]) : 0.f;
    __syncthreads();
    for (int k = 0; k < TS; k++) s = fmaf(a[threadIdx.y][k], b[k][threadIdx.x], s);
    __syncthreads();
  }
  if (r < M && c < N) C[r * N + c] = alpha * s;
}
__global__ void bias_relu(float* x, const float* b, int M, int N, bool relu) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < M * N) {
    float v = x[i] + b[i % N];
    x[i] = relu ? fmaxf(v, 0.f) : v;
  }
}
__global__ void softmax_ce(const float* z, const int* y, float* dz, float* loss, int M,
                           int N) {  // one warp per row
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, l = threadIdx.x % 32;
  if (r >= M) return;
  float v = l < N ? z[r * N + l] : -INFINITY, m = v;
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  float e = l < N ? expf(v - m) : 0.f, s = e;
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (l < N) dz[r * N + l] = (e / s - (l == y[r])) / M;
  if (l == y[r]) atomicAdd(loss, (logf(s) - (v - m)) / M);
}
__global__ void relu_back(float* d, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] <= 0) d[i] = 0;
}
__global__ void colsum(const float* d, float* o, int M, int N) {
  int c = blockIdx.x;
  float s = 0;
  for (int r = threadIdx.x; r < M; r += 32) s += d[r * N + c];
  for (int k = 16; k; k >>= 1) s += __shfl_down_sync(~0u, s, k);
  if (!threadIdx.x) o[c] = s;
}
__global__ void sgd(float* w, float* v, const float* g, int n, float lr, float mu) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    v[i] = mu * v[i] + g[i];
    w[i] -= lr * v[i];
  }
}
// math coverage
#define LIST1(X)                                                                                            \
  X(sin)                                                                                                    \
  X(cos)                                                                                                    \
  X(tan)                                                                                                    \
  X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(exp) X(exp2) X(expm1) X(log) \
      X(log2) X(log10) X(log1p) X(cbrt) X(erf) X(erfc) X(lgamma) X(tgamma) X(sqrt) X(floor) X(ceil) X(rint) \
          X(round) X(trunc) X(logb) X(j0) X(y1)
#define LIST2(X) X(atan2) X(pow) X(hypot) X(fmod) X(remainder) X(nextafter) X(fdim) X(copysign)
#define D1(n) r[k++] = n(x);
#define D2(n) r[k++] = n(x, y);
#define F1(n) f[q++] = n##f(a);
#define F2(n) f[q++] = n##f(a, b);
constexpr int NF = 33 + 8 + 9;
template <class T>
__host__ __device__ T l10(T x, int e) {
  return ldexp(x, e);
}
__global__ void mathk(const double* X, const double* Y, double* R, float* F, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = X[i], y = Y[i], *r = R + i * NF;
  int k = 0;
  LIST1(D1) LIST2(D2) int e;
  r[k++] = frexp(x, &e);
  r[k++] = e;
  double ip;
  r[k++] = modf(x, &ip);
  r[k++] = ip;
  r[k++] = ldexp(x, (int)y % 40);
  r[k++] = (double)lround(x) + llrint(y);
  int qu;
  r[k++] = remquo(x, y, &qu);
  double s, c;
  sincos(x, &s, &c);
  r[k++] = s;
  r[k++] = c;
  float a = (float)x, b = (float)y, *f = F + i * NF;
  int q = 0;
  LIST1(F1) LIST2(F2) f[q++] = frexpf(a, &e);
  f[q++] = e;
  float fi;
  f[q++] = modff(a, &fi);
  f[q++] = fi;
  f[q++] = ldexpf(a, (int)b % 40);
  f[q++] = (float)((double)lroundf(a) + lrintf(b));
  f[q++] = remquof(a, b, &qu);
  float fs, fc;
  sincosf(a, &fs, &fc);
  f[q++] = fs;
  f[q++] = fc;
}
static void refd(double x, double y, long double* r) {
  int k = 0;
#define H1(n) r[k++] = n##l((long double)x);
#define H2(n) r[k++] = n##l((long double)x, (long double)y);
  LIST1(H1) r[k++] = atan2l(x, y);
  r[k++] = powl(x, y);
  r[k++] = hypotl(x, y);
  r[k++] = fmod(x, y);
  r[k++] = remainder(x, y);
  r[k++] = nextafter(x, y);
  r[k++] = fdim(x, y);
  r[k++] = copysign(x, y);
  int e;
  r[k++] = frexp(x, &e);
  r[k++] = e;
  double ip;
  r[k++] = modf(x, &ip);
  r[k++] = ip;
  r[k++] = ldexp(x, (int)y % 40);
  r[k++] = (double)lround(x) + llrint(y);
  int qu;
  r[k++] = remquo(x, y, &qu);
  r[k++] = sinl(x);
  r[k++] = cosl(x);
}
static void reff(float a, float b, long double* r) {
  refd(a, b, r);
  int k = 33 + 5;
  r[k++] = nextafterf(a, b);
  r[k++] = fdimf(a, b);
  k += 6;
  r[k++] = (float)((double)lroundf(a) + lrintf(b));
  k = 33 + 8 + 4;
  r[k] = ldexpf(a, (int)b % 40);
}
static const char* names[NF] = {
    "sin",   "cos",           "tan",       "asin",     "acos",     "atan",   "sinh",    "cosh",  "tanh",
    "asinh", "acosh",         "atanh",     "exp",      "exp2",     "expm1",  "log",     "log2",  "log10",
    "log1p", "cbrt",          "erf",       "erfc",     "lgamma",   "tgamma", "sqrt",    "floor", "ceil",
    "rint",  "round",         "trunc",     "logb",     "j0",       "y1",     "atan2",   "pow",   "hypot",
    "fmod",  "remainder",     "nextafter", "fdim",     "copysign", "frexp",  "frexp e", "modf",  "modf i",
    "ldexp", "lround+llrint", "remquo",    "sincos s", "sincos c"};
// documented max ulp (CUDA programming guide, mathematical functions appendix); -1: absolute error only near
// zeros
static const double ud[NF] = {2, 2, 2, 2, 2, 2, 2,  1,  1, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 5, 4, 10, 0,
                              0, 0, 0, 0, 0, 0, -1, -1, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,  2};
static const double uf[NF] = {2, 2, 4, 2, 2, 2, 3,  2,  2, 4, 4, 3, 2, 2, 1, 1, 1, 2, 1, 1, 2, 4, 6, 5, 0,
                              0, 0, 0, 0, 0, 0, -1, -1, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2};
int main() {
  int B = 48, I = 20, H = 24, O = 10, steps = 50;
  std::mt19937 g(3);
  std::normal_distribution<float> nd(0, 1);
  std::vector<float> x(B * I), W1(I * H), b1(H), W2(H * O), b2(O);
  std::vector<int> y(B);
  for (auto& v : x) v = nd(g);
  for (int i = 0; i < B; i++) y[i] = (x[i * I] > 0) * 5 + (int)(fabs(x[i * I + 1]) * 2) % 5;
  for (auto& v : W1) v = nd(g) * .3f;
  for (auto& v : W2) v = nd(g) * .3f;
  auto up = [](auto& v) {
    void* p;
    MUST(cudaMalloc(&p, v.size() * 4));
    MUST(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice));
    return p;
  };
  auto zero = [](size_t n) {
    float* p;
    MUST(cudaMalloc(&p, n * 4));
    MUST(cudaMemset(p, 0, n * 4));
    return p;
  };
  float *dx = (float*)up(x), *dW1 = (float*)up(W1), *db1 = (float*)up(b1), *dW2 = (float*)up(W2),
        *db2 = (float*)up(b2);
  int* dy = (int*)up(y);
  float *h = zero(B * H), *z = zero(B * O), *dz = zero(B * O), *dh = zero(B * H), *gW1 = zero(I * H),
        *gW2 = zero(H * O), *gb1 = zero(H), *gb2 = zero(O), *vW1 = zero(I * H), *vW2 = zero(H * O),
        *vb1 = zero(H), *vb2 = zero(O), *loss = zero(1);
  std::vector<double> cx(x.begin(), x.end()), cW1(W1.begin(), W1.end()), cb1(H), cW2(W2.begin(), W2.end()),
      cb2(O), mW1(I * H), mb1(H), mW2(H * O), mb2(O);
  double first = 0, lastl = 0;
  dim3 t(TS, TS);
  auto G = [](int m, int n) { return dim3((n + TS - 1) / TS, (m + TS - 1) / TS); };
  for (int s = 0; s < steps; s++) {
    MUST(cudaMemset(loss, 0, 4));
    matmul<false, false><<<G(B, H), t>>>(dx, dW1, h, B, H, I, 1);
    bias_relu<<<(B * H + 127) / 128, 128>>>(h, db1, B, H, true);
    matmul<false, false><<<G(B, O), t>>>(h, dW2, z, B, O, H, 1);
    bias_relu<<<(B * O + 127) / 128, 128>>>(z, db2, B, O, false);
    softmax_ce<<<(B * 32 + 127) / 128, 128>>>(z, dy, dz, loss, B, O);
    matmul<true, false><<<G(H, O), t>>>(h, dz, gW2, H, O, B, 1);
    colsum<<<O, 32>>>(dz, gb2, B, O);
    matmul<false, true><<<G(B, H), t>>>(dz, dW2, dh, B, H, O, 1);
    relu_back<<<(B * H + 127) / 128, 128>>>(dh, h, B * H);
    matmul<true, false><<<G(I, H), t>>>(dx, dh, gW1, I, H, B, 1);
    colsum<<<H, 32>>>(dh, gb1, B, H);
    sgd<<<(I * H + 127) / 128, 128>>>(dW1, vW1, gW1, I * H, .1f, .9f);
    sgd<<<1, 128>>>(db1, vb1, gb1, H, .1f, .9f);
    sgd<<<2, 128>>>(dW2, vW2, gW2, H * O, .1f, .9f);
    sgd<<<1, 128>>>(db2, vb2, gb2, O, .1f, .9f);
    MUST_RUN();
    float gl;
    MUST(cudaMemcpy(&gl, loss, 4, cudaMemcpyDeviceToHost));
    std::vector<double> hh(B * H), dd(B * O), dhh(B * H);
    double L = 0;
    for (int r = 0; r < B; r++) {
      for (int j = 0; j < H; j++) {
        double a = cb1[j];
        for (int k = 0; k < I; k++) a += cx[r * I + k] * cW1[k * H + j];
        hh[r * H + j] = std::max(a, 0.0);
      }
      double zz[10], m = -1e9, S = 0;
      for (int j = 0; j < O; j++) {
        zz[j] = cb2[j];
        for (int k = 0; k < H; k++) zz[j] += hh[r * H + k] * cW2[k * O + j];
        m = std::max(m, zz[j]);
      }
      for (int j = 0; j < O; j++) S += exp(zz[j] - m);
      L += (log(S) - zz[y[r]] + m) / B;
      for (int j = 0; j < O; j++) dd[r * O + j] = (exp(zz[j] - m) / S - (j == y[r])) / B;
      for (int k = 0; k < H; k++) {
        double a = 0;
        for (int j = 0; j < O; j++) a += dd[r * O + j] * cW2[k * O + j];
        dhh[r * H + k] = hh[r * H + k] > 0 ? a : 0;
      }
    }
    auto upd = [&](double& w, double& v, double gr) {
      v = .9f * v + gr;
      w -= .1f * v;
    };
    for (int k = 0; k < H; k++)
      for (int j = 0; j < O; j++) {
        double a = 0;
        for (int r = 0; r < B; r++) a += hh[r * H + k] * dd[r * O + j];
        upd(cW2[k * O + j], mW2[k * O + j], a);
      }
    for (int j = 0; j < O; j++) {
      double a = 0;
      for (int r = 0; r < B; r++) a += dd[r * O + j];
      upd(cb2[j], mb2[j], a);
    }
    for (int k = 0; k < I; k++)
      for (int j = 0; j < H; j++) {
        double a = 0;
        for (int r = 0; r < B; r++) a += cx[r * I + k] * dhh[r * H + j];
        upd(cW1[k * H + j], mW1[k * H + j], a);
      }
    for (int j = 0; j < H; j++) {
      double a = 0;
      for (int r = 0; r < B; r++) a += dhh[r * H + j];
      upd(cb1[j], mb1[j], a);
    }
    if (s == 0) first = gl;
    lastl = gl;
    HOLDS(fabs(gl - L) < 2e-3 * (1 + L), "step %d loss %g cpu %g", s, gl, L);
  }
  HOLDS(lastl < first * .5, "loss %g -> %g", first, lastl);
  printf("loss %g -> %g\n", first, lastl);
  int n = 1500;
  std::vector<double> X(n), Y(n), R(n * NF);
  std::vector<float> F(n * NF);
  std::uniform_real_distribution<double> u(-1, 1);
  for (int i = 0; i < n; i++) {
    double sc = i % 5 == 0 ? 1 : i % 5 == 1 ? 5 : i % 5 == 2 ? 20 : i % 5 == 3 ? 0.01 : 300;
    X[i] = (float)(u(g) * sc);
    Y[i] = (float)(u(g) * (i % 3 ? 4 : 40));
    if (i % 7 == 0) X[i] = fabs(X[i]);
    if (i % 97 == 0) {
      X[i] *= 1e5;
    }
  }
  const double sp[] = {0, -0.0, 1, -1, 2, 0.5, INFINITY, -INFINITY, NAN, 1e-300, 3, 1e30, -2.5, 2.5};
  for (int i = 0; i < 196; i++) {
    X[i] = sp[i / 14];
    Y[i] = sp[i % 14];
  }
  double *dX = 0, *dY, *dR;
  float* dF;
  MUST(cudaMalloc(&dX, n * 8));
  MUST(cudaMalloc(&dY, n * 8));
  MUST(cudaMalloc(&dR, n * NF * 8));
  MUST(cudaMalloc(&dF, n * NF * 4));
  MUST(cudaMemcpy(dX, X.data(), n * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dY, Y.data(), n * 8, cudaMemcpyHostToDevice));
  mathk<<<(n + 63) / 64, 64>>>(dX, dY, dR, dF, n);
  MUST_RUN();
  MUST(cudaMemcpy(R.data(), dR, n * NF * 8, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(F.data(), dF, n * NF * 4, cudaMemcpyDeviceToHost));
  double wd[NF] = {}, wf[NF] = {};
  for (int i = 0; i < n; i++) {
    long double e[NF], ef[NF];
    refd(X[i], Y[i], e);
    reff((float)X[i], (float)Y[i], ef);
    for (int k = 0; k < NF; k++) {
      bool unspec = !std::isfinite(X[i]) || !std::isfinite(Y[i]);
      if (unspec && (k == 42 || k == 43 || k == 44 || k == 45 || k == 46)) continue;
      if ((k == 45) && fabs(Y[i]) > 1e9) continue;
      if (k == 46 && (fabs(X[i]) > 1e15 || fabs(Y[i]) > 1e15)) continue;
      auto chk = [&](long double ex, double got, int p, double emin, double lim, double& w, const char* ty) {
        double er = p == 24 ? (double)(float)ex : (double)ex;
        if (std::isnan(er)) {
          HOLDS(std::isnan(got), "%s %s(%.9g, %.9g) expected NaN got %g", ty, names[k], X[i], Y[i], got);
          return;
        }
        if (std::isinf(er) || std::isinf(got) || std::isnan(got)) {
          if (er == got) return;
          if (std::isinf(er) && lim > 0 && fabsl(ex) < ldexpl(1, p == 24 ? 128 : 1024) * 1.000001L &&
              std::isfinite(ex))
            return;
          HOLDS(0, "%s %s(%.9g, %.9g) expected %g got %g", ty, names[k], X[i], Y[i], er, got);
          return;
        }
        int ee;
        frexpl(ex, &ee);
        double ulp = ldexp(1.0, std::max(ee - p, (int)emin));
        double err = fabsl((long double)got - ex) / ulp;
        if (lim < 0) {
          HOLDS(fabsl(got - ex) < (p == 24 ? 3e-6 : 1e-11) * (1 + fabsl(ex)) || fabs(X[i]) > 8,
                "%s %s(%g) %g %Lg", ty, names[k], X[i], got, ex);
          return;
        }
        if (k == 22 && fabs(er) < (X[i] < 0 ? 1e9 : -1) && X[i] < 0) return;
        w = std::max(w, err);
        double L = lim == 0 ? (k == 24 ? 0.5001 : 1e-9) : lim + 0.5;
        HOLDS(err <= L, "%s %s(%.17g, %.9g) expected %.17Lg got %.17g: %.2f ulp, documented %g", ty, names[k],
              p == 24 ? (float)X[i] : X[i], Y[i], ex, got, err, lim);
      };
      chk(e[k], R[i * NF + k], 53, -1074, ud[k], wd[k], "double");
      if (k == 41 || k == 42) {
        if (fabs(X[i]) < 1e-40 && X[i] != 0) continue;
      }
      chk(ef[k], F[i * NF + k], 24, -149, uf[k], wf[k], "float");
    }
  }
  if (getenv("ULP"))
    for (int k = 0; k < NF; k++) printf("%s %.2f %.2f\n", names[k], wd[k], wf[k]);
  return verdict();
}
