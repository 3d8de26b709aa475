// The hook bodies above a driver made of a dozen functions: what is booked, what reaches the driver and what
// does not.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "dispatch/dispatch.h"
#include "fence.h"
#include "hooks/rules.h"

namespace gpufence::hooks {
namespace {

namespace dispatch = gpufence::dispatch;

struct FakeDriver {
  CUdeviceptr next = 0x7000'0000'0000;
  std::set<CUdeviceptr> live;
  int pitch_calls = 0;
} fake;

template <auto Function, class F>
void stand_in(F function) {
  dispatch::target<Function>.store(reinterpret_cast<void*>(+function));
}

// Calls a hook as the gate would: through the body of its record.
template <auto Function, class... Arguments>
CUresult call(const char* name, Arguments... arguments) {
  for (const dispatch::Record* record : dispatch::records()) {
    if (record->body != nullptr && std::strcmp(record->name, name) == 0) {
      return reinterpret_cast<decltype(Function)>(record->body)(arguments...);
    }
  }
  ADD_FAILURE() << name << " is not hooked";
  return CUDA_ERROR_UNKNOWN;
}

CUresult give(CUdeviceptr* pointer) {
  *pointer = fake.next += 1 << 20;
  fake.live.insert(*pointer);
  return CUDA_SUCCESS;
}

// One process has one set of rules, so all tests share this machine: one GPU of 1 GiB with a cap of 1 MiB.
class Hooks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (have_rules()) return;
    const std::map<std::string, std::string> settings{{"GPUFENCE_GPU_MEM", "1MiB"},
                                                      {"GPUFENCE_STDERR", "off"}};
    publish_rules(configure([&](const char* name) {
                    const auto found = settings.find(name);
                    return found == settings.end() ? std::nullopt : std::optional<std::string>(found->second);
                  }).rules);
    stand_in<&::cuInit>([](unsigned int) { return CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetCount>([](int* count) { return *count = 1, CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetUuid_v2>(
        [](CUuuid* uuid, CUdevice) { return std::memset(uuid, 7, sizeof *uuid), CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetPCIBusId>(
        [](char* text, int, CUdevice) { return std::strcpy(text, "0000:0A:00.0"), CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetName>(
        [](char* text, int, CUdevice) { return std::strcpy(text, "Fake"), CUDA_SUCCESS; });
    stand_in<&::cuDeviceTotalMem_v2>([](size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; });
    stand_in<&::cuMemGetInfo_v2>(
        [](size_t* free, size_t* total) { return *free = *total = 1 << 30, CUDA_SUCCESS; });
    stand_in<&::cuCtxGetDevice>([](CUdevice* device) { return *device = 0, CUDA_SUCCESS; });
    stand_in<&::cuCtxGetCurrent>(
        [](CUcontext* context) { return *context = reinterpret_cast<CUcontext>(&fake), CUDA_SUCCESS; });
    stand_in<&::cuMemAlloc_v2>([](CUdeviceptr* pointer, size_t) { return give(pointer); });
    stand_in<&::cuMemAllocPitch_v2>(
        [](CUdeviceptr* pointer, size_t* pitch, size_t width, size_t, unsigned int) {
          ++fake.pitch_calls;
          *pitch = (width + 511) / 512 * 512;
          return give(pointer);
        });
    const auto free = [](CUdeviceptr pointer) {
      return fake.live.erase(pointer) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    stand_in<&::cuMemFree_v2>(free);
    stand_in<&::cuMemFreeAsync>([](CUdeviceptr pointer, CUstream) {
      return fake.live.erase(pointer) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
    ASSERT_EQ(call<&::cuInit>("cuInit", 0u), CUDA_SUCCESS);
    ASSERT_NE(visible(), nullptr);
  }
  static std::uint64_t held() { return visible()->ledger->balance(0).held; }
};

TEST_F(Hooks, AStreamOrderedFreeGivesBackWhatCuMemAllocTook) {
  CUdeviceptr pointer = 0;
  ASSERT_EQ(call<&::cuMemAlloc_v2>("cuMemAlloc_v2", &pointer, size_t{1} << 20), CUDA_SUCCESS);
  EXPECT_EQ(held(), 1u << 20);
  EXPECT_EQ(call<&::cuMemFreeAsync>("cuMemFreeAsync", pointer, CUstream{}), CUDA_SUCCESS);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(call<&::cuMemFreeAsync>("cuMemFreeAsync", pointer, CUstream{}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(held(), 0u);
}

TEST_F(Hooks, AFailedFreeKeepsTheHolding) {
  CUdeviceptr pointer = 0;
  ASSERT_EQ(call<&::cuMemAlloc_v2>("cuMemAlloc_v2", &pointer, size_t{4096}), CUDA_SUCCESS);
  fake.live.erase(pointer);
  EXPECT_EQ(call<&::cuMemFree_v2>("cuMemFree_v2", pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(held(), 4096u);
  fake.live.insert(pointer);
  EXPECT_EQ(call<&::cuMemFree_v2>("cuMemFree_v2", pointer), CUDA_SUCCESS);
  EXPECT_EQ(held(), 0u);
}

TEST_F(Hooks, RowsAreBookedAsTheDriverWillMakeThemAndNothingIsWrittenOnARefusal) {
  CUdeviceptr pointer = 42;
  size_t pitch = 43;
  ASSERT_EQ(call<&::cuMemAllocPitch_v2>("cuMemAllocPitch_v2", &pointer, &pitch, size_t{1}, size_t{2048}, 4u),
            CUDA_SUCCESS);
  EXPECT_EQ(held(), 512u * 2048);  // the cap to the byte
  EXPECT_EQ(pitch, 512u);
  EXPECT_EQ(call<&::cuMemFree_v2>("cuMemFree_v2", pointer), CUDA_SUCCESS);
  const int before = fake.pitch_calls;
  pointer = 42;
  pitch = 43;
  EXPECT_EQ(call<&::cuMemAllocPitch_v2>("cuMemAllocPitch_v2", &pointer, &pitch, size_t{1}, size_t{2049}, 4u),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pointer, 42u);
  EXPECT_EQ(pitch, 43u);
  EXPECT_EQ(fake.pitch_calls, before);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(call<&::cuMemAllocPitch_v2>("cuMemAllocPitch_v2", &pointer, &pitch, SIZE_MAX, size_t{2}, 4u),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(held(), 0u);
}

TEST_F(Hooks, WhatIsToldOfMemoryIsTheCap) {
  size_t free = 0, total = 0, bytes = 0;
  ASSERT_EQ(call<&::cuMemGetInfo_v2>("cuMemGetInfo_v2", &free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, 1u << 20);
  EXPECT_EQ(total, 1u << 20);
  ASSERT_EQ(call<&::cuDeviceTotalMem_v2>("cuDeviceTotalMem_v2", &bytes, CUdevice{0}), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 1u << 20);
}

TEST_F(Hooks, ARefusalIsCountedAndTheLastByteIsNotRefused) {
  const std::uint64_t refusals = visible()->ledger->balance(0).refusals;
  CUdeviceptr pointer = 0, more = 0;
  ASSERT_EQ(call<&::cuMemAlloc_v2>("cuMemAlloc_v2", &pointer, size_t{(1 << 20) - 1}), CUDA_SUCCESS);
  EXPECT_EQ(call<&::cuMemAlloc_v2>("cuMemAlloc_v2", &more, size_t{2}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(visible()->ledger->balance(0).refusals, refusals + 1);
  ASSERT_EQ(call<&::cuMemAlloc_v2>("cuMemAlloc_v2", &more, size_t{1}), CUDA_SUCCESS);
  EXPECT_EQ(call<&::cuMemFree_v2>("cuMemFree_v2", pointer), CUDA_SUCCESS);
  EXPECT_EQ(call<&::cuMemFree_v2>("cuMemFree_v2", more), CUDA_SUCCESS);
  EXPECT_EQ(held(), 0u);
}

}  // namespace
}  // namespace gpufence::hooks
