// Asks for what only a driver after our headers has.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

static const char* object_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return "nowhere";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}

int main() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto get = reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(driver, "cuGetProcAddress_v2"));
  CUdriverProcAddressQueryResult status;
  void* found = nullptr;
  if (get("cuQuantumLeap", &found, 14000, 0, &status) != CUDA_SUCCESS) return 1;
  std::printf("cuQuantumLeap for CUDA 14.0: in %s, answers %d\n", object_of(found),
              reinterpret_cast<int (*)(int)>(found)(1));
  for (int version : {13000, 14000}) {
    if (get("cuMemAlloc", &found, version, 0, &status) != CUDA_SUCCESS) return 1;
    std::printf("cuMemAlloc for CUDA %d.0: in %s\n", version / 1000, object_of(found));
  }
  return 0;
}
