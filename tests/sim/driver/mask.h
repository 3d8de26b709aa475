// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the driver reads them at cuInit (NVIDIA's programming guide,
// "CUDA Environment Variables"): pure, from text to host indices.
#pragma once
#include <vector>

#include "machine.h"

namespace gpufence::sim {

// Units (machine.h) by ordinal: GPUs by their host index, or one instance of a split GPU. mask: nullptr if
// unset; order: nullptr if unset.
std::vector<size_t> visible_gpus(const Machine& machine, const char* mask, const char* order);

}  // namespace gpufence::sim
