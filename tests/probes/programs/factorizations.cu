// LU and Cholesky factorisation, rounding modes and mixed precision.
#include "check.h"

#include <cfenv>
#include <cmath>
// LU with partial pivoting (one block), Cholesky (one warp, syncwarp), triangular solves; bit-exact against
// host fma
__global__ void lu(double* A, int* piv, int n) {
  extern __shared__ double sm[];
  double* rowk = sm;
  int* best = (int*)(sm + n);
  __shared__ double red[64];
  __shared__ int idx[64];
  int t = threadIdx.x, nt = blockDim.x;
  for (int k = 0; k < n; k++) {
    double m = -1;
    int mi = k;
    for (int i = k + t; i < n; i += nt) {
      double v = fabs(A[i * n + k]);
      if (v > m) {
        m = v;
        mi = i;
      }
    }
    red[t] = m;
    idx[t] = mi;
    __syncthreads();
    for (int s = nt / 2; s > 0; s >>= 1) {
      if (t < s) {
        if (red[t + s] > red[t] || (red[t + s] == red[t] && idx[t + s] < idx[t])) {
          red[t] = red[t + s];
          idx[t] = idx[t + s];
        }
      }
      __syncthreads();
    }
    if (t == 0) {
      best[0] = idx[0];
      piv[k] = idx[0];
    }
    __syncthreads();
    int p = best[0];
    if (p != k)
      for (int j = t; j < n; j += nt) {
        double x = A[k * n + j];
        A[k * n + j] = A[p * n + j];
        A[p * n + j] = x;
      }
    __syncthreads();
    for (int j = t; j < n; j += nt) rowk[j] = A[k * n + j];
    __syncthreads();
    for (int i = k + 1 + t; i < n; i += nt) A[i * n + k] = __ddiv_rn(A[i * n + k], rowk[k]);
    __syncthreads();
    for (int q = t; q < (n - k - 1) * (n - k - 1); q += nt) {
      int i = k + 1 + q / (n - k - 1), j = k + 1 + q % (n - k - 1);
      A[i * n + j] = __fma_rn(-A[i * n + k], rowk[j], A[i * n + j]);
    }
    __syncthreads();
  }
}
__global__ void __launch_bounds__(32) chol(double* A, int n) {
  __shared__ double L[24][25];
  int l = threadIdx.x;
  for (int i = l; i < n * n; i += 32) L[i / n][i % n] = A[i];
  __syncwarp();
  for (int k = 0; k < n; k++) {
    if (l == k) L[k][k] = __dsqrt_rn(L[k][k]);
    __syncwarp();
    if (l > k && l < n) L[l][k] = __ddiv_rn(L[l][k], L[k][k]);
    __syncwarp();
    if (l > k && l < n)
      for (int j = k + 1; j <= l; j++) L[l][j] = __fma_rn(-L[l][k], L[j][k], L[l][j]);
    __syncwarp();
  }
  double d = l < n ? L[l][l] : 1.0;
  for (int o = 16; o; o >>= 1) d = __dmul_rn(d, __shfl_down_sync(0xffffffff, d, o));
  for (int i = l; i < n * n; i += 32) A[i] = i % n <= i / n ? L[i / n][i % n] : 0;
  if (l == 0) A[1] = d;  // product of diagonal into an unused corner
}
__global__ void rnd(const double* x, const double* y, const double* z, double* o, const float* a,
                    const float* b, const float* c, float* of, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double* p = o + i * 28;
  float* q = of + i * 32;
  double X = x[i], Y = y[i], Z = z[i];
  float A = a[i], B = b[i], C = c[i];
  p[0] = __dadd_rn(X, Y);
  p[1] = __dadd_rz(X, Y);
  p[2] = __dadd_ru(X, Y);
  p[3] = __dadd_rd(X, Y);
  p[4] = __dmul_rn(X, Y);
  p[5] = __dmul_rz(X, Y);
  p[6] = __dmul_ru(X, Y);
  p[7] = __dmul_rd(X, Y);
  p[8] = __ddiv_rn(X, Y);
  p[9] = __ddiv_rz(X, Y);
  p[10] = __ddiv_ru(X, Y);
  p[11] = __ddiv_rd(X, Y);
  p[12] = __dsqrt_rn(fabs(X));
  p[13] = __dsqrt_rz(fabs(X));
  p[14] = __dsqrt_ru(fabs(X));
  p[15] = __dsqrt_rd(fabs(X));
  p[16] = __fma_rn(X, Y, Z);
  p[17] = __fma_rz(X, Y, Z);
  p[18] = __fma_ru(X, Y, Z);
  p[19] = __fma_rd(X, Y, Z);
  p[20] = __drcp_rn(X);
  p[21] = __drcp_rz(X);
  p[22] = __drcp_ru(X);
  p[23] = __drcp_rd(X);
  p[24] = __dsub_rn(X, Y);
  p[25] = __dsub_rz(X, Y);
  p[26] = __dsub_ru(X, Y);
  p[27] = __dsub_rd(X, Y);
  q[0] = __fadd_rn(A, B);
  q[1] = __fadd_rz(A, B);
  q[2] = __fadd_ru(A, B);
  q[3] = __fadd_rd(A, B);
  q[4] = __fmul_rn(A, B);
  q[5] = __fmul_rz(A, B);
  q[6] = __fmul_ru(A, B);
  q[7] = __fmul_rd(A, B);
  q[8] = __fdiv_rn(A, B);
  q[9] = __fdiv_rz(A, B);
  q[10] = __fdiv_ru(A, B);
  q[11] = __fdiv_rd(A, B);
  q[12] = __fsqrt_rn(fabsf(A));
  q[13] = __fsqrt_rz(fabsf(A));
  q[14] = __fsqrt_ru(fabsf(A));
  q[15] = __fsqrt_rd(fabsf(A));
  q[16] = __fmaf_rn(A, B, C);
  q[17] = __fmaf_rz(A, B, C);
  q[18] = __fmaf_ru(A, B, C);
  q[19] = __fmaf_rd(A, B, C);
  q[20] = __frcp_rn(A);
  q[21] = __frcp_rz(A);
  q[22] = __frcp_ru(A);
  q[23] = __frcp_rd(A);
  q[24] = __fsub_rn(A, B);
  q[25] = __fsub_rz(A, B);
  q[26] = __fsub_ru(A, B);
  q[27] = __fsub_rd(A, B);
  q[28] = __frsqrt_rn(fabsf(A));
  q[29] = __fdividef(A, B);
  q[30] = rsqrtf(fabsf(A));
  q[31] = (float)rsqrt(fabs(X));
}
template <class T>
static bool same(T a, T b) {
  return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}
int main() {
  int n = 40;
  std::vector<double> A(n * n);
  srand(3);
  for (auto& v : A) v = rand() / (double)RAND_MAX - 0.5;
  auto H = A;
  double* d;
  int* dp;
  MUST(cudaMalloc(&d, n * n * 8));
  MUST(cudaMalloc(&dp, n * 4));
  MUST(cudaMemcpy(d, A.data(), n * n * 8, cudaMemcpyHostToDevice));
  lu<<<1, 64, n * 8 + 16>>>(d, dp, n);
  MUST_RUN();
  std::vector<double> R(n * n);
  std::vector<int> P(n);
  MUST(cudaMemcpy(R.data(), d, n * n * 8, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(P.data(), dp, n * 4, cudaMemcpyDeviceToHost));
  for (int k = 0; k < n; k++) {
    int p = k;
    for (int i = k; i < n; i++)
      if (fabs(H[i * n + k]) > fabs(H[p * n + k])) p = i;
    HOLDS(p == P[k], "pivot %d", k);
    if (p != k)
      for (int j = 0; j < n; j++) std::swap(H[k * n + j], H[p * n + j]);
    for (int i = k + 1; i < n; i++) {
      H[i * n + k] /= H[k * n + k];
      for (int j = k + 1; j < n; j++) H[i * n + j] = fma(-H[i * n + k], H[k * n + j], H[i * n + j]);
    }
  }
  HOLDS(!memcmp(H.data(), R.data(), n * n * 8), "LU not bit exact");
  int m = 24;
  std::vector<double> S(m * m);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) S[i * m + j] = (i == j ? m : 0) + 1.0 / (i + j + 1);
  MUST(cudaMemcpy(d, S.data(), m * m * 8, cudaMemcpyHostToDevice));
  chol<<<1, 32>>>(d, m);
  MUST_RUN();
  MUST(cudaMemcpy(R.data(), d, m * m * 8, cudaMemcpyDeviceToHost));
  for (int k = 0; k < m; k++) {
    S[k * m + k] = sqrt(S[k * m + k]);
    for (int i = k + 1; i < m; i++) S[i * m + k] /= S[k * m + k];
    for (int i = k + 1; i < m; i++)
      for (int j = k + 1; j <= i; j++) S[i * m + j] = fma(-S[i * m + k], S[j * m + k], S[i * m + j]);
  }
  for (int i = 0; i < m; i++)
    for (int j = 0; j <= i; j++)
      HOLDS(same(S[i * m + j], R[i * m + j]), "chol %d %d %.17g %.17g", i, j, S[i * m + j], R[i * m + j]);
  double v[32];
  for (int i = 0; i < 32; i++) v[i] = i < m ? S[i * m + i] : 1;
  for (int o = 16; o; o >>= 1)
    for (int i = 0; i < 32; i++) v[i] *= i + o < 32 ? v[i + o] : v[i];
  HOLDS(R[1] == v[0], "diag %g %g", R[1], v[0]);
  int N = 1500;
  std::vector<double> x(N), y(N), z(N), o(N * 28);
  std::vector<float> a(N), b(N), c(N), of(N * 32);
  for (int i = 0; i < N; i++) {
    auto r = [] { return (rand() / (double)RAND_MAX - 0.5) * pow(2, rand() % 40 - 20); };
    x[i] = r();
    y[i] = r();
    z[i] = r();
    a[i] = r();
    b[i] = r();
    c[i] = r();
  }
  const double sp[] = {0.0,
                       -0.0,
                       INFINITY,
                       -INFINITY,
                       NAN,
                       1e-310,
                       4.9e-324,
                       1.7976931348623157e308,
                       1,
                       -1,
                       2,
                       0.5,
                       2.2250738585072014e-308};
  const float sf[] = {0.f, -0.f, INFINITY, -INFINITY,      NAN, 1e-40f, 1.4e-45f, 3.40282347e38f, 1,
                      -1,  2,    .5f,      1.17549435e-38f};
  for (int i = 0; i < 169; i++) {
    x[i] = sp[i / 13];
    y[i] = sp[i % 13];
    z[i] = sp[(i * 7) % 13];
    a[i] = sf[i / 13];
    b[i] = sf[i % 13];
    c[i] = sf[(i * 7) % 13];
  }
  double *dx, *dy, *dz, *d_o;
  float *da, *db, *dc, *df;
  MUST(cudaMalloc(&dx, N * 8));
  MUST(cudaMalloc(&dy, N * 8));
  MUST(cudaMalloc(&dz, N * 8));
  MUST(cudaMalloc(&d_o, N * 28 * 8));
  MUST(cudaMalloc(&da, N * 4));
  MUST(cudaMalloc(&db, N * 4));
  MUST(cudaMalloc(&dc, N * 4));
  MUST(cudaMalloc(&df, N * 32 * 4));
  MUST(cudaMemcpy(dx, x.data(), N * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dy, y.data(), N * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dz, z.data(), N * 8, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(da, a.data(), N * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(db, b.data(), N * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dc, c.data(), N * 4, cudaMemcpyHostToDevice));
  rnd<<<(N + 63) / 64, 64>>>(dx, dy, dz, d_o, da, db, dc, df, N);
  MUST_RUN();
  MUST(cudaMemcpy(o.data(), d_o, N * 28 * 8, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(of.data(), df, N * 32 * 4, cudaMemcpyDeviceToHost));
  const int modes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
  for (int i = 0; i < N; i++)
    for (int r = 0; r < 4; r++) {
      volatile double X = x[i], Y = y[i], Z = z[i], e[7];
      volatile float A = a[i], B = b[i], C = c[i], f[7];
      fesetround(modes[r]);
      e[0] = X + Y;
      e[1] = X * Y;
      e[2] = X / Y;
      e[3] = sqrt(fabs(X));
      e[4] = fma(X, Y, Z);
      e[5] = 1.0 / X;
      e[6] = X - Y;
      f[0] = A + B;
      f[1] = A * B;
      f[2] = A / B;
      f[3] = sqrtf(fabsf(A));
      f[4] = fmaf(A, B, C);
      f[5] = 1.0f / A;
      f[6] = A - B;
      fesetround(FE_TONEAREST);
      for (int k = 0; k < 7; k++) {
        HOLDS(same<double>(e[k], o[i * 28 + k * 4 + r]), "double op %d mode %d (%g %g %g): %.17g %.17g", k, r,
              x[i], y[i], z[i], (double)e[k], o[i * 28 + k * 4 + r]);
        HOLDS(same<float>(f[k], of[i * 32 + k * 4 + r]), "float op %d mode %d (%g %g %g): %.9g %.9g", k, r,
              a[i], b[i], c[i], (float)f[k], of[i * 32 + k * 4 + r]);
      }
    }
  for (int i = 0; i < N; i++) {
    float e = (float)(1.0L / sqrtl((long double)fabsf(a[i])));
    HOLDS(same(e, of[i * 32 + 28]), "__frsqrt_rn(%g) %.9g %.9g", fabsf(a[i]), e, of[i * 32 + 28]);
    if (i > 169) {
      HOLDS(fabs(of[i * 32 + 29] - (double)a[i] / b[i]) <= 3 * fabs((double)a[i] / b[i]) * 1.2e-7,
            "__fdividef %g %g", a[i], b[i]);
      HOLDS(fabs(of[i * 32 + 30] * sqrt(fabs((double)a[i])) - 1) < 4e-7, "rsqrtf");
    }
  }
  return verdict();
}
