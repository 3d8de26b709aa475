// The checks of the driver API: conform.h says what a check is.
#include "driver.h"

int main(int argc, char** argv) {
  return conform::main(argc, argv, []() -> std::string {
    int count = 0;
    const CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0) return "";
    const char* name = nullptr;
    cuGetErrorName(result, &name);
    return "no GPU: cuInit answers " + std::string(name == nullptr ? "?" : name);
  });
}
