// Faults that a machine's description asks for, and drivers of other releases.
#include <cuda.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

std::string machine(const std::string& text) {
  static int count = 0;
  const std::string path = private_directory() + "/faults" + std::to_string(++count) + ".toml";
  std::ofstream(path) << text;
  return path;
}

TEST(LostGpu, AnswersNothingFromThatCallOn) {
  in_child(
      {{"GPUFENCE_SIM", machine("[[gpu]]\nlost_at = 5\n[[gpu]]\n")}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}},
      [] {
        constexpr CUresult kLost = CUDA_ERROR_DEVICE_UNAVAILABLE;
        OK(cuInit(0));
        const CUcontext lost = context_on(0);  // the first call on it
        CUstream stream = nullptr;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        Gate gate;
        OK(gate.hold(stream));
        CUdeviceptr memory = 0;
        OK(cuMemAlloc(&memory, 4096));
        EXPECT_EQ(cuMemAlloc(&memory, 4096), kLost);
        EXPECT_EQ(cuStreamSynchronize(stream), kLost);
        EXPECT_EQ(cuCtxSynchronize(), kLost);
        EXPECT_EQ(cuStreamQuery(stream), kLost);
        gate.open();
        CUcontext again = nullptr;
        EXPECT_EQ(cuCtxCreate(&again, nullptr, 0, 0), kLost);
        EXPECT_EQ(cuDevicePrimaryCtxRetain(&again, 0), kLost);
        // The other GPU goes on, and so do questions about the lost one.
        int count = 0;
        OK(cuDeviceGetCount(&count));
        EXPECT_EQ(count, 2);
        context_on(1);
        for (int i = 0; i < 10; ++i) OK(cuMemAlloc(&memory, 4096));
        OK(cuCtxDestroy(lost));
      });
}

TEST(LostGpu, IsLostToEachProcessAtItsOwnCall) {
  const std::string path = machine("[[gpu]]\nlost_at = 3\n");
  for (int process = 0; process < 2; ++process)
    in_child({{"GPUFENCE_SIM", path}}, [] {
      OK(cuInit(0));
      context_on(0);
      CUdeviceptr memory = 0;
      OK(cuMemAlloc(&memory, 4096));
      EXPECT_EQ(cuMemAlloc(&memory, 4096), CUDA_ERROR_DEVICE_UNAVAILABLE);
    });
}

TEST(SlowCall, TakesTheTimeThatWasAsked) {
  in_child({{"GPUFENCE_SIM", machine("[[slow]]\ncall = \"cuMemAlloc_v2\"\nms = 30\n[[gpu]]\n")}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory = 0;
    const auto before = std::chrono::steady_clock::now();
    OK(cuMemAlloc(&memory, 4096));
    OK(cuMemAlloc(&memory, 4096));
    EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(60));
  });
}

// "Returns CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT if the requested symbol was found but version supplied
// was not sufficient" (cuGetProcAddress): a driver knows no version that is newer than itself.
TEST(DriverVersion, DecidesWhatIsFound) {
  const auto found = [](const char* name, int version) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status{};
    const CUresult result = cuGetProcAddress(name, &address, version, 0, &status);
    EXPECT_EQ(result == CUDA_SUCCESS, address != nullptr);
    return status;
  };
  const auto told = [] {
    int version = 0;
    OK(cuDriverGetVersion(&version));
    return version;
  };
  in_child({{"GPUFENCE_SIM", machine("driver_version = 11080\n[[gpu]]\n")}}, [&] {
    EXPECT_EQ(told(), 11080);
    EXPECT_EQ(found("cuMemAlloc", 3020), CU_GET_PROC_ADDRESS_SUCCESS);
    EXPECT_EQ(found("cuLibraryLoadData", 12000), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(found("cuMemcpyBatchAsync", 12080), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(found("cuNothing", 11080), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuInit(0));
  });
  in_child({{"GPUFENCE_SIM", machine("driver_version = 12040\n[[gpu]]\n")}}, [&] {
    EXPECT_EQ(found("cuLibraryLoadData", 12000), CU_GET_PROC_ADDRESS_SUCCESS);
    EXPECT_EQ(found("cuMemcpyBatchAsync", 12080), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  });
  in_child({{"GPUFENCE_SIM", machine("driver_version = 14000\n[[gpu]]\n")}}, [&] {
    EXPECT_EQ(told(), 14000);
    EXPECT_EQ(found("cuMemcpyBatchAsync", 14000), CU_GET_PROC_ADDRESS_SUCCESS);
    OK(cuInit(0));
  });
}

}  // namespace
}  // namespace gpufence::sim
