// Memory and events between processes through the stand-in runtime. Source: cuda_runtime_api.h
// (cudaIpcGetMemHandle and its neighbours). The parent never calls CUDA.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "tests/sim/test/descriptors.h"
#include "tests/sim/test/process.h"

namespace {

using gpufence::sim::hear;
using gpufence::sim::tell;

#define OK(call) EXPECT_EQ(call, cudaSuccess)

struct Handles {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

TEST(RuntimeIpc, TwoProcessesPassMemoryToAndFroInOrderOfAnEvent) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const gpufence::sim::Environment machine = {{"GPUFENCE_SIM", "2xh100"}};
  const pid_t producer = gpufence::sim::start(machine, [&] {
    int* memory = nullptr;
    cudaEvent_t event = nullptr;
    cudaStream_t stream = nullptr;
    OK(cudaMalloc(reinterpret_cast<void**>(&memory), 4096));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    OK(cudaMemsetAsync(memory, 0x11, 4096, stream));
    OK(cudaEventRecord(event, stream));
    Handles handles{};
    OK(cudaIpcGetMemHandle(&handles.memory, memory));
    OK(cudaIpcGetEventHandle(&handles.event, event));
    EXPECT_EQ(cudaIpcGetMemHandle(nullptr, memory), cudaErrorInvalidValue);
    void* own = nullptr;
    EXPECT_EQ(cudaIpcOpenMemHandle(&own, handles.memory, cudaIpcMemLazyEnablePeerAccess),
              cudaErrorDeviceUninitialized);
    EXPECT_EQ(cudaGetLastError(), cudaErrorDeviceUninitialized);
    EXPECT_EQ(write(ends[0], &handles, sizeof handles), static_cast<ssize_t>(sizeof handles));
    EXPECT_EQ(hear(ends[0]), 'r');
    OK(cudaStreamWaitEvent(stream, event, 0));
    int word = 0;
    OK(cudaMemcpyAsync(&word, memory + 1, sizeof word, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(word, 0x22222222);
    tell(ends[0], 'd');
  });
  const pid_t consumer = gpufence::sim::start(machine, [&] {
    Handles handles{};
    EXPECT_EQ(recv(ends[1], &handles, sizeof handles, MSG_WAITALL), static_cast<ssize_t>(sizeof handles));
    OK(cudaSetDevice(1));  // a peer of the other's
    int* memory = nullptr;
    cudaEvent_t event = nullptr;
    void** out = reinterpret_cast<void**>(&memory);
    EXPECT_EQ(cudaIpcOpenMemHandle(out, handles.memory, 0), cudaErrorInvalidValue);
    OK(cudaIpcOpenMemHandle(out, handles.memory, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaIpcOpenEventHandle(&event, handles.event));
    OK(cudaEventSynchronize(event));
    int word = 0;
    OK(cudaMemcpy(&word, memory + 1, sizeof word, cudaMemcpyDeviceToHost));
    EXPECT_EQ(word, 0x11111111);
    cudaPointerAttributes attributes{};
    OK(cudaPointerGetAttributes(&attributes, memory));
    EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
    EXPECT_EQ(attributes.device, 0);
    OK(cudaMemset(memory, 0x22, 4096));
    OK(cudaEventRecord(event, nullptr));
    tell(ends[1], 'r');
    EXPECT_EQ(hear(ends[1]), 'd');
    OK(cudaIpcCloseMemHandle(memory));
    EXPECT_EQ(cudaIpcCloseMemHandle(memory), cudaErrorInvalidValue);
    OK(cudaEventDestroy(event));
  });
  EXPECT_EQ(gpufence::sim::finish(producer), 0);
  EXPECT_EQ(gpufence::sim::finish(consumer), 0);
}

}  // namespace
