// `gpufence hooks`, on the core as it was built.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness.h"

namespace gpufence::harness {
namespace {

TEST(Hooks, SayWhenAnEntryIsHookedOrWhyNot) {
  Machine m;
  const Result r = m.gpufence({"hooks", "cuInit", "cuDeviceGet", "cuMemAlloc_v2", "cuDeviceGetCount",
                               "cuMemcpyHtoA_v2", "cuLaunchKernel", "cuCtxSynchronize"});
  EXPECT_EQ(r.out,
            "libcuda.so.1 of CUDA 13.0: 5 hooked, 1 left alone, 1 passed through\n"
            "cuCtxSynchronize  hooked under a cap, with a report or for findings at level all (context)\n"
            "cuDeviceGet       hooked for findings or with --remap (device)\n"
            "cuDeviceGetCount  left alone: never altered, the runtime checks it: the view is a mask\n"
            "cuInit            hooked always (init)\n"
            "cuLaunchKernel    hooked with a report or for findings (launch)\n"
            "cuMemAlloc_v2     hooked under a cap or with a report (memory)\n"
            "cuMemcpyHtoA_v2   passed through: copies or fills memory\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.exit, 0);
}

TEST(Hooks, OfTheRuntimeNameTheVersionThatAloneHasThem) {
  Machine m;
  EXPECT_EQ(m.gpufence({"hooks", "cudaGetDeviceProp*", "cudaMemcpyToSymbol"}).out,
            "libcudart.so.11.0, .12 and .13: 2 hooked, 0 left alone, 1 passed through\n"
            "cudaGetDeviceProperties     hooked always (runtime)\n"
            "cudaGetDeviceProperties_v2  hooked always (runtime), of CUDA 12 alone\n"
            "cudaMemcpyToSymbol          passed through: what it asks of the driver is met there\n");
}

TEST(Hooks, OfOrdinalsAreThereWithARemap) {
  Machine m;
  EXPECT_EQ(
      m.gpufence(
           {"hooks", "cudaMemAdvise*", "cudaPointerGetAttributes", "cudaStreamGetDevice", "cudaDeviceReset"})
          .out,
      "libcudart.so.11.0, .12 and .13: 4 hooked, 0 left alone, 1 passed through\n"
      "cudaDeviceReset           passed through: acts on the GPU that is current, and takes no ordinal\n"
      "cudaMemAdvise             hooked with --remap (remap)\n"
      "cudaMemAdvise_v2          hooked with --remap (remap), of CUDA 12 alone\n"
      "cudaPointerGetAttributes  hooked with --remap (remap)\n"
      "cudaStreamGetDevice       hooked with --remap (remap), of CUDA 12 and 13\n");
}

TEST(Hooks, NvmlIsHookedUnderACapAndInNumberingView) {
  Machine m;
  EXPECT_EQ(m.gpufence({"hooks", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo", "nvmlDeviceOnSameBoard",
                        "nvmlInit_v2"})
                .out,
            "libnvidia-ml.so.1: 2 hooked, 1 left alone, 1 passed through\n"
            "nvmlDeviceGetCount       hooked in numbering view (nvml)\n"
            "nvmlDeviceGetMemoryInfo  hooked under a cap (nvml)\n"
            "nvmlDeviceOnSameBoard    left alone: between two GPUs whose handles the program has\n"
            "nvmlInit_v2              passed through: starts, stops or explains the library\n");
}

TEST(Hooks, ANameThatNothingHasIsAnErrorAndANothing) {
  Machine m;
  const Result r = m.gpufence({"hooks", "cuInit", "cuFrob*"});
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err,
            "gpufence: cuFrob*: no entry point of CUDA or NVML has such a name; write an exported name, or "
            "'cuMem*'\n");
  EXPECT_EQ(r.exit, 1);
}

TEST(Hooks, AsJsonListEveryEntryPointOnceWithAReason) {
  Machine m;
  const auto out = nlohmann::json::parse(m.gpufence({"hooks", "--json"}).out);
  EXPECT_EQ(out.at("schema"), 1);
  EXPECT_EQ(out.at("cuda_version"), 13000);
  std::map<std::string, int> libraries;
  std::map<std::string, nlohmann::json> entries;
  for (const auto& entry : out.at("entries")) {
    const std::string library = entry.at("library"), name = entry.at("name"), state = entry.at("state");
    ++libraries[library];
    EXPECT_TRUE(entries.emplace(library + ' ' + name, entry).second) << name;
    EXPECT_EQ(entry.at("reason").is_null(), state == "hooked") << name;
    EXPECT_EQ(entry.at("chapter").is_null(), state != "hooked") << name;
    EXPECT_EQ(entry.at("when").empty(), state != "hooked") << name;
  }
  EXPECT_EQ(libraries["driver"], 637);
  EXPECT_EQ(libraries["nvml"], 398);
  // The exports of 13.0, five names that only 12 has, and ten of later releases of 13.
  EXPECT_EQ(libraries["runtime"], 437);
  EXPECT_EQ(entries.at("driver cuMemAlloc_v2").dump(),
            R"({"chapter":"memory","library":"driver","name":"cuMemAlloc_v2","reason":null,"runtimes":[],)"
            R"("state":"hooked","when":["cap","report"]})");
  EXPECT_EQ(entries.at("runtime cudaMalloc").at("runtimes").dump(), R"(["11.0","12","13"])");
  EXPECT_EQ(entries.at("driver cuGraphicsMapResources").at("state"), "left_alone");
}

}  // namespace
}  // namespace gpufence::harness
