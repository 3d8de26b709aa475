// vectors.cu by the driver API, linked with -lcuda: the same lines, CUDA_ERROR_… for cudaError….
// Usage: vectors_driver [LIMIT_MIB]
#include <cstdint>
#include <vector>

#include "check.h"

constexpr size_t kStepMiB = 256;

static void introduce(int ordinal) {
  CUdevice device;
  CHECK(cuDeviceGet(&device, ordinal));
  char name[256];
  CHECK(cuDeviceGetName(name, sizeof name, device));
  CUuuid uuid;
  CHECK(cuDeviceGetUuid(&uuid, device));
  char pci[32];
  CHECK(cuDeviceGetPCIBusId(pci, sizeof pci, device));
  size_t total = 0;
  CHECK(cuDeviceTotalMem(&total, device));
  const auto* u = reinterpret_cast<const unsigned char*>(uuid.bytes);
  std::printf(
      "CUDA %d: %s, GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x, %s, %zu MiB\n",
      ordinal, name, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
      u[14], u[15], pci, total / kMiB);
}

static void there_and_back(int ordinal) {
  CUdevice device;
  CHECK(cuDeviceGet(&device, ordinal));
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, device));
  std::vector<int> sent(4 * kMiB / sizeof(int)), back(sent.size(), -1);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i) * 7 + ordinal;
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, sent.size() * sizeof(int)));
  CHECK(cuMemcpyHtoD(memory, sent.data(), sent.size() * sizeof(int)));
  CHECK(cuMemcpyDtoH(back.data(), memory, back.size() * sizeof(int)));
  CHECK(cuMemFree(memory));
  CHECK(cuCtxDestroy(context));
  std::printf("CUDA %d: 4 MiB sent and fetched, %s\n", ordinal, sent == back ? "right" : "WRONG");
  if (sent != back) std::exit(1);
}

int main(int argc, char** argv) {
  const size_t limit = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : SIZE_MAX;
  const char* mask = std::getenv("CUDA_VISIBLE_DEVICES");
  std::printf(mask ? "CUDA_VISIBLE_DEVICES is %s\n" : "CUDA_VISIBLE_DEVICES is not set\n", mask);

  CHECK(cuInit(0));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  std::printf("GPUs: %d\n", count);
  for (int ordinal = 0; ordinal < count; ++ordinal) introduce(ordinal);
  for (int ordinal = 0; ordinal < count; ++ordinal) there_and_back(ordinal);

  CUdevice first;
  CHECK(cuDeviceGet(&first, 0));
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, first));
  std::vector<CUdeviceptr> held;
  CUresult refused = CUDA_SUCCESS;
  while (refused == CUDA_SUCCESS && held.size() * kStepMiB < limit) {
    CUdeviceptr step = 0;
    refused = cuMemAlloc(&step, kStepMiB * kMiB);
    if (refused == CUDA_SUCCESS) held.push_back(step);
  }
  std::printf("CUDA 0: held %zu MiB, then %s\n", held.size() * kStepMiB,
              refused == CUDA_SUCCESS ? "stopped at the limit" : name_of(refused));
  for (CUdeviceptr step : held) CHECK(cuMemFree(step));

  CUdeviceptr again = 0;
  CHECK(cuMemAlloc(&again, kStepMiB * kMiB));
  CHECK(cuMemFree(again));
  CHECK(cuCtxDestroy(context));
  std::printf("CUDA 0: gave it back and got 256 MiB again\ndone\n");
  return 0;
}
