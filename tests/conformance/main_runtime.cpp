// The checks of the runtime API: conform.h says what a check is.
#include "runtime.h"

int main(int argc, char** argv) {
  return conform::main(argc, argv, []() -> std::string {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) return "";
    return std::string("no GPU: cudaGetDeviceCount answers ") + cudaGetErrorName(error);
  });
}
