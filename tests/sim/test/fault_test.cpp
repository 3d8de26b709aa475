// Faults: what a dead context answers, to whom, until when, and what still works beside it.
#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>

#include "gate.h"
#include "inside.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

CUcontext context_on(int ordinal) {
  CUcontext context = nullptr;
  OK(cuCtxCreate(&context, nullptr, 0, ordinal));
  return context;
}

// A stream of the current context gets work that ends so.
void fault(CUstream stream, CUresult code) {
  CUuuid id;
  memcpy(id.bytes, kInsideTableId, sizeof id.bytes);
  const void* table = nullptr;
  ASSERT_EQ(cuGetExportTable(&table, &id), CUDA_SUCCESS);
  static_cast<const InsideTable*>(table)->fault(stream, code);
}

TEST(Fault, SticksToItsContextUntilThatIsDestroyed) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    OK(cuInit(0));
    CUcontext context = context_on(0);
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    OK(cuMemAlloc(&memory, 16));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS);
    constexpr CUresult kDead = CUDA_ERROR_ILLEGAL_ADDRESS;
    EXPECT_EQ(cuStreamSynchronize(stream), kDead);
    // Whatever touches the context, again and again.
    CUdeviceptr more = 0;
    CUstream other = nullptr;
    CUevent second = nullptr;
    char host[16];
    size_t free = 0, total = 0;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cuCtxSynchronize(), kDead);
      EXPECT_EQ(cuMemAlloc(&more, 16), kDead);
      EXPECT_EQ(cuMemFree(memory), kDead);
      EXPECT_EQ(cuMemcpyDtoH(host, memory, 16), kDead);
      EXPECT_EQ(cuMemsetD8Async(memory, 0, 16, stream), kDead);
      EXPECT_EQ(cuMemGetInfo(&free, &total), kDead);
      EXPECT_EQ(cuStreamCreate(&other, 0), kDead);
      EXPECT_EQ(cuStreamQuery(stream), kDead);
      EXPECT_EQ(cuStreamDestroy(stream), kDead);
      EXPECT_EQ(cuEventCreate(&second, 0), kDead);
      EXPECT_EQ(cuEventRecord(event, stream), kDead);
      EXPECT_EQ(cuEventQuery(event), kDead);
      EXPECT_EQ(cuLaunchHostFunc(
                    stream, [](void*) {}, nullptr),
                kDead);
    }
    // Who and where it is, devices, errors, the thread's stack.
    CUdevice device = -1;
    OK(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 0);
    unsigned long long id = 0;
    OK(cuCtxGetId(nullptr, &id));
    CUcontext current = nullptr;
    OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, context);
    int count = 0;
    OK(cuDeviceGetCount(&count));
    const char* text = nullptr;
    OK(cuGetErrorString(kDead, &text));
    EXPECT_STREQ(text, "an illegal memory access was encountered");
    // Another GPU.
    CUcontext healthy = context_on(1);
    OK(cuMemAlloc(&more, 16));
    OK(cuCtxSynchronize());
    EXPECT_EQ(cuMemcpy(more, memory, 16), kDead);
    EXPECT_EQ(cuEventQuery(event), kDead);
    EXPECT_EQ(cuStreamWaitEvent(nullptr, event, 0), kDead);
    EXPECT_EQ(cuStreamQuery(stream), kDead);
    EXPECT_EQ(cuMemFree(memory), kDead);
    EXPECT_EQ(cuCtxSynchronize_v2(context), kDead);
    OK(cuMemsetD8(more, 0, 16));
    // A new one on the same GPU works, and so does it once the dead one is gone.
    context_on(0);
    OK(cuMemAlloc(&more, 16));
    OK(cuCtxDestroy(context));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSetCurrent(healthy));
    OK(cuCtxSynchronize());
  });
}

TEST(Fault, OfAPrimaryContextEndsWithItsReset) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    CUcontext context = nullptr;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, 0));
    fault(stream, CUDA_ERROR_ASSERT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ASSERT);
    OK(cuDevicePrimaryCtxReset(0));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CUcontext again = nullptr;
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    EXPECT_EQ(again, context);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 16));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemsetD8Async(memory, 1, 16, stream));
    OK(cuCtxSynchronize());
  });
}

TEST(Fault, IsTheFirstOneAndKeepsItsCode) {
  const std::pair<CUresult, const char*> faults[] = {
      {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
      {CUDA_ERROR_HARDWARE_STACK_ERROR, "CUDA_ERROR_HARDWARE_STACK_ERROR"},
      {CUDA_ERROR_INVALID_PC, "CUDA_ERROR_INVALID_PC"},
      {CUDA_ERROR_INVALID_ADDRESS_SPACE, "CUDA_ERROR_INVALID_ADDRESS_SPACE"},
      {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT"},
      {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
      {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT"}};
  in_child({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    for (const auto& [code, expected] : faults) {
      CUcontext context = context_on(0);
      CUstream stream = nullptr;
      OK(cuStreamCreate(&stream, 0));
      fault(stream, code);
      EXPECT_EQ(cuStreamSynchronize(stream), code);
      fault(stream, CUDA_ERROR_UNKNOWN);
      EXPECT_EQ(cuCtxSynchronize(), code);
      const char* name = nullptr;
      OK(cuGetErrorName(code, &name));
      EXPECT_STREQ(name, expected);
      OK(cuCtxDestroy(context));
    }
  });
}

TEST(Fault, EndsTheWorkBehindItButForCallbacks) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    CUcontext context = context_on(0);
    CUstream stream = nullptr, other = nullptr;
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    static std::array<CUresult, 2> told{CUDA_SUCCESS, CUDA_SUCCESS};
    Gate gate;
    Diary diary;
    CUevent event = nullptr;
    OK(cuEventCreate(&event, 0));
    OK(gate.hold(stream));
    gate.reached();
    fault(stream, CUDA_ERROR_LAUNCH_FAILED);
    OK(diary.write(stream, 'x'));  // leaks its few bytes: it is never called
    OK(cuEventRecord(event, stream));
    const CUstreamCallback tell = [](CUstream, CUresult state, void* place) {
      told.at(place != nullptr) = state;
    };
    OK(cuStreamAddCallback(stream, tell, nullptr, 0));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuStreamAddCallback(other, tell, &gate, 0));
    gate.open();
    EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_LAUNCH_FAILED);
    OK(cuCtxDestroy(context));  // waits for what is left
    EXPECT_EQ(diary.read(), "");
    EXPECT_EQ(told[0], CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(told[1], CUDA_ERROR_LAUNCH_FAILED);
  });
}

TEST(Fault, IsSeenByTheSynchronousCopyBehindIt) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 16));
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, 0));
    Gate gate;
    OK(gate.hold(stream));
    gate.reached();
    fault(stream, CUDA_ERROR_MISALIGNED_ADDRESS);
    std::thread opener([&] { gate.open(); });
    char host[16] = "unchanged";
    EXPECT_EQ(cuMemcpyDtoH(host, memory, 16), CUDA_ERROR_MISALIGNED_ADDRESS);
    EXPECT_STREQ(host, "unchanged");
    opener.join();
  });
}

}  // namespace
}  // namespace gpufence::sim
