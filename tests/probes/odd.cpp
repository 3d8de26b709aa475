// Programs that do odd but legal things before or around CUDA. Usage: odd pitch | clears | dlmopen | hides
// | ignores | bare
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.h"

// Rows of one byte: what the driver rounds up is many times what was asked for.
static int pitch() {
  CHECK(cuInit(0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr pointer = 42;
  size_t row = 43;
  const CUresult large = cuMemAllocPitch(&pointer, &row, 1, 1 << 20, 4);
  std::printf("1 x 1 Mi: %s, pointer %llu, pitch %zu\n", name_of(large), pointer, row);
  for (int i = 0; i < 3; ++i) {
    CHECK(cuMemAllocPitch(&pointer, &row, 1, 16, 4));
    CHECK(cuMemFree(pointer));
  }
  std::printf("1 x 16: pitch %zu\n", row);
  return 0;
}

// Daemons and sandboxes throw their environment away; the simulated machine alone is put back.
static int clears() {
  const std::string machine = std::getenv("GPUFENCE_SIM"), state = std::getenv("GPUFENCE_SIM_DIR");
  clearenv();
  setenv("GPUFENCE_SIM", machine.c_str(), 1);
  setenv("GPUFENCE_SIM_DIR", state.c_str(), 1);
  CHECK(cuInit(0));
  int count = 0;
  CHECK(cuDeviceGetCount(&count));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr pointer;
  const CUresult result = cuMemAlloc(&pointer, 800 * kMiB);
  std::printf("GPUs: %d, 800 MiB: %s\n", count, name_of(result));
  return 0;
}

static int second_namespace() {
  void* driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto init = reinterpret_cast<CUresult (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<CUresult (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int gpus = -1;
  const CUresult first = init(0), second = count(&gpus);
  std::printf("cuInit %d, cuDeviceGetCount %d, GPUs: %d\n", first, second, gpus);
  std::fflush(stdout);  // two C libraries are about to be torn down
  return 0;
}

// Uses a driver in a namespace of its own, until its standard input ends; with a second one in its own.
static int hides(bool both) {
  void* hidden = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
  void* plain = both ? dlopen("libcuda.so.1", RTLD_NOW) : nullptr;
  for (void* driver : {hidden, plain})
    if (driver != nullptr)
      std::printf("cuInit %d\n", reinterpret_cast<CUresult (*)(unsigned)>(dlsym(driver, "cuInit"))(0));
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  _exit(0);  // two C libraries are about to be torn down
}

// Goes on whatever cuInit said.
static int ignores() {
  CUcontext context = nullptr;
  std::printf("cuInit %d, ", cuInit(0));
  std::printf("cuDevicePrimaryCtxRetain %d, ", cuDevicePrimaryCtxRetain(&context, 0));
  if (context != nullptr) cuCtxSetCurrent(context);
  std::printf("cuCtxCreate %d, ", cuCtxCreate(&context, nullptr, 0, 0));
  CUdeviceptr memory = 0;
  const CUresult result = cuMemAlloc(&memory, 128 * kMiB);
  std::printf("128 MiB: %s\n", result == CUDA_SUCCESS ? "0" : "not 0");
  return 0;
}

static int without_environment() {
  clearenv();
  const CUresult result = cuInit(0);
  std::printf("cuInit %d, environ %s\n", result, environ == nullptr ? "null" : *environ);
  return 0;
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "pitch") return pitch();
  if (what == "clears") return clears();
  if (what == "dlmopen") return second_namespace();
  if (what == "hides") return hides(argc > 2);
  if (what == "ignores") return ignores();
  if (what == "bare") return without_environment();
  return 2;
}
