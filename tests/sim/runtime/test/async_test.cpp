// Streams, faults and peers through the stand-in runtime. Every test runs alone, in a fresh process (ctest),
// on two simulated GPUs with NVLink.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/sim/driver/inside.h"
#include "tests/sim/test/gate.h"

// What programs compiled with a default stream per thread call; the headers rename to them.
extern "C" {
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* data);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
}

namespace {

using gpufence::sim::Diary;
using gpufence::sim::Gate;

#define OK(call) EXPECT_EQ(call, cudaSuccess)

void* memory_of(size_t bytes) {
  void* memory = nullptr;
  OK(cudaMalloc(&memory, bytes));
  return memory;
}

// Kills the context of the stream, which is waited for.
void fault(cudaStream_t stream, CUresult code) {
  CUuuid id;
  memcpy(id.bytes, gpufence::sim::kInsideTableId, sizeof id.bytes);
  const void* table = nullptr;
  ASSERT_EQ(cuGetExportTable(&table, &id), CUDA_SUCCESS);
  static_cast<const gpufence::sim::InsideTable*>(table)->fault(stream, code);
  EXPECT_EQ(cuStreamSynchronize(stream), code);
}

TEST(Errors, EveryCodeOfDriverTypesHHasItsName) {
  std::ifstream header(DRIVER_TYPES_H);
  int count = 0, code = 0;
  char declared[100];
  for (std::string line; std::getline(header, line);) {
    if (sscanf(line.c_str(), " %99[A-Za-z_0-9] = %d", declared, &code) != 2) continue;
    if (strcmp(declared, "cudaSuccess") != 0 && strncmp(declared, "cudaError", 9) != 0) continue;
    ++count;
    EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(code)), declared);
    const char *sentence = cudaGetErrorString(static_cast<cudaError_t>(code)), *drivers = nullptr;
    EXPECT_GT(strlen(sentence), 5u) << declared;
    if (cuGetErrorString(static_cast<CUresult>(code), &drivers) == CUDA_SUCCESS) {
      EXPECT_STREQ(sentence, drivers) << declared;
    }
  }
  EXPECT_EQ(count, 133);  // and cudaErrorApiFailureBase, which is marked deprecated there
}

TEST(Errors, OfFaultsReadAsPeopleKnowThem) {
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMisalignedAddress), "misaligned address");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorIllegalInstruction), "an illegal instruction was encountered");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorHardwareStackError), "hardware stack error");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorAssert), "device-side assert triggered");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "unspecified launch failure");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidPc), "invalid program counter");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorNotReady), "device not ready");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidResourceHandle), "invalid resource handle");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorPeerAccessAlreadyEnabled), "peer access is already enabled");
}

TEST(Faults, StickAndOtherErrorsDoNot) {
  OK(cudaSetDevice(0));
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);

  cudaStream_t stream = nullptr;
  OK(cudaStreamCreate(&stream));
  void* memory = memory_of(16);
  fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(memory), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  // What needs no work of the dead GPU.
  int device = -1, count = 0;
  OK(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  OK(cudaGetDeviceCount(&count));
  OK(cudaSetDevice(1));
  void* other = memory_of(16);
  OK(cudaMemset(other, 0, 16));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(cudaMemcpyPeer(other, 1, memory, 0, 16), cudaErrorIllegalAddress);
  OK(cudaSetDevice(0));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  // A new beginning.
  OK(cudaDeviceReset());
  memory = memory_of(16);
  OK(cudaMemset(memory, 0, 16));
  OK(cudaDeviceSynchronize());
  cudaGetLastError();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Faults, OfAnAssertEndTheStreamsOfTheirGpu) {
  cudaStream_t stream = nullptr, other = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Gate gate;
  OK(static_cast<cudaError_t>(gate.hold(other)));
  gate.reached();
  static cudaError_t told = cudaSuccess;
  OK(cudaStreamAddCallback(
      other, [](cudaStream_t, cudaError_t status, void*) { told = status; }, nullptr, 0));
  fault(stream, CUDA_ERROR_ASSERT);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(other), cudaErrorAssert);
  OK(cudaDeviceReset());
  EXPECT_EQ(told, cudaErrorAssert);
}

TEST(Streams, AreAsynchronousAndQueried) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, end = nullptr;
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  char* host = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&host), 100000));
  void* memory = memory_of(100000);
  Gate gate;
  Diary diary;
  OK(cudaEventRecord(start, stream));
  OK(static_cast<cudaError_t>(gate.hold(stream)));
  OK(cudaMemsetAsync(memory, 'k', 100000, stream));
  OK(cudaMemcpyAsync(host, memory, 100000, cudaMemcpyDeviceToHost, stream));
  OK(cudaEventRecord(end, stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  EXPECT_NE(cudaPeekAtLastError(), cudaErrorNotReady) << "no error, the programming guide says";
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NE(host[99999], 'k');
  gate.open();
  OK(cudaEventSynchronize(end));
  EXPECT_EQ(host[99999], 'k');
  OK(cudaEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 0);
  OK(cudaFreeHost(host));
}

TEST(Streams, HaveADefaultOneForEachThread) {
  Gate gate;
  bool done = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  OK(cudaFree(nullptr));  // makes the context
  OK(static_cast<cudaError_t>(gate.hold(CU_STREAM_PER_THREAD)));
  std::thread([&] {
    OK(cudaLaunchHostFunc_ptsz(nullptr, set, &done));
    OK(cudaStreamSynchronize_ptsz(nullptr));
    EXPECT_TRUE(done);
  }).join();
  gate.open();
  OK(cudaDeviceSynchronize());
}

TEST(Streams, HostFunctionsMayNotCallCuda) {
  static cudaError_t results[3];
  OK(cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        void* memory = nullptr;
        results[0] = cudaMalloc(&memory, 16);
        results[1] = cudaDeviceSynchronize();
        results[2] = cudaStreamQuery(nullptr);
      },
      nullptr));
  OK(cudaDeviceSynchronize());
  for (cudaError_t result : results) EXPECT_EQ(result, cudaErrorNotPermitted);
}

TEST(Streams, AreNotCapturing) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  OK(cudaStreamIsCapturing(nullptr, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  status = cudaStreamCaptureStatusActive;
  OK(cudaStreamGetCaptureInfo(nullptr, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
}

TEST(Streams, AndEventsOfAnotherGpuFailWhereDocumented) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr, other = nullptr;
  OK(cudaSetDevice(0));
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, stream));
  OK(cudaSetDevice(1));
  OK(cudaEventCreate(&other));
  OK(cudaEventRecord(other, nullptr));
  float ms = 0;
  EXPECT_EQ(cudaEventRecord(other, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event, other), cudaErrorInvalidResourceHandle);
  OK(cudaStreamWaitEvent(nullptr, event, 0));
  OK(cudaEventSynchronize(event));
  OK(cudaEventQuery(event));
}

TEST(Peers, AreEnabledOnceAndOneWay) {
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  OK(cudaDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0);
  int link = 0;
  OK(cudaDeviceGetP2PAttribute(&link, cudaDevP2PAttrAccessSupported, 0, 1));
  EXPECT_EQ(link, 1);
  OK(cudaSetDevice(0));
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(2, 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  OK(cudaSetDevice(1));
  EXPECT_EQ(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  void* there = memory_of(16);
  OK(cudaSetDevice(0));
  OK(cudaMemset(there, 5, 16));
  OK(cudaDeviceDisablePeerAccess(1));
  EXPECT_EQ(cudaMemset(there, 6, 16), cudaErrorInvalidValue);
  char back[16];
  OK(cudaMemcpy(back, there, 16, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[15], 5);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  OK(cudaSetDevice(1));
  OK(cudaDeviceReset());  // ends what was enabled to it
  there = memory_of(16);
  OK(cudaSetDevice(0));
  EXPECT_EQ(cudaMemset(there, 6, 16), cudaErrorInvalidValue);
  OK(cudaDeviceEnablePeerAccess(1, 0));
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory = std::filesystem::temp_directory_path() / "gpufence-async-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  setenv("GPUFENCE_SIM", "2xh100", 1);
  setenv("GPUFENCE_SIM_DIR", directory.c_str(), 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove_all(directory);
  return result;
}
