// Bodies that attract each other, in structures of vectors, compared with the host within what fast
// mathematics gives.
#include "check.h"

struct Body {
  float4 pm;
  float3 v;
};
static_assert(sizeof(float3) == 12, "");
__device__ __forceinline__ float3 operator+(float3 a, float3 b) {
  return make_float3(a.x + b.x, a.y + b.y, a.z + b.z);
}
__device__ float3 interact(float4 bi, float4 bj, float3 ai, float eps2) {
  float3 r = make_float3(bj.x - bi.x, bj.y - bi.y, bj.z - bi.z);
  float d2 = fmaf(r.x, r.x, fmaf(r.y, r.y, fmaf(r.z, r.z, eps2)));
  float inv = rsqrtf(d2);
  float f = bj.w * inv * inv * inv;
  ai.x += r.x * f;
  ai.y += r.y * f;
  ai.z += r.z * f;
  return ai;
}
template <int P>
__global__ void __launch_bounds__(P)
    step(const float4* __restrict__ p, float3* v, float4* np, int n, float dt, float eps2) {
  __shared__ float4 sh[P];
  int i = blockIdx.x * P + threadIdx.x;
  float4 me = i < n ? p[i] : make_float4(0, 0, 0, 0);
  float3 a = make_float3(0, 0, 0);
  for (int t = 0; t < n; t += P) {
    sh[threadIdx.x] = t + threadIdx.x < n ? __ldg(p + t + threadIdx.x) : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < P; j++) a = interact(me, sh[j], a, eps2);
    __syncthreads();
  }
  if (i < n) {
    float3 w = v[i] + make_float3(a.x * dt, a.y * dt, a.z * dt);
    v[i] = w;
    np[i] = make_float4(me.x + w.x * dt, me.y + w.y * dt, me.z + w.z * dt, me.w);
  }
}
__global__ void energy(const float4* p, const float3* v, double* e, int n, float eps2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double ke = 0.5 * p[i].w * ((double)v[i].x * v[i].x + (double)v[i].y * v[i].y + (double)v[i].z * v[i].z),
         pe = 0;
  for (int j = 0; j < n; j++)
    if (j != i) {
      double x = p[j].x - p[i].x, y = p[j].y - p[i].y, z = p[j].z - p[i].z;
      pe -= 0.5 * p[i].w * p[j].w * rsqrt(x * x + y * y + z * z + eps2);
    }
  atomicAdd(e, ke + pe);
}
__global__ void fm(const float* x, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i];
  o[i * 16 + 0] = sinf(a);
  o[i * 16 + 1] = cosf(a);
  o[i * 16 + 2] = expf(a);
  o[i * 16 + 3] = logf(a);
  o[i * 16 + 4] = powf(a, 1.7f);
  o[i * 16 + 5] = 1.0f / a;
  o[i * 16 + 6] = sqrtf(a);
  o[i * 16 + 7] = rsqrtf(a);
  o[i * 16 + 8] = __fdividef(a, 3.3f);
  o[i * 16 + 9] = tanf(a);
  o[i * 16 + 10] = exp2f(a);
  o[i * 16 + 11] = log10f(a);
  o[i * 16 + 12] = __saturatef(a - 1);
  o[i * 16 + 13] = rnorm3df(a, 1.f, 2.f);
  o[i * 16 + 14] = hypotf(a, 2.f);
  o[i * 16 + 15] = tanhf(a);
}
int main() {
  const int n = 300, steps = 4;
  const float dt = 0.01f, eps2 = 0.01f;
  std::vector<float4> p(n), gp(n);
  std::vector<float3> v(n), gv(n);
  unsigned s = 3;
  auto rnd = [&] {
    s = s * 1664525 + 1013904223;
    return (s >> 8) / 8388608.f - 1;
  };
  for (int i = 0; i < n; i++) {
    p[i] = make_float4(rnd(), rnd(), rnd(), (rnd() + 1.5f) / n);
    v[i] = make_float3(rnd() * .1f, rnd() * .1f, rnd() * .1f);
  }
  float4 *a, *b;
  float3* dv;
  double* e;
  MUST(cudaMalloc(&a, n * 16));
  MUST(cudaMalloc(&b, n * 16));
  MUST(cudaMalloc(&dv, n * 12));
  MUST(cudaMalloc(&e, 16));
  MUST(cudaMemset(e, 0, 16));
  MUST(cudaMemcpy(a, p.data(), n * 16, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(dv, v.data(), n * 12, cudaMemcpyHostToDevice));
  energy<<<(n + 63) / 64, 64>>>(a, dv, e, n, eps2);
  for (int k = 0; k < steps; k++) {
    step<64><<<(n + 63) / 64, 64>>>(a, dv, b, n, dt, eps2);
    MUST(cudaGetLastError());
    std::swap(a, b);
  }
  energy<<<(n + 63) / 64, 64>>>(a, dv, e + 1, n, eps2);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(gp.data(), a, n * 16, cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(gv.data(), dv, n * 12, cudaMemcpyDeviceToHost));
  double en[2];
  MUST(cudaMemcpy(en, e, 16, cudaMemcpyDeviceToHost));
  double ke0 = 0;
  for (int k = 0; k < steps; k++) {
    std::vector<float4> q(p);
    for (int i = 0; i < n; i++) {
      double ax = 0, ay = 0, az = 0;
      for (int j = 0; j < n; j++) {
        double x = p[j].x - p[i].x, y = p[j].y - p[i].y, z = p[j].z - p[i].z,
               d2 = x * x + y * y + z * z + eps2, inv = 1 / std::sqrt(d2), f = p[j].w * inv * inv * inv;
        ax += x * f;
        ay += y * f;
        az += z * f;
        if (k == 0 && j != i) ke0 -= .5 * p[i].w * p[j].w * inv;
      }
      if (k == 0) ke0 += .5 * p[i].w * ((double)v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z);
      v[i].x += ax * dt;
      v[i].y += ay * dt;
      v[i].z += az * dt;
      q[i].x += v[i].x * dt;
      q[i].y += v[i].y * dt;
      q[i].z += v[i].z * dt;
    }
    p = q;
  }
  double worst = 0;
  for (int i = 0; i < n; i++) {
    worst = std::max(worst, (double)std::fabs(p[i].x - gp[i].x));
    worst = std::max(worst, (double)std::fabs(p[i].z - gp[i].z));
    worst = std::max(worst, (double)std::fabs(v[i].y - gv[i].y));
    HOLDS(p[i].w == gp[i].w, "mass");
  }
  HOLDS(worst < 2e-5, "positions differ by %g", worst);
  HOLDS(fabs(en[0] - ke0) < 1e-6 * fabs(ke0), "energy %g %g", en[0], ke0);
  HOLDS(fabs(en[1] - en[0]) < 0.02 * fabs(en[0]), "drift %g %g", en[0], en[1]);
  const int m = 500;
  std::vector<float> x(m), o(m * 16);
  for (int i = 0; i < m; i++) x[i] = 0.02f + i * 0.006f;
  float *dx, *dof;
  MUST(cudaMalloc(&dx, m * 4));
  MUST(cudaMalloc(&dof, m * 64));
  MUST(cudaMemcpy(dx, x.data(), m * 4, cudaMemcpyHostToDevice));
  fm<<<4, 128>>>(dx, dof, m);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(o.data(), dof, m * 64, cudaMemcpyDeviceToHost));
  double err[16] = {};
  for (int i = 0; i < m; i++) {
    double t = x[i], w[16] = {sin(t),
                              cos(t),
                              exp(t),
                              log(t),
                              pow(t, (double)1.7f),
                              1 / t,
                              sqrt(t),
                              1 / sqrt(t),
                              t / (double)3.3f,
                              tan(t),
                              exp2(t),
                              log10(t),
                              std::min(1., std::max(0., t - 1)),
                              1 / sqrt(t * t + 5),
                              hypot(t, 2.),
                              tanh(t)};
    for (int k = 0; k < 16; k++)
      err[k] = std::max(err[k], fabs(o[i * 16 + k] - w[k]) / std::max(1., fabs(w[k])));
  }
  for (int k = 0; k < 16; k++) {
    double tol = k == 9 ? 5e-3 : k == 15 ? 1e-3 : 2e-6;
    HOLDS(err[k] < tol, "fm %d err %g", k, err[k]);
  }
  return verdict();
}
