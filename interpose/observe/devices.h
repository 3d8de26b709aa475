// The GPUs that this process sees, as the driver told them after cuInit: what every message and every cap is
// about. Immutable once built; position = CUDA ordinal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpufence::observe {

struct Device {
  int ordinal = 0;
  int host_index = -1;  // what nvidia-smi shows; -1: not known in this process
  std::string uuid;     // "GPU-…"
  std::string pci;      // "0000:81:00.0"
  std::string name;
  std::uint64_t total = 0;  // bytes, the card's
};

// "GPU-8f3a0102-…" of a driver's 16 bytes.
[[nodiscard]] std::string uuid_text(const unsigned char (&bytes)[16]);

// "CUDA 1 = host GPU 3", "2 GPUs visible: CUDA 0 = host GPU 2, CUDA 1 = host GPU 0": the list that findings
// quote.
[[nodiscard]] std::string list_text(std::span<const Device> devices);

}  // namespace gpufence::observe
