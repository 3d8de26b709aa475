// Copies into shared memory that run beside the block's work, waited for by groups and by barriers that count
// arrivals: a pipeline of tiles, and a value handed on in turns.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

#include <cuda/barrier>

#include "check.h"

namespace cg = cooperative_groups;

// Sums neighbours of tiles that the block copies in asynchronously.
__global__ void tiles(const int* in, int* out, int n) {
  constexpr int kTile = 64;
  __shared__ int tile[2][kTile];
  const cg::thread_block block = cg::this_thread_block();
  const int count = n / kTile;
  cg::memcpy_async(block, tile[0], in, sizeof(int) * kTile);
  for (int k = 0; k < count; ++k) {
    if (k + 1 < count) {
      cg::memcpy_async(block, tile[(k + 1) % 2], in + (k + 1) * kTile, sizeof(int) * kTile);
      cg::wait_prior<1>(block);
    } else {
      cg::wait(block);
    }
    const int i = threadIdx.x;
    out[k * kTile + i] = tile[k % 2][i] + tile[k % 2][(i + 1) % kTile];
    block.sync();
  }
}

// Halves of a block work in turn, by barriers that count arrivals.
__global__ void in_turn(int* out, int rounds) {
  __shared__ int value;
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> ready, taken;
  if (threadIdx.x == 0) {
    init(&ready, blockDim.x);
    init(&taken, blockDim.x);
    value = 1;
  }
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) value = value * 3 + round;
    ready.arrive_and_wait();
    if (threadIdx.x == 1) out[round] = value;
    taken.arrive_and_wait();
  }
}

int main() {
  constexpr int kCount = 640;
  std::vector<int> in(kCount), out(kCount);
  for (int i = 0; i < kCount; ++i) in[i] = i * i;
  int *from, *to;
  MUST(cudaMalloc(&from, kCount * sizeof(int)));
  MUST(cudaMalloc(&to, kCount * sizeof(int)));
  MUST(cudaMemcpy(from, in.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
  tiles<<<1, 64>>>(from, to, kCount);
  MUST_RUN();
  MUST(cudaMemcpy(out.data(), to, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i)
    HOLDS(out[i] == in[i] + in[i / 64 * 64 + (i + 1) % 64], "tile %d, %d: %d", i / 64, i % 64, out[i]);
  in_turn<<<1, 64>>>(to, 20);
  MUST_RUN();
  MUST(cudaMemcpy(out.data(), to, 20 * sizeof(int), cudaMemcpyDeviceToHost));
  for (int round = 0, value = 1; round < 20; ++round) {
    value = value * 3 + round;
    HOLDS(out[round] == value, "round %d: %d, %d", round, out[round], value);
  }
  MUST(cudaFree(from));
  MUST(cudaFree(to));
  return verdict();
}
