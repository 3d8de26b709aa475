// From what a program hands in as code to a module for one kind of GPU. Knows no device and no context, so
// that what will not run can be told of before a program starts (tests/sim/check).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "cuda_abi.h"
#include "fatbin.h"
#include "ptx/module.h"

namespace gpufence::sim {

struct NoCode {
  CUresult answer = CUDA_ERROR_INVALID_PTX;  // of the driver
  std::string log;                           // what ptxas would have said
  std::string told;  // of GF601: why the simulator is to blame, or what is missing for this GPU; or empty
};

// Chooses, unpacks, reads and links the PTX for a GPU. `capability`: 75 for 7.5; `driver_version`: as
// cuDriverGetVersion tells it.
[[nodiscard]] tl::expected<std::shared_ptr<const ptx::Module>, NoCode> compile_for(const CodeImage& image,
                                                                                   uint32_t capability,
                                                                                   int driver_version);

// An error of PTX as the driver's compiler words it, for JIT logs.
[[nodiscard]] std::string ptxas_says(const ptx::Error& error);

}  // namespace gpufence::sim
