// Adds vectors on every GPU and checks what comes back, then launches on the last GPU with memory of the
// first, which no GPU here reaches: the error says that the kernel ran where it was sent. Takes memory in
// between until CUDA refuses, so that a cap shows. An ordinary program that knows nothing of any fence.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "adds_kernel.cuh"

constexpr int kCount = 100'000;

static void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", call, cudaGetErrorName(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

struct Vectors {
  float *a, *b, *sum;
};

static Vectors allocate() {
  Vectors v;
  CHECK(cudaMalloc(&v.a, kCount * sizeof(float)));
  CHECK(cudaMalloc(&v.b, kCount * sizeof(float)));
  CHECK(cudaMalloc(&v.sum, kCount * sizeof(float)));
  return v;
}

int main() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  std::vector<Vectors> of(count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CHECK(cudaSetDevice(ordinal));
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, ordinal));
    std::vector<float> a(kCount), b(kCount), sum(kCount);
    for (int i = 0; i < kCount; ++i) {
      a[i] = 0.5f * i;
      b[i] = static_cast<float>(ordinal + 1);
    }
    const Vectors v = of[ordinal] = allocate();
    CHECK(cudaMemcpy(v.a, a.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(v.b, b.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    add<<<(kCount + 255) / 256, 256>>>(v.a, v.b, v.sum, kCount);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sum.data(), v.sum, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    bool right = true;
    for (int i = 0; i < kCount; ++i) right = right && sum[i] == a[i] + b[i];
    std::printf("CUDA %d: %s added, %s\n", ordinal, p.name, right ? "right" : "WRONG");
    if (!right) return 1;
  }

  CHECK(cudaSetDevice(0));
  size_t held = 0;
  void* step = nullptr;
  cudaError_t refused;
  while ((refused = cudaMalloc(&step, size_t{256} << 20)) == cudaSuccess) held += 256;
  std::printf("CUDA 0: held %zu MiB, then %s\n", held, cudaGetErrorName(refused));
  (void)cudaGetLastError();

  const Vectors first = of[0], last = of[count - 1];
  CHECK(cudaSetDevice(count - 1));
  add<<<1, 32>>>(first.a, last.b, last.sum, 32);
  const cudaError_t launched = cudaGetLastError();
  std::printf("CUDA %d with memory of CUDA 0: %s, %s\n", count - 1, cudaGetErrorName(launched),
              cudaGetErrorName(cudaDeviceSynchronize()));
  return 0;
}
