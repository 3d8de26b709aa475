// GPUs in words.
#include "policies/gpu.h"

#include <gtest/gtest.h>

namespace gpufence::policies {
namespace {

TEST(Gpu, IsNamedInFullWhereAPersonReadsIt) {
  const Gpu gpu{.host_index = 3, .uuid = {}, .pci = "0000:81:00.0", .name = "NVIDIA H100 80GB HBM3"};
  EXPECT_EQ(full_name(1, gpu), "CUDA 1 = host GPU 3 (H100, 0000:81:00.0)");
  EXPECT_EQ(host_name(gpu), "host GPU 3 (H100, 0000:81:00.0)");
}

TEST(Gpu, ItsShortNameIsTheModel) {
  EXPECT_EQ(short_name("NVIDIA A100-SXM4-40GB"), "A100");
  EXPECT_EQ(short_name("NVIDIA H100 PCIe"), "H100");
  EXPECT_EQ(short_name("NVIDIA GH200 480GB"), "GH200");
  EXPECT_EQ(short_name("NVIDIA GeForce RTX 4090"), "RTX 4090");
  EXPECT_EQ(short_name("Tesla V100-SXM2-16GB"), "V100");
  EXPECT_EQ(short_name("Tesla T4"), "T4");
  EXPECT_EQ(short_name("NVIDIA L40S"), "L40S");
  EXPECT_EQ(short_name("Quadro RTX 8000"), "Quadro RTX 8000");
  EXPECT_EQ(short_name("Simulated GPU"), "Simulated GPU");
  EXPECT_EQ(short_name(""), "");
}

}  // namespace
}  // namespace gpufence::policies
