// Cooperative groups: conjugate gradients in one launch whose blocks meet at grid barriers, with sums over
// tiles, coalesced threads and what a group tells of itself.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;

struct System {  // -x[i-1] + 2.5 x[i] - x[i+1] = b[i]
  int n;
  float *x, *r, *p, *ap, *dots;
};

__device__ void add_dot(const float* a, const float* b, int n, float* out, const cg::grid_group& grid,
                        const cg::thread_block& block) {
  float mine = 0;
  for (int i = static_cast<int>(grid.thread_rank()); i < n; i += static_cast<int>(grid.size()))
    mine += a[i] * b[i];
  const auto tile = cg::tiled_partition<32>(block);
  const float sum = cg::reduce(tile, mine, cg::plus<float>());
  if (tile.thread_rank() == 0) atomicAdd(out, sum);
}

__global__ void solve(System s, int steps) {
  const cg::grid_group grid = cg::this_grid();
  const cg::thread_block block = cg::this_thread_block();
  const int first = static_cast<int>(grid.thread_rank()), stride = static_cast<int>(grid.size());
  add_dot(s.r, s.r, s.n, &s.dots[0], grid, block);
  grid.sync();
  for (int step = 0; step < steps; ++step) {
    float* const now = s.dots + 2 * step;
    for (int i = first; i < s.n; i += stride)
      s.ap[i] = 2.5f * s.p[i] - (i > 0 ? s.p[i - 1] : 0) - (i + 1 < s.n ? s.p[i + 1] : 0);
    grid.sync();
    add_dot(s.p, s.ap, s.n, now + 1, grid, block);
    grid.sync();
    const float alpha = now[1] != 0 ? now[0] / now[1] : 0;
    for (int i = first; i < s.n; i += stride) {
      s.x[i] += alpha * s.p[i];
      s.r[i] -= alpha * s.ap[i];
    }
    grid.sync();
    add_dot(s.r, s.r, s.n, now + 2, grid, block);
    grid.sync();
    const float beta = now[0] != 0 ? now[2] / now[0] : 0;
    for (int i = first; i < s.n; i += stride) s.p[i] = s.r[i] + beta * s.p[i];
    grid.sync();
  }
}

// Positives first, then the rest, each in any order: one atomic for all threads that go the same way.
__global__ void partition(const int* in, int n, int* out, int* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (in[i] > 0) {
    const cg::coalesced_group same = cg::coalesced_threads();
    int base = 0;
    if (same.thread_rank() == 0) base = atomicAdd(&counts[0], static_cast<int>(same.size()));
    out[same.shfl(base, 0) + same.thread_rank()] = in[i];
  } else {
    const cg::coalesced_group same = cg::coalesced_threads();
    int base = 0;
    if (same.thread_rank() == 0) base = atomicAdd(&counts[1], static_cast<int>(same.size()));
    out[n - 1 - (same.shfl(base, 0) + same.thread_rank())] = in[i];
  }
}

__global__ void ranks(int* out) {
  const cg::thread_block block = cg::this_thread_block();
  const auto eight = cg::tiled_partition<8>(block);
  const auto four = cg::tiled_partition<4>(eight);
  const int before = four.shfl_up(static_cast<int>(block.thread_rank()), 1);
  const int highest = cg::reduce(eight, static_cast<int>(block.thread_rank()), cg::greater<int>());
  const unsigned odd = four.ballot(block.thread_rank() % 2 == 1);
  out[block.thread_rank()] = static_cast<int>(eight.meta_group_rank() * 1000000 +
                                              four.meta_group_size() * 100000 + odd * 1000 + highest) +
                             (before == 0 ? 500 : 0);
}

static void solves(int n) {
  int can = 0, per_multiprocessor = 0, multiprocessors = 0;
  MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
  if (can == 0) return;
  MUST(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, solve, 128, 0));
  int steps = 30;
  const int blocks = std::min(4, per_multiprocessor * multiprocessors);
  std::vector<float> b(n), x(n);
  for (int i = 0; i < n; ++i) b[i] = static_cast<float>(i % 7 - 3);
  System s{n, nullptr, nullptr, nullptr, nullptr, nullptr};
  for (float** vector : {&s.x, &s.r, &s.p, &s.ap}) MUST(cudaMalloc(vector, n * sizeof(float)));
  MUST(cudaMalloc(&s.dots, (2 * steps + 1) * sizeof(float)));
  MUST(cudaMemset(s.x, 0, n * sizeof(float)));
  MUST(cudaMemset(s.dots, 0, (2 * steps + 1) * sizeof(float)));
  MUST(cudaMemcpy(s.r, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  MUST(cudaMemcpy(s.p, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  void* arguments[] = {&s, &steps};
  MUST(cudaLaunchCooperativeKernel(solve, dim3(blocks), dim3(128), arguments, 0, nullptr));
  MUST_RUN();
  MUST(cudaMemcpy(x.data(), s.x, n * sizeof(float), cudaMemcpyDeviceToHost));
  float worst = 0;
  for (int i = 0; i < n; ++i)
    worst =
        std::max(worst, std::abs(2.5f * x[i] - (i > 0 ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0) - b[i]));
  HOLDS(worst < 1e-3f, "of %d unknowns: %g left", n, worst);
  // More blocks than are resident at once can't meet.
  REFUSES(cudaLaunchCooperativeKernel(solve, dim3(per_multiprocessor * multiprocessors + 1), dim3(128),
                                      arguments, 0, nullptr),
          cudaErrorCooperativeLaunchTooLarge);
  for (float* vector : {s.x, s.r, s.p, s.ap, s.dots}) MUST(cudaFree(vector));
}

static void partitions(int n) {
  std::vector<int> values(n), out(n);
  for (int i = 0; i < n; ++i) values[i] = i * 7919 % 1013 - 500;
  int *in, *to, *counts, counted[2];
  MUST(cudaMalloc(&in, n * sizeof(int)));
  MUST(cudaMalloc(&to, n * sizeof(int)));
  MUST(cudaMalloc(&counts, sizeof counted));
  MUST(cudaMemset(counts, 0, sizeof counted));
  MUST(cudaMemcpy(in, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  partition<<<(n + 127) / 128, 128>>>(in, n, to, counts);
  MUST(cudaMemcpy(out.data(), to, n * sizeof(int), cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(counted, counts, sizeof counted, cudaMemcpyDeviceToHost));
  const int positives =
      static_cast<int>(std::count_if(values.begin(), values.end(), [](int v) { return v > 0; }));
  HOLDS(counted[0] == positives && counted[1] == n - positives, "%d, %d", counted[0], counted[1]);
  HOLDS(std::all_of(out.begin(), out.begin() + positives, [](int v) { return v > 0; }), "positives first");
  std::sort(out.begin(), out.end());
  std::sort(values.begin(), values.end());
  HOLDS(out == values, "each once");
  for (int* memory : {in, to, counts}) MUST(cudaFree(memory));
}

int main() {
  for (const int n : {1, 33, 3000}) solves(n);
  for (const int n : {1, 100, 5000}) partitions(n);
  int *device, told[64];
  MUST(cudaMalloc(&device, sizeof told));
  ranks<<<1, 64>>>(device);
  MUST(cudaMemcpy(told, device, sizeof told, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) {
    const int wanted = i / 8 * 1000000 + 2 * 100000 + 10 * 1000 + i / 8 * 8 + 7 + (i < 2 ? 500 : 0);
    HOLDS(told[i] == wanted, "thread %d: %d, %d", i, told[i], wanted);
  }
  MUST(cudaFree(device));
  return verdict();
}
