// Names and places, as findings quote them.
#include <gtest/gtest.h>

#include <thread>

#include "observe/call.h"
#include "observe/devices.h"

using namespace gpufence::observe;

TEST(Devices, AUuidIsWrittenAsNvidiaSmiWritesIt) {
  const unsigned char bytes[16] = {0x8f, 0x3a, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
                                   0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0xff};
  EXPECT_EQ(uuid_text(bytes), "GPU-8f3a0102-0304-0506-0708-090a0b0c0dff");
}

TEST(Devices, TheListNamesOrdinalAndHostGpu) {
  EXPECT_EQ(list_text({}), "0 GPUs visible");
  const Device one{0, 2, "", "", "", 0};
  EXPECT_EQ(list_text({&one, 1}), "1 GPU visible: CUDA 0 = host GPU 2");
  const Device two[] = {{0, 2, "", "", "", 0}, {1, -1, "", "", "", 0}};
  EXPECT_EQ(list_text(two), "2 GPUs visible: CUDA 0 = host GPU 2, CUDA 1");
}

TEST(Call, TheRuntimeCallThatAThreadIsInNamesWhatTheDriverHooksFind) {
  int here = 0, deeper = 0;
  EXPECT_STREQ(current("cuMemAlloc", &here).api, "cuMemAlloc");
  {
    const InCall outer("cudaMalloc", &here);
    const InCall inner("cudaFree", &deeper);
    EXPECT_STREQ(current("cuMemAlloc", nullptr).api, "cudaMalloc");
    EXPECT_EQ(current("cuMemAlloc", nullptr).caller, &here);
    std::thread([] { EXPECT_STREQ(current("cuMemAlloc", nullptr).api, "cuMemAlloc"); }).join();
  }
  EXPECT_STREQ(current("cuMemAlloc", &here).api, "cuMemAlloc");
}

TEST(Call, AVersionSuffixIsNotShown) {
  EXPECT_EQ(text({"cuMemAlloc_v2", nullptr}), "cuMemAlloc at an unknown place");
  EXPECT_EQ(text({"cudaMalloc", nullptr}), "cudaMalloc at an unknown place");
}
