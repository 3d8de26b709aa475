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

TEST(Call, WhatCompilersMakeOfANameIsNotShown) {
  EXPECT_EQ(api_text({"__cudaLaunchKernel", nullptr}), "cudaLaunchKernel");
  EXPECT_EQ(api_text({"__cudaLaunchKernel_ptsz", nullptr}), "cudaLaunchKernel");
  EXPECT_EQ(api_text({"cudaMemset_ptds", nullptr}), "cudaMemset");
  EXPECT_EQ(api_text({"cuMemcpyDtoD_v2_ptds", nullptr}), "cuMemcpyDtoD");
}

TEST(Call, AKernelIsNamedAsItsAuthorWroteIt) {
  EXPECT_EQ(kernel_text("saxpy"), "saxpy");
  EXPECT_EQ(kernel_text("_Z5saxpyPff"), "saxpy");
  EXPECT_EQ(kernel_text("_Z5scaleIfEvPT_"), "scale<float>");
  EXPECT_EQ(kernel_text("_ZN4mine5applyIPFffEEEvT_Pf"), "mine::apply<float (*)(float)>");
  EXPECT_EQ(kernel_text("_ZN12_GLOBAL__N_14fillEPi"), "(anonymous namespace)::fill");
}

TEST(Call, APlaceIsAnObjectAnOffsetAndItsBuild) {
  const gpufence::journal::Site site = site_of(reinterpret_cast<const void*>(&uuid_text));
  EXPECT_EQ(site.object, "interpose_test");
  EXPECT_GT(site.offset, 0u);
  EXPECT_EQ(site.build_id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(site_of(nullptr).object, "");
}

TEST(Call, ACudaLibraryIsNotThePlace) {
  int here = 0;
  EXPECT_EQ(outside_cuda({"cuLaunchKernel", &here}).caller, &here);
}
