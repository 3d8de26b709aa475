// A split GPU as CUDA shows it: one instance, with a name, memory and multiprocessors of its own. Source:
// NVIDIA's MIG user guide ("CUDA Device Enumeration", "Application Considerations") and cuda.h.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "gpus.h"
#include "process.h"

extern "C" CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device);

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr size_t kMiB = size_t{1} << 20;
constexpr const char* kFirst = "MIG-a1000000-0000-4000-8000-000000000001";
constexpr const char* kSecond = "MIG-a1000000-0000-4000-8000-000000000002";

// Two A100, of which the first is split.
std::string split_card() {
  const std::string path = private_directory() + "/split.toml";
  std::ofstream(path) << "[[gpu]]\nmodel = \"a100\"\ncontext = \"64MiB\"\n"
                         "uuid = \"GPU-a1000000-0000-4000-8000-000000000000\"\n"
                         "[[gpu.mig]]\nprofile = \"1g.10gb\"\nuuid = \""
                      << kFirst
                      << "\"\n"
                         "[[gpu.mig]]\nprofile = \"3g.40gb\"\nuuid = \""
                      << kSecond
                      << "\"\n"
                         "[[gpu]]\nmodel = \"a100\"\n";
  return path;
}

void on_instance(const char* visible, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", split_card()}, {"CUDA_VISIBLE_DEVICES", visible}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

TEST(Mig, CudaSeesOneInstanceWithItsShare) {
  on_instance(kSecond, [] {
    int count = 0, value = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 1);
    char name[100] = {};
    OK(cuDeviceGetName(name, sizeof name, 0));
    EXPECT_STREQ(name, "NVIDIA A100-SXM4-80GB MIG 3g.40gb");
    size_t bytes = 0;
    OK(cuDeviceTotalMem(&bytes, 0));
    EXPECT_EQ(bytes, size_t{40} << 30);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    EXPECT_EQ(value, 42);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    EXPECT_EQ(value, 8);
    // "If the device is in MIG mode, returns its MIG UUID which uniquely identifies the subscribed MIG
    // compute instance."
    const unsigned char mig[16] = {0xa1, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 2};
    CUuuid uuid{};
    OK(cuDeviceGetUuid_v2(&uuid, 0));
    EXPECT_EQ(memcmp(uuid.bytes, mig, 16), 0);
    char pci[32] = {};
    OK(cuDeviceGetPCIBusId(pci, sizeof pci, 0));
    EXPECT_STREQ(pci, "0000:01:00.0");
  });
}

TEST(Mig, InstancesHaveMemoryOfTheirOwn) {
  Signal filled, checked;
  const pid_t first = start({{"GPUFENCE_SIM", split_card()}, {"CUDA_VISIBLE_DEVICES", kFirst}}, [&] {
    OK(cuInit(0));
    context_on(0);
    EXPECT_EQ(free_memory(), (size_t{10} << 30) - 64 * kMiB);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, size_t{10} << 30), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&memory, size_t{9} << 30));
    filled.send();
    checked.wait();
  });
  filled.wait();
  on_instance(kSecond, [] { EXPECT_EQ(free_memory(), (size_t{40} << 30) - 64 * kMiB); });
  on_instance(kFirst, [] { EXPECT_EQ(free_memory(), (size_t{1} << 30) - 128 * kMiB); });
  checked.send();
  EXPECT_EQ(finish(first), 0);
}

TEST(Mig, OtherGpusAreThereOnlyWithoutAnInstance) {
  in_child({{"GPUFENCE_SIM", split_card()}, {"CUDA_VISIBLE_DEVICES", "1"}}, [] {
    OK(cuInit(0));
    char name[100] = {};
    OK(cuDeviceGetName(name, sizeof name, 0));
    EXPECT_STREQ(name, "NVIDIA A100-SXM4-80GB");
  });
  in_child({{"GPUFENCE_SIM", split_card()}}, [] {
    OK(cuInit(0));
    int count = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 1);
    char name[100] = {};
    OK(cuDeviceGetName(name, sizeof name, 0));
    EXPECT_STREQ(name, "NVIDIA A100-SXM4-80GB MIG 1g.10gb");
  });
}

TEST(Mig, AGpuWithoutInstancesIsNoDevice) {
  const std::string path = private_directory() + "/empty.toml";
  std::ofstream(path) << "[[gpu]]\nmodel = \"a100\"\nmig = []\n";
  in_child({{"GPUFENCE_SIM", path}}, [] { EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE); });
}

}  // namespace
}  // namespace gpufence::sim
