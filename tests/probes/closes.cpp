// Opens the driver, uses it, closes it and opens it again, three times over, as plug-ins do that come and go.
#include <dlfcn.h>

#include <cstdio>

constexpr size_t kMiB = size_t{1} << 20;

int main() {
  for (int round = 0; round < 3; ++round) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
    int gpus = -1;
    void* context = nullptr;
    unsigned long long memory = 0;
    int result = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0);
    if (result == 0) result = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"))(&gpus);
    if (result == 0)
      result = reinterpret_cast<int (*)(void**, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
    if (result == 0) result = reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuCtxSetCurrent"))(context);
    if (result == 0)
      result = reinterpret_cast<int (*)(unsigned long long*, size_t)>(dlsym(driver, "cuMemAlloc_v2"))(
          &memory, 400 * kMiB);
    std::printf("GPUs: %d, 400 MiB: %d\n", gpus, result);
    dlclose(driver);
  }
  return 0;
}
