// Calls of the runtime that are the driver's under other names and types: that each reaches it, by either
// default stream, and what the runtime checks itself. Every test runs alone, in a fresh process (ctest), on
// two simulated GPUs with NVLink. Source: cuda_runtime_api.h, at the functions named.
// Programs of CUDA 8 still call these.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/sim/test/gate.h"

// What programs compiled with a default stream per thread call; the headers rename to them.
extern "C" {
cudaError_t cudaMemcpyBatchAsync_ptsz(void* const*, const void* const*, const size_t*, size_t,
                                      cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t);
cudaError_t cudaMemPrefetchBatchAsync_ptsz(void**, size_t*, size_t, cudaMemLocation*, size_t*, size_t,
                                           unsigned long long, cudaStream_t);
cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*);
cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t, cudaStreamAttrID, cudaStreamAttrValue*);
cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t, void*, size_t, unsigned int);
}

namespace {

using gpufence::sim::Gate;

#define OK(call) EXPECT_EQ(call, cudaSuccess)

template <class T>
T* memory_of(size_t count) {
  void* memory = nullptr;
  OK(cudaMalloc(&memory, count * sizeof(T)));
  OK(cudaMemset(memory, 0, count * sizeof(T)));
  return static_cast<T*>(memory);
}

cudaStream_t a_stream() {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

TEST(RuntimeBatches, CopyInOrder) {
  int* memory = memory_of<int>(4);
  const cudaStream_t stream = a_stream();
  int in_order = 1, at_once = 2, back[2] = {};
  void* to[] = {memory, memory + 1};
  const void* from[] = {&in_order, &at_once};
  size_t bytes[] = {4, 4}, first_of[] = {0, 1};
  cudaMemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  Gate gate;
  EXPECT_EQ(gate.hold(stream), CUDA_SUCCESS);
  OK(cudaMemcpyBatchAsync(to, from, bytes, 2, attributes, first_of, 2, stream));
  in_order = at_once = 10;
  gate.open();
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(back, memory, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[0], 10);
  EXPECT_EQ(back[1], 2);
  EXPECT_EQ(cudaMemcpyBatchAsync(to, from, bytes, 2, attributes, first_of, 2, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  OK(cudaMemcpyBatchAsync_ptsz(to, from, bytes, 2, attributes, first_of, 2, nullptr));
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  OK(cudaMemcpy(back, memory, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[1], 10);

  cudaMemcpy3DBatchOp op{};
  op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
  op.src.op.ptr.ptr = memory;
  op.dst.op.ptr.ptr = memory + 2;
  op.extent = {4, 2, 1};  // bytes
  op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  OK(cudaMemcpy3DBatchAsync(1, &op, 0, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(back, memory + 2, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[0], 10);
  EXPECT_EQ(back[1], 10);
}

TEST(RuntimeBatches, PrefetchAndDiscard) {
  void* memory = nullptr;
  OK(cudaMallocManaged(&memory, 1 << 16, cudaMemAttachGlobal));
  const cudaStream_t stream = a_stream();
  size_t bytes = 1 << 16, first_of = 0;
  cudaMemLocation there{};
  there.type = cudaMemLocationTypeDevice;
  there.id = 1;
  const auto last = [&] {
    int value = -77;
    OK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeLastPrefetchLocation, memory, bytes));
    return value;
  };
  OK(cudaMemPrefetchBatchAsync(&memory, &bytes, 1, &there, &first_of, 1, 0, stream));
  EXPECT_EQ(last(), 1);
  there.id = 0;
  OK(cudaMemPrefetchBatchAsync_ptsz(&memory, &bytes, 1, &there, &first_of, 1, 0, nullptr));
  EXPECT_EQ(last(), 0);
  OK(cudaMemDiscardBatchAsync(&memory, &bytes, 1, 0, stream));
  there.type = cudaMemLocationTypeHost;
  OK(cudaMemDiscardAndPrefetchBatchAsync(&memory, &bytes, 1, &there, &first_of, 1, 0, stream));
  EXPECT_EQ(last(), -1);
  OK(cudaStreamAttachMemAsync(stream, memory, 0, cudaMemAttachSingle));
  EXPECT_EQ(cudaStreamAttachMemAsync(nullptr, memory, 0, cudaMemAttachSingle), cudaErrorInvalidValue);
  OK(cudaStreamAttachMemAsync_ptsz(nullptr, memory, 0, cudaMemAttachSingle));  // a specific stream
}

TEST(RuntimeStreams, KeepTheirAttributes) {
  const cudaStream_t stream = a_stream(), other = a_stream();
  cudaStreamAttrValue value{};
  value.accessPolicyWindow.num_bytes = 4096;
  value.accessPolicyWindow.hitRatio = 0.25F;
  value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  OK(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value));
  OK(cudaStreamCopyAttributes(other, stream));
  value = {};
  OK(cudaStreamGetAttribute(other, cudaStreamAttributeAccessPolicyWindow, &value));
  EXPECT_EQ(value.accessPolicyWindow.num_bytes, 4096u);
  EXPECT_EQ(value.accessPolicyWindow.hitProp, cudaAccessPropertyPersisting);
  value.syncPolicy = cudaSyncPolicyYield;
  OK(cudaStreamSetAttribute_ptsz(nullptr, cudaStreamAttributeSynchronizationPolicy, &value));
  value = {};
  OK(cudaStreamGetAttribute_ptsz(nullptr, cudaStreamAttributeSynchronizationPolicy, &value));
  EXPECT_EQ(value.syncPolicy, cudaSyncPolicyYield);
  OK(cudaStreamGetAttribute(nullptr, cudaStreamAttributeSynchronizationPolicy, &value));
  EXPECT_EQ(value.syncPolicy, cudaSyncPolicyAuto);
  OK(cudaCtxResetPersistingL2Cache());
}

TEST(RuntimeDevices, AreTriedInTheOrderThatWasSet) {
  int devices[] = {1, 0}, device = -1;
  EXPECT_EQ(cudaSetValidDevices(devices, 3), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetValidDevices(nullptr, 1), cudaErrorInvalidValue);
  int unknown[] = {0, 2};
  EXPECT_EQ(cudaSetValidDevices(unknown, 2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  OK(cudaSetValidDevices(devices, 2));
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  OK(cudaFree(nullptr));
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
  OK(cudaSetDevice(0));
  std::thread([] {
    int own = -1;
    OK(cudaGetDevice(&own));
    EXPECT_EQ(own, 1);
    OK(cudaSetValidDevices(nullptr, 0));  // "go back to its default behavior"
    OK(cudaGetDevice(&own));
    EXPECT_EQ(own, 0);
  }).join();
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST(RuntimeDevices, TellWhatTheirLinksDo) {
  const cudaAtomicOperation add = cudaAtomicOperationIntegerAdd;
  unsigned told = 0;
  OK(cudaDeviceGetP2PAtomicCapabilities(&told, &add, 1, 0, 1));
  EXPECT_NE(told & cudaAtomicCapabilityReduction, 0u);
  OK(cudaDeviceGetHostAtomicCapabilities(&told, &add, 1, 0));
  EXPECT_EQ(told, 0u);
  EXPECT_EQ(cudaDeviceGetHostAtomicCapabilities(&told, &add, 1, 2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetP2PAtomicCapabilities(&told, &add, 1, 1, 1), cudaErrorInvalidDevice);
}

TEST(RuntimeLogs, AreEmpty) {
  cudaLogIterator at = 5;
  OK(cudaLogsCurrent(&at, 0));
  char text[8] = "before";
  size_t size = sizeof text;
  OK(cudaLogsDumpToMemory(&at, text, &size, 0));
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(cudaLogsDumpToFile(&at, nullptr, 0), cudaErrorInvalidValue);
  cudaLogsCallbackHandle handle = nullptr;
  OK(cudaLogsRegisterCallback([](void*, cudaLogLevel, char*, size_t) {}, nullptr, &handle));
  OK(cudaLogsUnregisterCallback(handle));
  EXPECT_EQ(cudaLogsUnregisterCallback(handle), cudaErrorInvalidValue);
}

// "Returns the last error that has been produced by any of the runtime calls in the same instance of the CUDA
// Runtime library in the host thread and resets it" (cudaGetLastError).
TEST(RuntimeErrors, AreEachThreadsOwn) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] {
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(RuntimeArrays, PassBytesToEachOtherFromAnyPlace) {
  const cudaChannelFormatDesc bytes = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t from = nullptr, to = nullptr;
  OK(cudaMallocArray(&from, &bytes, 4, 3, 0));
  OK(cudaMallocArray(&to, &bytes, 6, 2, 0));
  const char source[] = "abcdefghijkl";
  char back[13] = "............";
  OK(cudaMemcpy2DToArray(from, 0, 0, source, 4, 4, 3, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DToArray(to, 0, 0, back, 6, 6, 2, cudaMemcpyHostToDevice));
  // From the third byte of the second row on, to the fifth of the first.
  OK(cudaMemcpyArrayToArray(to, 4, 0, from, 2, 1, 5, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpy2DFromArray(back, 6, to, 0, 0, 6, 2, cudaMemcpyDeviceToHost));
  EXPECT_STREQ(back, "....ghijk...");
  EXPECT_EQ(cudaMemcpyArrayToArray(to, 0, 0, from, 0, 0x4000'0000'0000'0000, 1, cudaMemcpyDeviceToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyArrayToArray(to, 0, 0, from, 0, 0, 13, cudaMemcpyDeviceToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyArrayToArray(to, 0, 0, from, 0, 0, 1, cudaMemcpyHostToDevice),
            cudaErrorInvalidMemcpyDirection);
}

}  // namespace
