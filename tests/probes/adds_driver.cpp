// adds.cu by the driver API: the same lines, with the kernel from adds.ptx beside the program.
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "check.h"

constexpr int kCount = 100'000;

struct Gpu {
  CUcontext context;
  CUfunction add;
  CUdeviceptr a, b, sum;
};

static std::string ptx() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string name(path, length > 0 ? static_cast<size_t>(length) : 0);
  name.replace(name.find_last_of('/') + 1, std::string::npos, "adds.ptx");
  std::ifstream file(name);
  return {std::istreambuf_iterator<char>(file), {}};
}

static CUresult launch(const Gpu& gpu, CUdeviceptr a, CUdeviceptr b, CUdeviceptr sum, int n) {
  void* params[] = {&a, &b, &sum, &n};
  return cuLaunchKernel(gpu.add, static_cast<unsigned>(n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, params,
                        nullptr);
}

int main() {
  CHECK(cuInit(0));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  const std::string code = ptx();
  std::vector<Gpu> of(static_cast<size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Gpu& gpu = of[static_cast<size_t>(ordinal)];
    CUdevice device;
    CHECK(cuDeviceGet(&device, ordinal));
    char name[256];
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuCtxCreate(&gpu.context, nullptr, 0, device));
    CUmodule module;
    CHECK(cuModuleLoadData(&module, code.c_str()));
    CHECK(cuModuleGetFunction(&gpu.add, module, "add"));
    std::vector<float> a(kCount), b(kCount), sum(kCount);
    for (int i = 0; i < kCount; ++i) {
      a[static_cast<size_t>(i)] = 0.5f * static_cast<float>(i);
      b[static_cast<size_t>(i)] = static_cast<float>(ordinal + 1);
    }
    for (CUdeviceptr* vector : {&gpu.a, &gpu.b, &gpu.sum}) CHECK(cuMemAlloc(vector, kCount * sizeof(float)));
    CHECK(cuMemcpyHtoD(gpu.a, a.data(), kCount * sizeof(float)));
    CHECK(cuMemcpyHtoD(gpu.b, b.data(), kCount * sizeof(float)));
    CHECK(launch(gpu, gpu.a, gpu.b, gpu.sum, kCount));
    CHECK(cuMemcpyDtoH(sum.data(), gpu.sum, kCount * sizeof(float)));
    bool right = true;
    for (size_t i = 0; i < kCount; ++i) right = right && sum[i] == a[i] + b[i];
    std::printf("CUDA %d: %s added, %s\n", ordinal, name, right ? "right" : "WRONG");
    if (!right) return 1;
  }

  CHECK(cuCtxSetCurrent(of[0].context));
  size_t held = 0;
  CUdeviceptr step;
  CUresult refused;
  while ((refused = cuMemAlloc(&step, 256 * kMiB)) == CUDA_SUCCESS) held += 256;
  std::printf("CUDA 0: held %zu MiB, then %s\n", held, name_of(refused));

  const Gpu &first = of.front(), &last = of.back();
  CHECK(cuCtxSetCurrent(last.context));
  const CUresult launched = launch(last, first.a, last.b, last.sum, 32);
  std::printf("CUDA %d with memory of CUDA 0: %s, %s\n", count - 1, name_of(launched),
              name_of(cuCtxSynchronize()));
  return 0;
}
