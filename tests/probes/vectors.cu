// An ordinary CUDA program: lists its GPUs, sends a vector to each and checks what comes back, then takes
// memory on CUDA 0 step by step until CUDA refuses (or until the optional limit in MiB), gives it back and
// takes some again. It knows nothing of any fence. Usage: vectors [LIMIT_MIB]
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kStepMiB = 256;

static void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s (%s)\n", call, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

static void introduce(int ordinal) {
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, ordinal));
  const auto* u = reinterpret_cast<const unsigned char*>(p.uuid.bytes);
  std::printf(
      "CUDA %d: %s, GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x, "
      "%04x:%02x:%02x.0, %zu MiB\n",
      ordinal, p.name, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
      u[14], u[15], p.pciDomainID, p.pciBusID, p.pciDeviceID, p.totalGlobalMem / kMiB);
}

static void there_and_back(int ordinal) {
  CHECK(cudaSetDevice(ordinal));
  std::vector<int> sent(4 * kMiB / sizeof(int)), back(sent.size(), -1);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i) * 7 + ordinal;
  int* device = nullptr;
  CHECK(cudaMalloc(&device, sent.size() * sizeof(int)));
  CHECK(cudaMemcpy(device, sent.data(), sent.size() * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(back.data(), device, back.size() * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  std::printf("CUDA %d: 4 MiB sent and fetched, %s\n", ordinal, sent == back ? "right" : "WRONG");
  if (sent != back) std::exit(1);
}

int main(int argc, char** argv) {
  const size_t limit = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : SIZE_MAX;
  const char* mask = std::getenv("CUDA_VISIBLE_DEVICES");
  std::printf(mask ? "CUDA_VISIBLE_DEVICES is %s\n" : "CUDA_VISIBLE_DEVICES is not set\n", mask);

  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  std::printf("GPUs: %d\n", count);
  for (int ordinal = 0; ordinal < count; ++ordinal) introduce(ordinal);
  for (int ordinal = 0; ordinal < count; ++ordinal) there_and_back(ordinal);

  CHECK(cudaSetDevice(0));
  std::vector<void*> held;
  cudaError_t refused = cudaSuccess;
  while (refused == cudaSuccess && held.size() * kStepMiB < limit) {
    void* step = nullptr;
    refused = cudaMalloc(&step, kStepMiB * kMiB);
    if (refused == cudaSuccess) held.push_back(step);
  }
  std::printf("CUDA 0: held %zu MiB, then %s\n", held.size() * kStepMiB,
              refused == cudaSuccess ? "stopped at the limit" : cudaGetErrorName(refused));
  for (void* step : held) CHECK(cudaFree(step));

  void* again = nullptr;
  CHECK(cudaMalloc(&again, kStepMiB * kMiB));
  CHECK(cudaFree(again));
  std::printf("CUDA 0: gave it back and got 256 MiB again\ndone\n");
  return 0;
}
