// The machine of these tests, as NVML and the driver tell it: the fastest card is not the first.
#pragma once

namespace standin {

struct Gpu {
  const char* uuid;
  const char* name;
  unsigned bus;
  unsigned long long gibibytes;
  int major, minor;
};

inline constexpr Gpu kGpus[4] = {
    {"GPU-a0000000-0000-0000-0000-000000000000", "Tesla T4", 0x01, 16, 7, 5},
    {"GPU-a1000000-0000-0000-0000-000000000000", "NVIDIA A100-SXM4-40GB", 0x25, 40, 8, 0},
    {"GPU-b2000000-0000-0000-0000-000000000000", "NVIDIA H100 80GB HBM3", 0x81, 80, 9, 0},
    {"GPU-b3000000-0000-0000-0000-000000000000", "NVIDIA H100 80GB HBM3", 0xc1, 80, 9, 0},
};

inline constexpr int kFastestFirst[4] = {2, 3, 1, 0};

}  // namespace standin
