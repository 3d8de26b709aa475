// Programs with kernels, as nvcc compiled them, on the simulated machine: right results on the right GPU,
// with and without a view and a cap, and what a program is told where a kernel can't run.
#include <gtest/gtest.h>

#include "machines.h"

namespace gpufence::harness {
namespace {

const With kPciOrder = {.env = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}};

class EveryKernelWay : public testing::TestWithParam<const char*> {
 protected:
  bool runtime() const { return std::string_view(GetParam()) != "adds_driver"; }
  std::string out_of_memory() const {
    return runtime() ? "cudaErrorMemoryAllocation" : "CUDA_ERROR_OUT_OF_MEMORY";
  }
  std::string fault() const {
    return runtime() ? "cudaSuccess, cudaErrorIllegalAddress" : "CUDA_SUCCESS, CUDA_ERROR_ILLEGAL_ADDRESS";
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernelWay,
                         testing::Values("adds_shared", "adds_static", "adds_driver"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(EveryKernelWay, RunsOnTheGpuThatItWasSentTo) {
  FourGpus m;
  const Result r = m.run_unfenced({probe(GetParam())}, kPciOrder);
  EXPECT_EQ(r.out,
            "CUDA 0: Alpha added, right\nCUDA 1: Beta added, right\nCUDA 2: Gamma added, right\n"
            "CUDA 3: Delta added, right\nCUDA 0: held 3840 MiB, then " +
                out_of_memory() + "\nCUDA 3 with memory of CUDA 0: " + fault() + "\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

TEST_P(EveryKernelWay, RunsUnderViewAndCap) {
  FourGpus m;
  const Result r = m.run({probe(GetParam())}, {.devices = "2,1", .gpu_mem = "1GiB"});
  EXPECT_EQ(r.out, "CUDA 0: Gamma added, right\nCUDA 1: Beta added, right\nCUDA 0: held 768 MiB, then " +
                       out_of_memory() + "\nCUDA 1 with memory of CUDA 0: " + fault() + "\n");
  EXPECT_EQ(r.exit, 0);
}

class EveryFatbin : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryFatbin,
                         testing::Values("kernel_shared", "kernel_static", "kernel_none", "kernel_speed",
                                         "kernel_size", "kernel_several"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(EveryFatbin, LaunchesAndIsRight) {
  FourGpus m;
  const Result r = m.run_unfenced({probe(GetParam())});
  EXPECT_EQ(r.out, "launch: cudaSuccess\nright\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
  EXPECT_EQ(r.called("cuLibraryLoadData"), 1);
  EXPECT_EQ(r.called("cuLibraryGetKernel"), 1);
  EXPECT_EQ(r.called("cuLaunchKernel"), 3);
}

TEST(Kernels, WithoutPtxAreRefusedAndSaidSo) {
  Machine m;
  m.add_gpu({.compute_capability = "9.0"});
  Process running = m.start_unfenced({probe("kernel_cubin")});
  const std::string pid = std::to_string(running.pid());
  const Result r = running.wait();
  EXPECT_EQ(r.out, "launch: cudaErrorNoKernelImageForDevice\n");
  EXPECT_EQ(r.err,
            "gpufence[" + pid +
                "] GF601 warning: kernel module has no PTX: only code for sm_80; compile with -gencode "
                "arch=compute_90,code=compute_90\n");
  EXPECT_EQ(r.exit, 0);
}

TEST(Kernels, NewerThanTheGpuAreRefused) {
  Machine m;
  m.add_gpu({.compute_capability = "7.0"});
  const Result r = m.run_unfenced({probe("kernel_shared")});
  EXPECT_EQ(r.out, "launch: cudaErrorNoKernelImageForDevice\n");
  EXPECT_TRUE(r.complains("kernel module has no PTX for compute capability 7.0: only compute_75")) << r.err;
}

TEST(Kernels, OfRelocatableObjectsAreLinked) {
  FourGpus m;
  for (const char* program : {"parts_shared", "parts_static"}) {
    const Result r = m.run_unfenced({probe(program)});
    EXPECT_EQ(r.out, "launch: cudaSuccess\n13 23 213 3013, 2010, 105 calls\n") << program;
    EXPECT_EQ(r.err, "");
  }
}

TEST(Kernels, ReadTexturesAndWriteSurfaces) {
  FourGpus m;
  for (const char* program : {"textures_shared", "textures_static"}) {
    const Result r = m.run_unfenced({probe(program)});
    EXPECT_EQ(r.out,
              "tex1Dfetch: right\ntex1D: right\ntex2D: right\ntex3D: right\nwrap: right\nmirror: right\n"
              "clamp: right\nborder: right\nformats: right\nlayers: right\ncubemaps: right\nmipmaps: right\n"
              "mipmaps of layers: right\n"
              "gather: right\nsurfaces in place: right\nsurfaces: right\n")
        << program;
    EXPECT_EQ(r.err, "");
    EXPECT_EQ(r.exit, 0);
  }
}

TEST(Kernels, ComputeInMemoryOfAnotherProcess) {
  FourGpus m;
  for (const char* program : {"shares_shared", "shares_static"}) {
    const Result r = m.run_unfenced({probe(program)});
    EXPECT_EQ(r.out, "producer: right\nconsumer: right\n") << program;
    EXPECT_EQ(r.err, "");
    EXPECT_EQ(r.exit, 0);
    // Under the fence too, which sees the calls of both.
    EXPECT_EQ(m.run({probe(program)}).out, "producer: right\nconsumer: right\n") << program;
  }
}

TEST(Kernels, HaveWhatCudaOffersThem) {
  FourGpus m;
  for (const char* program : {"features_shared", "features_debug"}) {
    const Result r = m.run_unfenced({probe(program)});
    EXPECT_EQ(r.out,
              "templates: right\nstructs: right\nconstants: right\ndevice globals: right\nmanaged: right\n"
              "dynamic shared: right\nlambdas: right\n"
              "thread 0 of two: 0.00 x 1099511627776%\nthread 1 of two: 0.50 x 1099511627776%\n"
              "prints: right\nmallocs: right\ncooperative: right\nrefusals: right\nattributes: right\n"
              "configured: right\n")
        << program;
    EXPECT_EQ(r.err, "");
    EXPECT_EQ(r.exit, 0);
  }
}

struct FaultCase {
  const char* name;
  const char* error;
};
class EveryFault : public testing::TestWithParam<FaultCase> {};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryFault,
                         testing::Values(FaultCase{"illegal", "cudaErrorIllegalAddress"},
                                         FaultCase{"host", "cudaErrorIllegalAddress"},
                                         FaultCase{"misaligned", "cudaErrorMisalignedAddress"},
                                         FaultCase{"trap", "cudaErrorLaunchFailure"},
                                         FaultCase{"assert", "cudaErrorAssert"}),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST_P(EveryFault, IsToldAtTheNextSynchronisationAndStays) {
  FourGpus m;
  const Result r = m.run_unfenced({probe("features_shared"), GetParam().name});
  const std::string error = GetParam().error;
  EXPECT_EQ(r.out, "launch: cudaSuccess\nsynchronize: " + error + "\nfree: " + error + "\n");
  if (error != "cudaErrorAssert") {
    EXPECT_EQ(r.err, "");
    return;
  }
  EXPECT_TRUE(r.complains("features.cu:")) << r.err;
  EXPECT_TRUE(
      r.complains(": void asserts(int): block: [0,0,0], thread: [1,0,0] Assertion `threadIdx.x < n` failed."))
      << r.err;
}

}  // namespace
}  // namespace gpufence::harness
