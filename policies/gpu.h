// A physical GPU as policies see it, and how it is named where a person reads it. The identity is the UUID:
// host indices change with a reboot, ordinals with every mask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpufence::policies {

struct Gpu {
  int host_index = 0;        // NVML's index, what nvidia-smi shows on the host
  std::string uuid;          // "GPU-" and 32 hex digits with dashes
  std::string pci;           // "0000:81:00.0", lower case
  std::string name;          // "NVIDIA H100 80GB HBM3", as the driver says it
  std::uint64_t memory = 0;  // bytes, the card's total
  int cc_major = 0;          // compute capability
  int cc_minor = 0;
  int numa = -1;  // -1: unknown
};

// "NVIDIA H100 80GB HBM3" → "H100", "NVIDIA GeForce RTX 4090" → "RTX 4090".
[[nodiscard]] std::string short_name(std::string_view name);

// "host GPU 3 (H100, 0000:81:00.0)"
[[nodiscard]] std::string host_name(const Gpu& gpu);

// "CUDA 1 = host GPU 3 (H100, 0000:81:00.0)"
[[nodiscard]] std::string full_name(int ordinal, const Gpu& gpu);

}  // namespace gpufence::policies
