// The hooks of NVML above an NVML made of a dozen functions, for what the simulated one does not have: MIG
// slices, lost GPUs, samples of processes, a library that calls its own functions through its exports. One
// process has one set of rules, so these tests are a program of their own: the view is slice b1, card c and a
// card that is lost, each with a cap of half its memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <vector>

#include "abi/nvml_names.h"
#include "dispatch/dispatch.h"
#include "fence.h"
#include "hooks/rules.h"

namespace gpufence::hooks {
namespace {

namespace dispatch = gpufence::dispatch;

// Cards a, b and c; slices b0 and b1 of b, c0 of c.
struct Thing {
  const char* uuid;
  int card;   // index of the card it is a slice of; -1: a card
  int index;  // as NVML numbers it, among cards or among its card's slices
};
constexpr Thing kThings[] = {{"GPU-a", -1, 0}, {"GPU-b", -1, 1}, {"GPU-c", -1, 2},
                             {"MIG-b0", 1, 0}, {"MIG-b1", 1, 1}, {"MIG-c0", 2, 0}};

nvmlDevice_t handle(const char* uuid) {
  for (const Thing& thing : kThings)
    if (std::strcmp(thing.uuid, uuid) == 0) return reinterpret_cast<nvmlDevice_t>(const_cast<Thing*>(&thing));
  return nullptr;
}
const Thing& thing(nvmlDevice_t device) {
  return *reinterpret_cast<const Thing*>(device);
}

template <auto Function, class F>
void stand_in(F function) {
  dispatch::target<Function>.store(reinterpret_cast<void*>(+function));
}

// Calls a hook as the gate would: through the body of its record.
template <auto Function, class... Arguments>
nvmlReturn_t call(const char* name, Arguments... arguments) {
  for (const dispatch::Record* record : dispatch::records()) {
    if (record->body != nullptr && std::strcmp(record->name, name) == 0)
      return reinterpret_cast<decltype(Function)>(record->body)(arguments...);
  }
  ADD_FAILURE() << name << " is not hooked";
  return NVML_ERROR_UNKNOWN;
}
#define CALL(function, ...) call<&::function>(#function, __VA_ARGS__)

class NvmlHooks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::map<std::string, std::string> settings{{"GPUFENCE_VIEW", "MIG-b1,GPU-c,GPU-lost"},
                                                      {"GPUFENCE_GPUS", "GPU-a,GPU-c,GPU-b,GPU-lost"},
                                                      {"GPUFENCE_NUMBERING", "view"},
                                                      {"GPUFENCE_GPU_MEM", "50%"},
                                                      {"GPUFENCE_STDERR", "off"}};
    publish_rules(configure([&](const char* name) {
                    const auto found = settings.find(name);
                    return found == settings.end() ? std::nullopt : std::optional<std::string>(found->second);
                  }).rules);
    stand_in<&::nvmlDeviceGetCount_v2>([](unsigned* count) { return *count = 3, NVML_SUCCESS; });
    // The host's order is a, c, lost, b by now, not what it was at the start.
    stand_in<&::nvmlDeviceGetHandleByIndex_v2>([](unsigned index, nvmlDevice_t* device) {
      if (index == 2) return NVML_ERROR_GPU_IS_LOST;
      if (index > 3) return NVML_ERROR_INVALID_ARGUMENT;
      return *device = handle(index == 0 ? "GPU-a" : index == 1 ? "GPU-c" : "GPU-b"), NVML_SUCCESS;
    });
    stand_in<&::nvmlDeviceGetHandleByUUID>([](const char* uuid, nvmlDevice_t* device) {
      // By UUID the whole machine is looked through, and the search ends at the lost GPU.
      if (std::strcmp(uuid, "GPU-lost") == 0 || std::strcmp(uuid, "GPU-c") == 0)
        return NVML_ERROR_GPU_IS_LOST;
      // Not linked -Bsymbolic: what it asks of itself comes back through our exports.
      unsigned count = 0;
      EXPECT_EQ(CALL(nvmlDeviceGetCount_v2, &count), NVML_SUCCESS);
      EXPECT_EQ(count, 3u) << "NVML's own question is answered by NVML";
      *device = handle(uuid);
      return *device != nullptr ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
    });
    stand_in<&::nvmlDeviceGetUUID>([](nvmlDevice_t device, char* out, unsigned) {
      return std::strcpy(out, thing(device).uuid), NVML_SUCCESS;
    });
    stand_in<&::nvmlDeviceIsMigDeviceHandle>([](nvmlDevice_t device, unsigned* mig) {
      return *mig = thing(device).card >= 0 ? 1 : 0, NVML_SUCCESS;
    });
    stand_in<&::nvmlDeviceGetDeviceHandleFromMigDeviceHandle>([](nvmlDevice_t device, nvmlDevice_t* card) {
      return *card = handle(kThings[thing(device).card].uuid), NVML_SUCCESS;
    });
    stand_in<&::nvmlDeviceGetMaxMigDeviceCount>(
        [](nvmlDevice_t, unsigned* count) { return *count = 7, NVML_SUCCESS; });
    stand_in<&::nvmlDeviceGetMigDeviceHandleByIndex>(
        [](nvmlDevice_t card, unsigned index, nvmlDevice_t* slice) {
          for (const Thing& one : kThings) {
            if (one.card < 0 || &kThings[one.card] != &thing(card) || one.index != static_cast<int>(index))
              continue;
            return *slice = handle(one.uuid), NVML_SUCCESS;
          }
          return NVML_ERROR_NOT_FOUND;
        });
    stand_in<&::nvmlDeviceGetIndex>([](nvmlDevice_t device, unsigned* index) {
      return *index = static_cast<unsigned>(thing(device).index), NVML_SUCCESS;
    });
    stand_in<&::nvmlDeviceGetMemoryInfo>([](nvmlDevice_t, nvmlMemory_t* memory) {
      return *memory = {.total = 1000, .free = 300, .used = 700}, NVML_SUCCESS;
    });
    stand_in<&::nvmlDeviceGetMemoryInfo_v2>([](nvmlDevice_t, nvmlMemory_v2_t* memory) {
      *memory = {.version = memory->version, .total = 1000, .reserved = 60, .free = 480, .used = 460};
      return NVML_SUCCESS;
    });
  }
  // The process's own sample, and another's, by their utilisation of the multiprocessors.
  static nvmlReturn_t sample(nvmlProcessUtilizationSample_t* samples, unsigned* count, bool own) {
    samples[0] = {.pid = 1, .timeStamp = 0, .smUtil = 11, .memUtil = 0, .encUtil = 0, .decUtil = 0};
    samples[1] = samples[0];
    if (own) samples[1].pid = static_cast<unsigned>(getpid()), samples[1].smUtil = 22;
    *count = 2;
    return NVML_SUCCESS;
  }
};

TEST_F(NvmlHooks, ASliceIsShownByItsCardAndALostGpuKeepsItsPlace) {
  unsigned count = 0;
  ASSERT_EQ(CALL(nvmlDeviceGetCount_v2, &count), NVML_SUCCESS);
  EXPECT_EQ(count, 3u);
  nvmlDevice_t device = nullptr;
  ASSERT_EQ(CALL(nvmlDeviceGetHandleByIndex_v2, 0u, &device), NVML_SUCCESS);
  EXPECT_EQ(device, handle("GPU-b"));
  ASSERT_EQ(CALL(nvmlDeviceGetHandleByIndex_v2, 1u, &device), NVML_SUCCESS);
  EXPECT_EQ(device, handle("GPU-c"));
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByIndex_v2, 2u, &device), NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByIndex_v2, 3u, &device), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlHooks, ByUuidTheSlicesOfTheViewAndThoseOfItsWholeCardsAreFound) {
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByUUID, "MIG-b1", &device), NVML_SUCCESS);
  EXPECT_EQ(device, handle("MIG-b1"));
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByUUID, "MIG-c0", &device), NVML_SUCCESS);
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByUUID, "GPU-b", &device), NVML_SUCCESS);
  EXPECT_EQ(device, handle("GPU-b"));
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByUUID, "MIG-b0", &device), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(CALL(nvmlDeviceGetHandleByUUID, "GPU-a", &device), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(device, handle("GPU-b")) << "written by a failed look-up";
}

TEST_F(NvmlHooks, SlicesAreNumberedWithinTheView) {
  nvmlDevice_t slice = nullptr;
  ASSERT_EQ(CALL(nvmlDeviceGetMigDeviceHandleByIndex, handle("GPU-b"), 0u, &slice), NVML_SUCCESS);
  EXPECT_EQ(slice, handle("MIG-b1"));
  EXPECT_EQ(CALL(nvmlDeviceGetMigDeviceHandleByIndex, handle("GPU-b"), 1u, &slice), NVML_ERROR_NOT_FOUND);
  ASSERT_EQ(CALL(nvmlDeviceGetMigDeviceHandleByIndex, handle("GPU-c"), 0u, &slice), NVML_SUCCESS);
  EXPECT_EQ(slice, handle("MIG-c0"));
  unsigned index = 9;
  ASSERT_EQ(CALL(nvmlDeviceGetIndex, handle("MIG-b1"), &index), NVML_SUCCESS);
  EXPECT_EQ(index, 0u);
  ASSERT_EQ(CALL(nvmlDeviceGetIndex, handle("GPU-c"), &index), NVML_SUCCESS);
  EXPECT_EQ(index, 1u);
  EXPECT_EQ(CALL(nvmlDeviceGetIndex, handle("GPU-a"), &index), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlHooks, MemoryAgreesWithTheCapAndReservedFindsRoomBesideIt) {
  nvmlMemory_t memory{};
  ASSERT_EQ(CALL(nvmlDeviceGetMemoryInfo, handle("GPU-c"), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, 500u);
  EXPECT_EQ(memory.used, 0u);
  EXPECT_EQ(memory.free, 300u);
  ASSERT_EQ(CALL(nvmlDeviceGetMemoryInfo, handle("GPU-a"), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, 1000u) << "not in the view, and not capped";
  EXPECT_EQ(memory.used, 700u);
  nvmlMemory_v2_t newer{};
  newer.version = nvmlMemory_v2;
  ASSERT_EQ(CALL(nvmlDeviceGetMemoryInfo_v2, handle("GPU-c"), &newer), NVML_SUCCESS);
  EXPECT_EQ(newer.version, nvmlMemory_v2);
  EXPECT_EQ(newer.total, 500u);
  EXPECT_EQ(newer.used, 0u);
  EXPECT_EQ(newer.free, 480u);
  EXPECT_EQ(newer.reserved, 20u);
}

TEST_F(NvmlHooks, OfACappedGpuOnlyTheProcessesOwnSamplesAreShown) {
  nvmlProcessUtilizationSample_t samples[4] = {};
  unsigned count = 4;
  stand_in<&::nvmlDeviceGetProcessUtilization>([](nvmlDevice_t, nvmlProcessUtilizationSample_t* out,
                                                  unsigned* size,
                                                  unsigned long long) { return sample(out, size, true); });
  ASSERT_EQ(CALL(nvmlDeviceGetProcessUtilization, handle("GPU-c"), samples, &count, 0ULL), NVML_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(samples[0].smUtil, 22u);
  count = 4;
  ASSERT_EQ(CALL(nvmlDeviceGetProcessUtilization, handle("GPU-a"), samples, &count, 0ULL), NVML_SUCCESS);
  EXPECT_EQ(count, 2u);
  stand_in<&::nvmlDeviceGetProcessUtilization>([](nvmlDevice_t, nvmlProcessUtilizationSample_t* out,
                                                  unsigned* size,
                                                  unsigned long long) { return sample(out, size, false); });
  count = 4;
  EXPECT_EQ(CALL(nvmlDeviceGetProcessUtilization, handle("GPU-c"), samples, &count, 0ULL),
            NVML_ERROR_NOT_FOUND);
}

// The list grows between the question for its size and the answer.
TEST_F(NvmlHooks, AProcessListThatGrowsMeanwhileIsReadAgain) {
  static unsigned running;
  running = 3;
  stand_in<&::nvmlDeviceGetComputeRunningProcesses_v3>(
      [](nvmlDevice_t, unsigned* count, nvmlProcessInfo_t* infos) {
        const unsigned room = *count;
        *count = running;
        if (running > room) return running += 9, NVML_ERROR_INSUFFICIENT_SIZE;
        for (unsigned i = 0; i < running; ++i)
          infos[i] = {.pid = i + 1 == running ? static_cast<unsigned>(getpid()) : i + 1,
                      .usedGpuMemory = 800,
                      .gpuInstanceId = 0,
                      .computeInstanceId = 0};
        return NVML_SUCCESS;
      });
  nvmlProcessInfo_t info{};
  unsigned count = 0;
  EXPECT_EQ(CALL(nvmlDeviceGetComputeRunningProcesses_v3, handle("GPU-c"), &count,
                 static_cast<nvmlProcessInfo_t*>(nullptr)),
            NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 1u);
  ASSERT_EQ(CALL(nvmlDeviceGetComputeRunningProcesses_v3, handle("GPU-c"), &count, &info), NVML_SUCCESS);
  EXPECT_EQ(info.pid, static_cast<unsigned>(getpid()));
  EXPECT_EQ(info.usedGpuMemory, 500u) << "never more than the cap";
}

}  // namespace
}  // namespace gpufence::hooks
