// How long kernels take on the simulated machine, by the host's clock. Run by hand: numbers depend on the
// host.
//   GPUFENCE_SIM=1 LD_LIBRARY_PATH=<build>/sim <build>/bin/sim_bench
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", call, cudaGetErrorName(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class Body>
static double milliseconds(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  CHECK(cudaDeviceSynchronize());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

__global__ void empty() {}

__global__ void add(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

constexpr int kTile = 16;
__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float as[kTile][kTile], bs[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int tile = 0; tile < n / kTile; ++tile) {
    as[threadIdx.y][threadIdx.x] = a[row * n + tile * kTile + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(tile * kTile + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

int main() {
  CHECK(cudaFree(nullptr));
  std::printf("first launch: %.2f ms\n", milliseconds([] { empty<<<1, 1>>>(); }));
  constexpr int kLaunches = 20'000;
  const double alone = milliseconds([] {
    for (int i = 0; i < kLaunches; ++i) {
      empty<<<1, 1>>>();
      CHECK(cudaDeviceSynchronize());
    }
  });
  std::printf("empty kernel, launched and waited for: %.2f us\n", alone * 1000 / kLaunches);
  double queued = 0;
  const double all = milliseconds([&] {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) empty<<<1, 1>>>();
    queued = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  });
  std::printf("empty kernel, launched: %.2f us; until done: %.2f us\n", queued / kLaunches,
              all * 1000 / kLaunches);

  constexpr int kCount = 1 << 24;
  float *a, *b, *c;
  CHECK(cudaMalloc(&a, kCount * sizeof(float)));
  CHECK(cudaMalloc(&b, kCount * sizeof(float)));
  CHECK(cudaMalloc(&c, kCount * sizeof(float)));
  std::vector<float> host(kCount, 1.5f);
  CHECK(cudaMemcpy(a, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(b, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(c, 0, kCount * sizeof(float)));
  std::printf("vector add of 2^24 floats: %.0f ms\n",
              milliseconds([&] { add<<<(kCount + 255) / 256, 256>>>(a, b, c, kCount); }));
  CHECK(cudaMemcpy(host.data(), c, kCount * sizeof(float), cudaMemcpyDeviceToHost));
  for (float sum : host)
    if (sum != 3.0f) return std::printf("WRONG\n"), 1;

  constexpr int kSide = 1024;
  std::printf("matrix product of %d by %d floats, in tiles: %.0f ms\n", kSide, kSide, milliseconds([&] {
                multiply<<<dim3(kSide / kTile, kSide / kTile), dim3(kTile, kTile)>>>(a, b, c, kSide);
              }));
  CHECK(cudaMemcpy(host.data(), c, kSide * kSide * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kSide * kSide; ++i)
    if (host[i] != 1.5f * 1.5f * kSide) return std::printf("WRONG\n"), 1;
  return 0;
}
