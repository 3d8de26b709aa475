// How many blocks of a kernel a simulated multiprocessor holds, and what a kernel is told of its GPU.
#pragma once
#include "driver.h"
#include "ptx/run.h"

namespace gpufence::sim {

ptx::DeviceTraits traits_of(const Device& device);
// 0: not one fits.
uint32_t blocks_resident(const ptx::Function& code, unsigned threads, size_t dynamic_shared,
                         const Device& device);

}  // namespace gpufence::sim
