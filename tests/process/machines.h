// The machine that most process tests use: four GPUs that differ in everything, and whose order for CUDA is
// not their order on the bus, so that a test cannot be right by chance.
#pragma once
#include "harness.h"

namespace gpufence::harness {

inline constexpr const char* kUuid0 = "GPU-0a0a0a0a-1111-4222-8333-444444444440";
inline constexpr const char* kUuid1 = "GPU-1b1b1b1b-1111-4222-8333-444444444441";
inline constexpr const char* kUuid2 = "GPU-2c2c2c2c-1111-4222-8333-444444444442";
inline constexpr const char* kUuid3 = "GPU-3d3d3d3d-1111-4222-8333-444444444443";

// A context costs 64 MiB on each, so 4, 3, 2 and 1 GiB have room for 15, 11, 7 and 3 blocks of 256 MiB.
struct FourGpus : Machine {
  FourGpus() {
    add_gpu({.name = "Alpha",
             .memory = 4_GiB,
             .uuid = kUuid0,
             .pci = "0000:01:00.0",
             .context = 64_MiB,
             .fastest_rank = 3});
    add_gpu({.name = "Beta",
             .memory = 3_GiB,
             .uuid = kUuid1,
             .pci = "0000:41:00.0",
             .context = 64_MiB,
             .fastest_rank = 2});
    add_gpu({.name = "Gamma",
             .memory = 2_GiB,
             .uuid = kUuid2,
             .pci = "0000:81:00.0",
             .context = 64_MiB,
             .fastest_rank = 1});
    add_gpu({.name = "Delta",
             .memory = 1_GiB,
             .uuid = kUuid3,
             .pci = "0000:c1:00.0",
             .context = 64_MiB,
             .fastest_rank = 0});
  }
};

// A cap, a report and all findings want every hook that there is.
inline With everything_bound() {
  return {.devices = "0",
          .gpu_mem = "1GiB",
          .options = {"-q", "--report-file", "/dev/null", "--diagnose", "all"}};
}

}  // namespace gpufence::harness
