// Whose handles are that no simulator makes yet: green contexts and their streams, events of other processes,
// streams that were made unseen. Above a driver of a dozen functions and two GPUs.
#include <gtest/gtest.h>

#include <cstring>

#include "dispatch/dispatch.h"
#include "fence.h"
#include "hooks/finding.h"

namespace gpufence::hooks {
namespace {

namespace dispatch = gpufence::dispatch;
using observe::Kind;

template <auto Function, class F>
void stand_in(F function) {
  dispatch::target<Function>.store(reinterpret_cast<void*>(+function));
}

template <auto Function, class... Arguments>
CUresult call(const char* name, Arguments... arguments) {
  for (const dispatch::Record* record : dispatch::records()) {
    if (record->body != nullptr && std::strcmp(record->name, name) == 0)
      return reinterpret_cast<decltype(Function)>(record->body)(arguments...);
  }
  ADD_FAILURE() << name << " is not hooked";
  return CUDA_ERROR_UNKNOWN;
}

template <class Handle>
Handle handle(std::uintptr_t n) {
  return reinterpret_cast<Handle>(0x5000'0000 + 64 * n);
}

constinit CUresult answer = CUDA_SUCCESS;  // of what is made or destroyed
constinit int current = 0;                 // the current context's GPU

// One process has one set of rules.
class Handles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (have_rules()) return;
    publish_rules(configure([](const char* name) {
                    return std::strcmp(name, "GPUFENCE_STDERR") == 0 ? std::optional<std::string>("off")
                                                                     : std::nullopt;
                  }).rules);
    stand_in<&::cuInit>([](unsigned int) { return CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetCount>([](int* count) { return *count = 2, CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetUuid_v2>(
        [](CUuuid* uuid, CUdevice device) { return std::memset(uuid, device, sizeof *uuid), CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetPCIBusId>(
        [](char* text, int, CUdevice) { return std::strcpy(text, "0000:0A:00.0"), CUDA_SUCCESS; });
    stand_in<&::cuDeviceGetName>(
        [](char* text, int, CUdevice) { return std::strcpy(text, "Fake"), CUDA_SUCCESS; });
    stand_in<&::cuDeviceTotalMem_v2>([](size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; });
    stand_in<&::cuCtxGetDevice>([](CUdevice* device) { return *device = current, CUDA_SUCCESS; });
    stand_in<&::cuCtxGetCurrent>(
        [](CUcontext* context) { return *context = handle<CUcontext>(1), CUDA_SUCCESS; });
    stand_in<&::cuGreenCtxCreate>([](CUgreenCtx* made, CUdevResourceDesc, CUdevice, unsigned int) {
      return *made = handle<CUgreenCtx>(2), answer;
    });
    stand_in<&::cuGreenCtxDestroy>([](CUgreenCtx) { return answer; });
    stand_in<&::cuCtxFromGreenCtx>(
        [](CUcontext* context, CUgreenCtx) { return *context = handle<CUcontext>(3), answer; });
    stand_in<&::cuGreenCtxStreamCreate>(
        [](CUstream* made, CUgreenCtx, unsigned int, int) { return *made = handle<CUstream>(4), answer; });
    stand_in<&::cuStreamGetCtx>(
        [](CUstream, CUcontext* context) { return *context = handle<CUcontext>(3), answer; });
    stand_in<&::cuStreamDestroy_v2>([](CUstream) { return answer; });
    stand_in<&::cuIpcOpenEventHandle>(
        [](CUevent* made, CUipcEventHandle) { return *made = handle<CUevent>(6), answer; });
    ASSERT_EQ(call<&::cuInit>("cuInit", 0u), CUDA_SUCCESS);
    ASSERT_NE(owners(), nullptr);
  }
  void SetUp() override {
    answer = CUDA_SUCCESS;
    current = 0;
  }

  static int device_of(Kind kind, const void* handle) {
    const auto owner = owners()->find(kind, handle);
    return owner ? owner->device : -2;
  }
  static CUgreenCtx green_context_on_one() {
    CUgreenCtx made = nullptr;
    EXPECT_EQ(call<&::cuGreenCtxCreate>("cuGreenCtxCreate", &made, CUdevResourceDesc{}, CUdevice{1}, 0u),
              CUDA_SUCCESS);
    return made;
  }
};

TEST_F(Handles, OfAGreenContextAreItsGpusWhateverIsCurrent) {
  const CUgreenCtx green = green_context_on_one();
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(call<&::cuCtxFromGreenCtx>("cuCtxFromGreenCtx", &context, green), CUDA_SUCCESS);
  ASSERT_EQ(call<&::cuGreenCtxStreamCreate>("cuGreenCtxStreamCreate", &stream, green, 0u, 0), CUDA_SUCCESS);
  EXPECT_EQ(device_of(Kind::context, context), 1);
  EXPECT_EQ(device_of(Kind::stream, stream), 1);
  answer = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(call<&::cuGreenCtxDestroy>("cuGreenCtxDestroy", green), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(device_of(Kind::green, green), 1);  // it is still there
  answer = CUDA_SUCCESS;
  EXPECT_EQ(call<&::cuGreenCtxDestroy>("cuGreenCtxDestroy", green), CUDA_SUCCESS);
  EXPECT_EQ(device_of(Kind::green, green), -2);
  EXPECT_EQ(call<&::cuStreamDestroy_v2>("cuStreamDestroy_v2", stream), CUDA_SUCCESS);
  EXPECT_EQ(device_of(Kind::stream, stream), -2);
}

TEST_F(Handles, OfAStreamThatWasMadeUnseenAreWhatItsContextIs) {
  CUcontext context = nullptr;
  const auto unseen = handle<CUstream>(5);
  ASSERT_EQ(call<&::cuCtxFromGreenCtx>("cuCtxFromGreenCtx", &context, green_context_on_one()), CUDA_SUCCESS);
  ASSERT_EQ(call<&::cuStreamGetCtx>("cuStreamGetCtx", unseen, &context), CUDA_SUCCESS);
  EXPECT_EQ(device_of(Kind::stream, unseen), 1);
  for (const CUstream none : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    ASSERT_EQ(call<&::cuStreamGetCtx>("cuStreamGetCtx", none, &context), CUDA_SUCCESS);
    EXPECT_EQ(device_of(Kind::stream, none), -2);
  }
  answer = CUDA_ERROR_INVALID_HANDLE;
  const auto other = handle<CUstream>(7);
  EXPECT_EQ(call<&::cuStreamGetCtx>("cuStreamGetCtx", other, &context), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(device_of(Kind::stream, other), -2);
}

TEST_F(Handles, OfAnotherProcessAreOfTheGpuWhereTheyAreOpened) {
  CUevent event = nullptr;
  current = 1;
  ASSERT_EQ(call<&::cuIpcOpenEventHandle>("cuIpcOpenEventHandle", &event, CUipcEventHandle{}), CUDA_SUCCESS);
  EXPECT_EQ(device_of(Kind::event, event), 1);
}

}  // namespace
}  // namespace gpufence::hooks
