// Finds the driver's entry points in the order of the genuine runtime: dlopen, a single dlsym of
// cuGetProcAddress_v2, the empty name at version 0, then each name at the version that leads to the wanted
// symbol. The table interpose/abi/driver_exports.inc says which version that is; nothing is guessed here.
#include "tests/sim/runtime/driver.h"

#include <dlfcn.h>

#include <string_view>

namespace gpufence::sim::runtime {
namespace {

struct Export {
  std::string_view symbol;
  const char* name;
  int version;
  bool per_thread;
};

constexpr Export kExports[] = {
#define GPUFENCE_DRIVER_EXPORT(symbol, name, version, per_thread) {#symbol, #name, version, per_thread != 0},
#include "interpose/abi/driver_exports.inc"
};

consteval Export request_for(std::string_view symbol) {
  for (const Export& known : kExports) {
    if (known.symbol == symbol) return known;
  }
  throw "the driver has no such export";  // reached only by the compiler, which then stops
}

void ask(decltype(&::cuGetProcAddress_v2) get, const Export& wanted, void** slot) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const cuuint64_t flags =
      wanted.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  if (get(wanted.name, slot, wanted.version, flags, &status) != CUDA_SUCCESS ||
      status != CU_GET_PROC_ADDRESS_SUCCESS) {
    *slot = nullptr;
  }
}

}  // namespace

cudaError_t find_driver(Driver& driver) {
  // Never closed: a driver's state, like the genuine one's, outlives exit().
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return cudaErrorInsufficientDriver;
  auto get = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return cudaErrorInsufficientDriver;

  void* nothing = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  get("", &nothing, 0, CU_GET_PROC_ADDRESS_DEFAULT, &status);  // an error is what is expected

  driver = Driver{};
#define GPUFENCE_RUNTIME_NEEDS(symbol)                           \
  {                                                              \
    static constexpr Export kWanted = request_for(#symbol);      \
    ask(get, kWanted, reinterpret_cast<void**>(&driver.symbol)); \
  }
#include "tests/sim/runtime/driver_entries.inc"
  return cudaSuccess;
}

bool complete(const Driver& driver) {
#define GPUFENCE_RUNTIME_NEEDS(symbol) \
  if (driver.symbol == nullptr) return false;
#include "tests/sim/runtime/driver_entries.inc"
  return true;
}

}  // namespace gpufence::sim::runtime
