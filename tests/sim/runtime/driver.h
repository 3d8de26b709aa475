// The way from the stand-in runtime to the driver, walked as the genuine runtime walks it: one dlopen, one
// dlsym, then every entry point through the pointer that gave. Whoever stands between (the fence) is met here
// and nowhere else; no libcuda symbol is linked.
#pragma once
#include "tests/sim/runtime/api.h"

namespace gpufence::sim::runtime {

struct Driver {
#define GPUFENCE_RUNTIME_NEEDS(symbol) decltype(&::symbol) symbol;
#include "tests/sim/runtime/driver_entries.inc"
};

// Fills `driver`; calls nothing of it yet. cudaErrorInsufficientDriver (35) where there is no libcuda.so.1 or
// it has no cuGetProcAddress_v2. Entry points that the driver does not know stay null.
cudaError_t find_driver(Driver& driver);

// True if every entry point was found.
bool complete(const Driver& driver);

}  // namespace gpufence::sim::runtime
