// A process with two drivers: the machine's, and another file that is opened by its path, as programs do that
// bring a compatibility package. Usage: second_driver PATH
#include <dlfcn.h>

#include <cstdio>

constexpr size_t kMiB = size_t{1} << 20;

struct Driver {
  void* handle;
  template <class F>
  F find(const char* name) const {
    return reinterpret_cast<F>(dlsym(handle, name));
  }
};

static void use(const char* which, const char* path) {
  const Driver driver{dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (driver.handle == nullptr) {
    std::printf("%s: %s\n", which, dlerror());
    return;
  }
  int gpus = -1, result = driver.find<int (*)(unsigned)>("cuInit")(0);
  if (result == 0) result = driver.find<int (*)(int*)>("cuDeviceGetCount")(&gpus);
  void* context = nullptr;
  if (result == 0) result = driver.find<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0);
  if (result == 0) result = driver.find<int (*)(void*)>("cuCtxSetCurrent")(context);
  size_t held = 0;
  const auto allocate = driver.find<int (*)(unsigned long long*, size_t)>("cuMemAlloc_v2");
  if (result == 0) {
    for (unsigned long long memory; (result = allocate(&memory, 256 * kMiB)) == 0;) held += 256;
  }
  std::printf("%s: GPUs %d, held %zu MiB, then %d\n", which, gpus, held, result);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  use("the machine's", "libcuda.so.1");
  use("another", argv[1]);
  return 0;
}
