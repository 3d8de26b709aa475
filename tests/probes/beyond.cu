// Asks for what no simulated GPU has, beside what each has: tensor cores, and memory of another API. "right" if the
// ordinary half was right; what became of the rest is printed.
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdio>

__global__ void twice(int* values) {
  values[threadIdx.x] *= 2;
}

__global__ void multiply(const half* a, const half* b, float* c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

int main() {
  int* values = nullptr;
  cudaMalloc(&values, 32 * sizeof(int));
  int host[32] = {};
  for (int i = 0; i < 32; ++i) host[i] = i;
  cudaMemcpy(values, host, sizeof host, cudaMemcpyDefault);
  twice<<<1, 32>>>(values);
  cudaMemcpy(host, values, sizeof host, cudaMemcpyDefault);

  half* halves = nullptr;
  float* floats = nullptr;
  cudaMalloc(&halves, 512 * sizeof(half));
  cudaMalloc(&floats, 256 * sizeof(float));
  multiply<<<1, 32>>>(halves, halves + 256, floats);
  printf("multiply: %s\n", cudaGetErrorName(cudaGetLastError()));
  cudaExternalMemory_t memory = nullptr;
  cudaExternalMemoryHandleDesc description{};
  description.type = cudaExternalMemoryHandleTypeOpaqueFd;
  printf("cudaImportExternalMemory: %s\n", cudaGetErrorName(cudaImportExternalMemory(&memory, &description)));
  printf(host[31] == 62 ? "right\n" : "wrong\n");
  return host[31] == 62 ? 0 : 1;
}
