// The simulated NVML beside the simulated driver: the host's view, and the same truth about memory.
#include <cuda.h>
#include <gtest/gtest.h>
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <cstring>
#include <fstream>
#include <string>

#include "process.h"

namespace gpufence::sim {
namespace {

constexpr unsigned long long kGiB = 1073741824;

TEST(Nvml, NothingWorksBeforeInitAndWithoutAMachine) {
  in_child({}, [] {
    unsigned count;
    EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    EXPECT_EQ(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    EXPECT_STREQ(nvmlErrorString(NVML_ERROR_DRIVER_NOT_LOADED), "Driver Not Loaded");
  });
}

TEST(Nvml, IgnoresTheMaskAndCountsInPciOrder) {
  in_child({{"GPUFENCE_SIM", "4"}, {"CUDA_VISIBLE_DEVICES", "3,1"}}, [] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    unsigned count = 0;
    EXPECT_EQ(nvmlDeviceGetCount(&count), NVML_SUCCESS);
    EXPECT_EQ(count, 4u);
    nvmlDevice_t device;
    ASSERT_EQ(nvmlDeviceGetHandleByIndex(3, &device), NVML_SUCCESS);
    char uuid[96], name[64];
    ASSERT_EQ(nvmlDeviceGetUUID(device, uuid, sizeof uuid), NVML_SUCCESS);
    EXPECT_EQ(std::string(uuid).substr(0, 8), "GPU-5133");
    ASSERT_EQ(nvmlDeviceGetName(device, name, sizeof name), NVML_SUCCESS);
    EXPECT_STREQ(name, "Simulated GPU");
    EXPECT_EQ(nvmlDeviceGetName(device, name, 5), NVML_ERROR_INSUFFICIENT_SIZE);
    nvmlPciInfo_t pci;
    memset(&pci, 0x7f, sizeof pci);
    ASSERT_EQ(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
    EXPECT_STREQ(pci.busId, "00000000:81:00.0");
    EXPECT_STREQ(pci.busIdLegacy, "0000:81:00.0");
    EXPECT_EQ(pci.bus, 0x81u);
    memset(&pci, 0x7f, sizeof pci);
    ASSERT_EQ(nvmlDeviceGetPciInfo(device, &pci), NVML_SUCCESS);
    EXPECT_EQ(pci.busId[0], 0x7f) << "the first version's struct ends before it";
    nvmlDevice_t same;
    EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid, &same), NVML_SUCCESS);
    EXPECT_EQ(same, device);
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("00000000:81:00.0", &same), NVML_SUCCESS);
    EXPECT_EQ(same, device);
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:99:00.0", &same), NVML_ERROR_NOT_FOUND);
    unsigned index = 9;
    EXPECT_EQ(nvmlDeviceGetIndex(same, &index), NVML_SUCCESS);
    EXPECT_EQ(index, 3u);
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(4, &device), NVML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(nvmlDeviceGetIndex(reinterpret_cast<nvmlDevice_t>(&index), &index),
              NVML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(nvmlDeviceGetFanSpeed(same, &index), NVML_ERROR_NOT_SUPPORTED);
    int version = 0;
    EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
    EXPECT_EQ(version, 13000);
    EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
    EXPECT_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  });
}

TEST(Nvml, FindsAGpuByItsUuidInBothForms) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t device, same;
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(1, &device), NVML_SUCCESS);
    nvmlUUID_t uuid{};
    char text[96];
    ASSERT_EQ(nvmlDeviceGetUUID(device, text, sizeof text), NVML_SUCCESS);
    strcpy(uuid.value.str, text);
    uuid.type = NVML_UUID_TYPE_ASCII;
    EXPECT_EQ(nvmlDeviceGetHandleByUUIDV(&uuid, &same), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    uuid.version = nvmlUUID_v1;
    ASSERT_EQ(nvmlDeviceGetHandleByUUIDV(&uuid, &same), NVML_SUCCESS);
    EXPECT_EQ(same, device);
    uuid.value.str[6] ^= 1;
    EXPECT_EQ(nvmlDeviceGetHandleByUUIDV(&uuid, &same), NVML_ERROR_NOT_FOUND);
    unsigned bytes[16];
    ASSERT_EQ(sscanf(text, "GPU-%2x%2x%2x%2x-%2x%2x-%2x%2x-%2x%2x-%2x%2x%2x%2x%2x%2x", &bytes[0], &bytes[1],
                     &bytes[2], &bytes[3], &bytes[4], &bytes[5], &bytes[6], &bytes[7], &bytes[8], &bytes[9],
                     &bytes[10], &bytes[11], &bytes[12], &bytes[13], &bytes[14], &bytes[15]),
              16);
    for (int i = 0; i < 16; ++i) uuid.value.bytes[i] = static_cast<unsigned char>(bytes[i]);
    uuid.type = NVML_UUID_TYPE_BINARY;
    same = nullptr;
    ASSERT_EQ(nvmlDeviceGetHandleByUUIDV(&uuid, &same), NVML_SUCCESS);
    EXPECT_EQ(same, device);
  });
}

TEST(Nvml, TellsHowGpusLieToEachOther) {
  // Two on each of two nodes; H100s reach each other, and nobody else.
  in_child({{"GPUFENCE_SIM", "4xh100"}}, [] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t gpus[4];
    for (unsigned i = 0; i < 4; ++i) ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(i, &gpus[i]), NVML_SUCCESS);
    nvmlGpuTopologyLevel_t level;
    ASSERT_EQ(nvmlDeviceGetTopologyCommonAncestor(gpus[0], gpus[1], &level), NVML_SUCCESS);
    EXPECT_EQ(level, NVML_TOPOLOGY_NODE);
    ASSERT_EQ(nvmlDeviceGetTopologyCommonAncestor(gpus[1], gpus[2], &level), NVML_SUCCESS);
    EXPECT_EQ(level, NVML_TOPOLOGY_SYSTEM);
    unsigned count = 0;
    nvmlDevice_t near[4] = {};
    ASSERT_EQ(nvmlDeviceGetTopologyNearestGpus(gpus[0], NVML_TOPOLOGY_SYSTEM, &count, nullptr), NVML_SUCCESS);
    EXPECT_EQ(count, 2u);
    count = 1;
    ASSERT_EQ(nvmlDeviceGetTopologyNearestGpus(gpus[0], NVML_TOPOLOGY_SYSTEM, &count, near), NVML_SUCCESS);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(near[0], gpus[2]);
    EXPECT_EQ(near[1], nullptr) << "written past its count";
    EXPECT_EQ(nvmlDeviceGetTopologyNearestGpus(gpus[0], NVML_TOPOLOGY_SYSTEM, &count, nullptr),
              NVML_ERROR_INVALID_ARGUMENT);
    count = 4;
    ASSERT_EQ(nvmlSystemGetTopologyGpuSet(0, &count, near), NVML_SUCCESS);
    EXPECT_EQ(count, 4u);
    EXPECT_EQ(nvmlSystemGetTopologyGpuSet(1000000, &count, near), NVML_ERROR_INVALID_ARGUMENT);
    nvmlGpuP2PStatus_t status;
    ASSERT_EQ(nvmlDeviceGetP2PStatus(gpus[0], gpus[3], NVML_P2P_CAPS_INDEX_NVLINK, &status), NVML_SUCCESS);
    EXPECT_EQ(status, NVML_P2P_STATUS_OK);
  });
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t gpus[2];
    for (unsigned i = 0; i < 2; ++i) ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(i, &gpus[i]), NVML_SUCCESS);
    nvmlGpuP2PStatus_t status;
    ASSERT_EQ(nvmlDeviceGetP2PStatus(gpus[0], gpus[1], NVML_P2P_CAPS_INDEX_READ, &status), NVML_SUCCESS);
    EXPECT_EQ(status, NVML_P2P_STATUS_NOT_SUPPORTED);
    nvmlEnableState_t link;
    EXPECT_EQ(nvmlDeviceGetNvLinkState(gpus[0], 0, &link), NVML_ERROR_NOT_SUPPORTED);
  });
}

TEST(Nvml, IsIdleAndCoolAndTellsEachFieldByItself) {
  in_child({{"GPUFENCE_SIM", "3"}}, [] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t device;
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(2, &device), NVML_SUCCESS);
    nvmlTemperature_t temperature{};
    temperature.sensorType = NVML_TEMPERATURE_GPU;
    EXPECT_EQ(nvmlDeviceGetTemperatureV(device, &temperature), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    temperature.version = nvmlTemperature_v1;
    ASSERT_EQ(nvmlDeviceGetTemperatureV(device, &temperature), NVML_SUCCESS);
    EXPECT_EQ(temperature.temperature, 33);
    unsigned value = 9, period = 0;
    ASSERT_EQ(nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &value), NVML_SUCCESS);
    EXPECT_EQ(value, 345u);
    ASSERT_EQ(nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &value), NVML_SUCCESS);
    EXPECT_EQ(value, 1980u);
    EXPECT_EQ(nvmlDeviceGetClockInfo(device, NVML_CLOCK_COUNT, &value), NVML_ERROR_INVALID_ARGUMENT);
    ASSERT_EQ(nvmlDeviceGetEncoderUtilization(device, &value, &period), NVML_SUCCESS);
    EXPECT_EQ(value, 0u);
    nvmlProcessUtilizationSample_t sample;
    unsigned count = 1;
    EXPECT_EQ(nvmlDeviceGetProcessUtilization(device, &sample, &count, 0), NVML_ERROR_NOT_FOUND);
    nvmlFieldValue_t fields[2] = {};
    ASSERT_EQ(nvmlDeviceGetFieldValues(device, 2, fields), NVML_SUCCESS);
    EXPECT_EQ(fields[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(nvmlDeviceSetPowerManagementLimit(device, 100000), NVML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &device), NVML_ERROR_NOT_FOUND);
  });
}

TEST(Nvml, ShowsMemoryAndProcessesOfAll) {
  Signal full;
  const Environment environment{{"GPUFENCE_SIM", "5"}};
  const pid_t other = start(environment, [&] {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    CUcontext context;
    CUdeviceptr memory;
    EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&memory, 3 * kGiB), CUDA_SUCCESS);
    full.send();
    pause();
  });
  full.wait();
  in_child(environment, [&] {
    ASSERT_EQ(nvmlInitWithFlags(0), NVML_SUCCESS);
    nvmlDevice_t device, idle;
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(1, &device), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &idle), NVML_SUCCESS);
    nvmlMemory_t memory;
    ASSERT_EQ(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
    EXPECT_EQ(memory.total, 17179869184u);
    EXPECT_EQ(memory.used, 3489660928u);  // 3 GiB and one context of 256 MiB
    EXPECT_EQ(memory.free, 13690208256u);
    nvmlMemory_v2_t memory2{};
    EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device, &memory2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    memory2.version = nvmlMemory_v2;
    ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device, &memory2), NVML_SUCCESS);
    EXPECT_EQ(memory2.used, 3489660928u);
    unsigned count = 0;
    EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_EQ(count, 1u);
    nvmlProcessInfo_t info[4] = {};
    count = 4;
    ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, info), NVML_SUCCESS);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(info[0].pid, static_cast<unsigned>(other));
    EXPECT_EQ(info[0].usedGpuMemory, 3489660928u);
    EXPECT_EQ(info[0].gpuInstanceId, 0xffffffffu);
    nvmlProcessInfo_v1_t old[2] = {};
    count = 2;
    ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses(device, &count, old), NVML_SUCCESS);
    EXPECT_EQ(old[0].usedGpuMemory, 3489660928u);
    nvmlProcessDetail_v1_t details[2] = {};
    nvmlProcessDetailList_t list{nvmlProcessDetailList_v1, 0, 2, details};
    ASSERT_EQ(nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_SUCCESS);
    EXPECT_EQ(list.numProcArrayEntries, 1u);
    EXPECT_EQ(details[0].usedGpuMemory, 3489660928u);
    list = {nvmlProcessDetailList_v1, 1, 2, details};
    ASSERT_EQ(nvmlDeviceGetRunningProcessDetailList(device, &list), NVML_SUCCESS);
    EXPECT_EQ(list.numProcArrayEntries, 0u) << "nothing draws";
    count = 4;
    ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(idle, &count, info), NVML_SUCCESS);
    EXPECT_EQ(count, 0u);
    kill(other, SIGKILL);
    for (int i = 0; i < 2000 && memory.used != 0; ++i) {
      usleep(1000);
      ASSERT_EQ(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
    }
    EXPECT_EQ(memory.used, 0u);
  });
  EXPECT_TRUE(WIFSIGNALED(finish(other)));
}

// nvml.h, "Multi Instance GPU Management".
TEST(Nvml, TellsOfInstancesAsOfDevices) {
  const std::string path = private_directory() + "/split.toml";
  std::ofstream(path) << "[[gpu]]\nmodel = \"h100\"\ncontext = \"64MiB\"\n"
                         "[[gpu.mig]]\nprofile = \"3g.40gb\"\n[[gpu.mig]]\nprofile = \"1g.10gb\"\n"
                         "uuid = \"MIG-b1000000-0000-4000-8000-000000000001\"\n[[gpu]]\nmodel = \"h100\"\n";
  in_child({{"GPUFENCE_SIM", path}, {"CUDA_VISIBLE_DEVICES", "MIG-b1"}}, [] {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
    unsigned count = 0;
    EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    EXPECT_EQ(count, 2u);  // GPUs
    nvmlDevice_t gpu, whole, first, second, none;
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &gpu), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(1, &whole), NVML_SUCCESS);
    unsigned current = 9, pending = 9;
    EXPECT_EQ(nvmlDeviceGetMigMode(gpu, &current, &pending), NVML_SUCCESS);
    EXPECT_EQ(current, unsigned{NVML_DEVICE_MIG_ENABLE});
    EXPECT_EQ(nvmlDeviceGetMigMode(whole, &current, &pending), NVML_SUCCESS);
    EXPECT_EQ(current, unsigned{NVML_DEVICE_MIG_DISABLE});
    EXPECT_EQ(nvmlDeviceGetMaxMigDeviceCount(gpu, &count), NVML_SUCCESS);
    EXPECT_EQ(count, 7u);
    EXPECT_EQ(nvmlDeviceGetMaxMigDeviceCount(whole, &count), NVML_SUCCESS);
    EXPECT_EQ(count, 0u);  // "zero if MIG is not supported or enabled"
    ASSERT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &first), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1, &second), NVML_SUCCESS);
    EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2, &none), NVML_ERROR_NOT_FOUND);
    EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 7, &none), NVML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(whole, 0, &none), NVML_ERROR_NOT_FOUND);

    unsigned is = 9, id = 9;
    EXPECT_EQ(nvmlDeviceIsMigDeviceHandle(gpu, &is), NVML_SUCCESS);
    EXPECT_EQ(is, 0u);
    EXPECT_EQ(nvmlDeviceIsMigDeviceHandle(second, &is), NVML_SUCCESS);
    EXPECT_EQ(is, 1u);
    nvmlDevice_t parent = nullptr;
    EXPECT_EQ(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(second, &parent), NVML_SUCCESS);
    EXPECT_EQ(parent, gpu);
    EXPECT_EQ(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu, &parent), NVML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(nvmlDeviceGetGpuInstanceId(first, &id), NVML_SUCCESS);
    EXPECT_EQ(id, 1u);
    EXPECT_EQ(nvmlDeviceGetGpuInstanceId(second, &id), NVML_SUCCESS);
    EXPECT_EQ(id, 7u);
    EXPECT_EQ(nvmlDeviceGetComputeInstanceId(second, &id), NVML_SUCCESS);
    EXPECT_EQ(id, 0u);
    EXPECT_EQ(nvmlDeviceGetGpuInstanceId(gpu, &id), NVML_ERROR_INVALID_ARGUMENT);
    char text[96];
    EXPECT_EQ(nvmlDeviceGetName(second, text, sizeof text), NVML_SUCCESS);
    EXPECT_STREQ(text, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    EXPECT_EQ(nvmlDeviceGetUUID(second, text, sizeof text), NVML_SUCCESS);
    EXPECT_STREQ(text, "MIG-b1000000-0000-4000-8000-000000000001");
    nvmlDevice_t same = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByUUID(text, &same), NVML_SUCCESS);
    EXPECT_EQ(same, second);
    nvmlDeviceAttributes_t attributes{};
    EXPECT_EQ(nvmlDeviceGetAttributes_v2(first, &attributes), NVML_SUCCESS);
    EXPECT_EQ(attributes.multiprocessorCount, 60u);
    EXPECT_EQ(attributes.gpuInstanceSliceCount, 3u);
    EXPECT_EQ(attributes.memorySizeMB, 40960u);

    // What the process holds, seen at the instance, at its neighbour and at the whole GPU.
    nvmlMemory_t memory;
    EXPECT_EQ(nvmlDeviceGetMemoryInfo(second, &memory), NVML_SUCCESS);
    EXPECT_EQ(memory.total, 10 * kGiB);
    EXPECT_EQ(memory.used, 67108864u);
    EXPECT_EQ(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
    EXPECT_EQ(memory.used, 0u);
    EXPECT_EQ(nvmlDeviceGetMemoryInfo(gpu, &memory), NVML_SUCCESS);
    EXPECT_EQ(memory.total, 80 * kGiB);
    EXPECT_EQ(memory.used, 67108864u);
    nvmlProcessInfo_t processes[4];
    count = 4;
    EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, processes), NVML_SUCCESS);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(processes[0].pid, static_cast<unsigned>(getpid()));
    EXPECT_EQ(processes[0].gpuInstanceId, 7u);
    count = 4;
    EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, processes), NVML_SUCCESS);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(nvmlDeviceGetIndex(second, &id), NVML_ERROR_NOT_SUPPORTED);
  });
}

TEST(Nvml, SaysThatAGpuIsLostForAsLongAsWhoLostItLives) {
  const std::string path = private_directory() + "/lost.toml";
  std::ofstream(path) << "[[gpu]]\nlost_at = 2\n[[gpu]]\n";
  Signal lost, seen;
  const pid_t loser = start({{"GPUFENCE_SIM", path}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, [&] {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
    lost.send();
    seen.wait();
  });
  lost.wait();
  const auto asked = [&](unsigned index, nvmlReturn_t expected) {
    in_child({{"GPUFENCE_SIM", path}}, [&] {
      ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
      nvmlDevice_t gpu;
      ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &gpu), NVML_SUCCESS);
      nvmlMemory_t memory;
      EXPECT_EQ(nvmlDeviceGetMemoryInfo(gpu, &memory), expected);
    });
  };
  asked(0, NVML_ERROR_GPU_IS_LOST);
  asked(1, NVML_SUCCESS);
  seen.send();
  EXPECT_EQ(finish(loser), 0);
  asked(0, NVML_SUCCESS);
}

}  // namespace
}  // namespace gpufence::sim
