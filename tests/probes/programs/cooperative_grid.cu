// Launches whose blocks meet: grid-wide barriers and reductions through iterations.
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
struct P {
  float* a;
  float* b;
  const float* f;
  float* err;
  int w, h, maxit;
  float tol;
  int* its;
};
__global__ void jacobi(P p) {
  cg::grid_group g = cg::this_grid();
  auto blk = cg::this_thread_block();
  auto t = cg::tiled_partition<32>(blk);
  float *u = p.a, *v = p.b;
  int it = 0;
  for (; it < p.maxit; it++) {
    float m = 0;
    if (g.thread_rank() == 0) p.err[(it + 1) % 3] = 0;
    for (unsigned long long i = g.thread_rank(); i < (unsigned long long)p.w * p.h; i += g.size()) {
      int x = i % p.w, y = i / p.w;
      if (x == 0 || y == 0 || x == p.w - 1 || y == p.h - 1) {
        v[i] = u[i];
        continue;
      }
      float n = 0.25f * (u[i - 1] + u[i + 1] + u[i - p.w] + u[i + p.w] + p.f[i]);
      m = fmaxf(m, fabsf(n - u[i]));
      v[i] = n;
    }
    m = cg::reduce(t, m, cg::greater<float>());
    if (t.thread_rank() == 0) atomicMax((int*)&p.err[it % 3], __float_as_int(m));
    g.sync();
    float e = *(volatile float*)&p.err[it % 3];
    float* q = u;
    u = v;
    v = q;
    if (e < p.tol) {
      it++;
      break;
    }
    g.sync();
  }
  if (g.thread_rank() == 0) {
    *p.its = it;
  }
}
__global__ void info(unsigned long long* o) {
  auto g = cg::this_grid();
  auto b = cg::this_thread_block();
  if (g.thread_rank() == g.size() - 1) {
    o[0] = g.size();
    o[1] = g.is_valid();
    o[2] = g.num_blocks();
    o[3] = g.block_rank();
    o[4] = b.size();
    o[5] = g.dim_blocks().y;
    o[6] = b.thread_index().y;
    o[7] = g.block_index().x;
  }
  cg::sync(g);
  if (g.thread_rank() == 0) o[8] = o[0] * 2;
}
__global__ void big(int* o) {
  extern __shared__ int s[];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  o[blockIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void __launch_bounds__(256, 2) bounded(int* o) {
  *o = 1;
}
int main() {
  int dev = 0, coop;
  MUST(cudaSetDevice(dev));
  MUST(cudaDeviceGetAttribute(&coop, cudaDevAttrCooperativeLaunch, dev));
  HOLDS(coop == 1, "cooperative launch");
  cudaDeviceProp pr;
  MUST(cudaGetDeviceProperties(&pr, dev));
  printf("cc %d.%d sms %d\n", pr.major, pr.minor, pr.multiProcessorCount);
  const int T = 128;
  int per;
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, jacobi, T, 0));
  HOLDS(per >= 1 && per * T <= pr.maxThreadsPerMultiProcessor, "occupancy %d", per);
  int blocks = std::min(per * pr.multiProcessorCount, 12);
  int w = 40, h = 32, N = w * h;
  std::vector<float> u(N, 0), f(N), v, r(N);
  for (int i = 0; i < N; i++) {
    f[i] = (i % 17 == 3) * 0.1f;
    if (i < w) u[i] = 1;
  }
  float *a, *b, *df, *err;
  int* its;
  MUST(cudaMalloc(&a, N * 4));
  MUST(cudaMalloc(&b, N * 4));
  MUST(cudaMalloc(&df, N * 4));
  MUST(cudaMalloc(&err, 12));
  MUST(cudaMalloc(&its, 4));
  MUST(cudaMemset(err, 0, 12));
  MUST(cudaMemcpy(a, u.data(), N * 4, cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(df, f.data(), N * 4, cudaMemcpyHostToDevice));
  P p{a, b, df, err, w, h, 60, 2e-3f, its};
  void* args[] = {&p};
  MUST(cudaLaunchCooperativeKernel((void*)jacobi, blocks, T, args, 0, 0));
  MUST(cudaDeviceSynchronize());
  int hits;
  MUST(cudaMemcpy(&hits, its, 4, cudaMemcpyDeviceToHost));
  int it = 0;
  v = u;
  for (; it < 60; it++) {
    float m = 0;
    for (int i = 0; i < N; i++) {
      int x = i % w, y = i / w;
      if (!x || !y || x == w - 1 || y == h - 1) {
        v[i] = u[i];
        continue;
      }
      float n = .25f * (u[i - 1] + u[i + 1] + u[i - w] + u[i + w] + f[i]);
      m = std::max(m, fabsf(n - u[i]));
      v[i] = n;
    }
    std::swap(u, v);
    if (m < 2e-3f) {
      it++;
      break;
    }
  }
  HOLDS(it == hits, "iterations %d, CPU %d", hits, it);
  MUST(cudaMemcpy(r.data(), hits % 2 ? b : a, N * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < N; i++)
    if (fabs(r[i] - u[i]) > 1e-5) {
      HOLDS(0, "u[%d] %g %g", i, r[i], u[i]);
      break;
    }
  unsigned long long* o;
  MUST(cudaMalloc(&o, 72));
  void* ia[] = {&o};
  MUST(cudaLaunchCooperativeKernel(info, dim3(3, 2), dim3(8, 4), ia, 0, 0));
  unsigned long long ho[9];
  MUST(cudaMemcpy(ho, o, 72, cudaMemcpyDeviceToHost));
  HOLDS(ho[0] == 192 && ho[1] == 1 && ho[2] == 6 && ho[3] == 5 && ho[4] == 32 && ho[5] == 2 && ho[6] == 3 &&
            ho[7] == 2 && ho[8] == 384,
        "grid info %llu %llu %llu %llu %llu %llu %llu %llu %llu", ho[0], ho[1], ho[2], ho[3], ho[4], ho[5],
        ho[6], ho[7], ho[8]);
  // too large a cooperative grid
  int pi;
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&pi, info, 32, 0));
  ANSWERS(cudaLaunchCooperativeKernel(info, dim3(pi * pr.multiProcessorCount + 1), dim3(32), ia, 0, 0),
          cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();
  // occupancy limited by shared memory, launch config errors, dynamic shared opt in
  int p48;
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&p48, big, 64, 48 * 1024));
  HOLDS(p48 >= 1 && p48 <= (int)(pr.sharedMemPerMultiprocessor / (48 * 1024)), "shared-limited %d", p48);
  int* ob;
  MUST(cudaMalloc(&ob, 400));
  big<<<1, 64, 48 * 1024 + 4>>>(ob);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidValue);
  int opt;
  MUST(cudaDeviceGetAttribute(&opt, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  MUST(cudaFuncSetAttribute(big, cudaFuncAttributeMaxDynamicSharedMemorySize, opt));
  big<<<2, 64, opt>>>(ob);
  MUST(cudaGetLastError());
  MUST(cudaDeviceSynchronize());
  ANSWERS(cudaFuncSetAttribute(big, cudaFuncAttributeMaxDynamicSharedMemorySize, opt + 1),
          cudaErrorInvalidValue);
  cudaGetLastError();
  big<<<1, 1025, 0>>>(ob);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  big<<<0, 32>>>(ob);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  big<<<dim3(1, 65536), 32>>>(ob);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  big<<<1, dim3(1, 1, 65)>>>(ob);
  ANSWERS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  bounded<<<1, 512>>>(ob);
  cudaError_t lb = cudaGetLastError();
  HOLDS(lb == cudaErrorInvalidValue || lb == cudaErrorLaunchOutOfResources ||
            lb == cudaErrorInvalidConfiguration,
        "over launch_bounds %s", cudaGetErrorName(lb));
  cudaFuncAttributes fa;
  MUST(cudaFuncGetAttributes(&fa, jacobi));
  HOLDS(fa.maxThreadsPerBlock >= 128 && fa.numRegs > 0 && fa.binaryVersion >= 70 && fa.ptxVersion >= 70,
        "attrs max %d regs %d bin %d ptx %d", fa.maxThreadsPerBlock, fa.numRegs, fa.binaryVersion,
        fa.ptxVersion);
  MUST(cudaFuncGetAttributes(&fa, bounded));
  HOLDS(fa.maxThreadsPerBlock == 256, "bounded %d", fa.maxThreadsPerBlock);
  int mg, bs;
  MUST(cudaOccupancyMaxPotentialBlockSize(&mg, &bs, jacobi, 0, 0));
  HOLDS(bs >= 32 && bs <= 1024 && mg >= pr.multiProcessorCount, "potential %d %d", mg, bs);
  size_t dyn;
  MUST(cudaOccupancyAvailableDynamicSMemPerBlock(&dyn, big, 1, 64));
  HOLDS(dyn > 0, "dyn %zu", dyn);
  // an ordinary launch of a kernel with grid sync: is_valid() is false
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = 2;
  cfg.blockDim = 64;
  cudaLaunchAttribute at[1];
  at[0].id = cudaLaunchAttributeCooperative;
  at[0].val.cooperative = 1;
  cfg.attrs = at;
  cfg.numAttrs = 1;
  MUST(cudaMemset(o, 0, 72));
  MUST(cudaLaunchKernelEx(&cfg, info, o));
  MUST(cudaMemcpy(ho, o, 72, cudaMemcpyDeviceToHost));
  HOLDS(ho[0] == 128 && ho[8] == 256, "LaunchKernelEx");
  return verdict();
}
