// Launches that ask the GPU first: block sizes of most occupancy, grids that just fill the GPU, shared memory
// that grows with the block, and more of it than is given unasked.
#include "check.h"

// A grid of any size sums all: each thread strides over the values.
__global__ void sum_all(const int* in, int n, unsigned long long* out) {
  extern __shared__ long long part[];
  long long mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += in[i];
  part[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned i = 1; i < blockDim.x; ++i) mine += part[i];
  atomicAdd(out, static_cast<unsigned long long>(mine));
}
__global__ void __launch_bounds__(128) small_blocks(int* out) {
  out[threadIdx.x] = blockDim.x;
}
__global__ void reverse(int* values, int n) {
  extern __shared__ int held[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = values[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = held[n - 1 - i];
}

static void fills_the_gpu(int n, int multiprocessors) {
  int grid = 0, block = 0, per_multiprocessor = 0;
  auto shared = [](int threads) { return threads * sizeof(long long); };
  MUST(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, sum_all, shared));
  HOLDS(block > 0 && block % 32 == 0 && block <= 1024, "a block of %d", block);
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, sum_all, block, shared(block)));
  HOLDS(grid == per_multiprocessor * multiprocessors, "%d blocks fill it, told %d",
        per_multiprocessor * multiprocessors, grid);
  grid = std::min(grid, (n + block - 1) / block);
  std::vector<int> values(n);
  long long wanted = 0;
  for (int i = 0; i < n; ++i) wanted += values[i] = i * 17 % 1001 - 500;
  int* in;
  unsigned long long* out;
  long long sum = 0;
  MUST(cudaMalloc(&in, n * sizeof(int)));
  MUST(cudaMalloc(&out, sizeof *out));
  MUST(cudaMemset(out, 0, sizeof *out));
  MUST(cudaMemcpy(in, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  sum_all<<<grid, block, shared(block)>>>(in, n, out);
  MUST(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
  HOLDS(sum == wanted, "%d values: %lld, %lld", n, sum, wanted);
  MUST(cudaFree(in));
  MUST(cudaFree(out));
}

static void limits_of_kernels() {
  cudaFuncAttributes told;
  MUST(cudaFuncGetAttributes(&told, small_blocks));
  HOLDS(told.maxThreadsPerBlock == 128, "__launch_bounds__: %d", told.maxThreadsPerBlock);
  int* out;
  MUST(cudaMalloc(&out, 1024 * sizeof(int)));
  small_blocks<<<1, 128>>>(out);
  MUST_RUN();
  small_blocks<<<1, 129>>>(out);
  HOLDS(cudaPeekAtLastError() == cudaErrorInvalidValue ||
            cudaPeekAtLastError() == cudaErrorInvalidConfiguration ||
            cudaPeekAtLastError() == cudaErrorLaunchOutOfResources,
        "a block too large: %s", cudaGetErrorName(cudaPeekAtLastError()));
  HOLDS(cudaGetLastError() != cudaSuccess && cudaGetLastError() == cudaSuccess, "asking resets it");
  int grid = 0, block = 0, blocks = -1;
  MUST(cudaOccupancyMaxPotentialBlockSize(&grid, &block, small_blocks));
  HOLDS(block == 128 || block == 96 || block == 64, "within the bounds: %d", block);
  MUST(cudaOccupancyMaxPotentialBlockSize(&grid, &block, small_blocks, 0, 64));
  HOLDS(block <= 64, "within the limit: %d", block);
  REFUSES(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, small_blocks, 32, 0), cudaErrorInvalidValue);
  REFUSES(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small_blocks, 0, 0), cudaErrorInvalidValue);
  MUST(cudaFree(out));
}

static void much_shared_memory() {
  int usual = 0, most = 0;
  MUST(cudaDeviceGetAttribute(&usual, cudaDevAttrMaxSharedMemoryPerBlock, 0));
  MUST(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  HOLDS(usual == 48 << 10 && most >= usual, "%d, %d", usual, most);
  if (most == usual) return;
  const int n = most / static_cast<int>(sizeof(int));
  std::vector<int> values(n);
  for (int i = 0; i < n; ++i) values[i] = i * 3;
  int* device;
  MUST(cudaMalloc(&device, n * sizeof(int)));
  MUST(cudaMemcpy(device, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  reverse<<<1, 256, most>>>(device, n);
  HOLDS(cudaGetLastError() == cudaErrorInvalidValue, "not unasked");
  MUST(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  REFUSES(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
          cudaErrorInvalidValue);
  reverse<<<1, 256, most>>>(device, n);
  MUST_RUN();
  std::vector<int> out(n);
  MUST(cudaMemcpy(out.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost));
  std::reverse(values.begin(), values.end());
  HOLDS(out == values, "reversed");
  int blocks = 0;
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 256, most));
  HOLDS(blocks == 1, "one block has all of it: %d", blocks);
  size_t left = 0;
  MUST(cudaOccupancyAvailableDynamicSMemPerBlock(&left, reverse, 2, 256));
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 256, left));
  HOLDS(blocks >= 2 && left > 0, "two blocks with %zu bytes each: %d", left, blocks);
  MUST(cudaFree(device));
}

int main() {
  cudaDeviceProp prop;
  MUST(cudaGetDeviceProperties(&prop, 0));
  for (const int n : {1, 1000, 300000}) fills_the_gpu(n, prop.multiProcessorCount);
  limits_of_kernels();
  much_shared_memory();
  return verdict();
}
