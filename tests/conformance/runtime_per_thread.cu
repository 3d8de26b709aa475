// The runtime as programs get it that are compiled with --default-stream per-thread: each thread's stream 0
// is its own.
#include <thread>

#include "runtime.h"

namespace conform {
namespace {

__global__ void set(uint32_t* out, uint32_t value) {
  *out = value;
}

CONFORMS(Runtime, StreamZeroIsOfTheThread,
         "CUDA C++ Programming Guide, Default Stream: for code that is compiled using the --default-stream "
         "per-thread compilation flag, the default stream is a regular stream and each host thread has "
         "its own default stream") {
  Fresh here;
  unsigned long long zero = 0, own = 0, legacy = 0, others = 0;
  OK(cudaStreamGetId(nullptr, &zero));
  OK(cudaStreamGetId(cudaStreamPerThread, &own));
  OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
  std::thread([&] { OK(cudaStreamGetId(nullptr, &others)); }).join();
  EXPECT_EQ(zero, own);
  EXPECT_NE(zero, legacy);
  EXPECT_NE(zero, others);
}

CONFORMS(Runtime, ThreadsDoNotWaitForEachOther,
         "CUDA Runtime API, Stream synchronization behavior, Per-thread default stream: an implicit stream "
         "local to both the thread and the CUcontext, and which does not synchronize with other streams "
         "(just like explicitly created streams)") {
  Fresh here;
  Memory<> word(1);
  set<<<1, 1>>>(word, 8);  // loaded now: loading it may wait for all work (Programming Guide, Lazy Loading)
  OK(cudaStreamSynchronize(nullptr));
  Gate gate;
  gate.hold(cudaStreamPerThread);
  std::thread([&] {
    set<<<1, 1>>>(word, 9);
    OK(cudaStreamSynchronize(nullptr));
  }).join();
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.open();
  OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(word.read()[0], 9u);
}

CONFORMS(Runtime, TheLegacyStreamWaitsForThem,
         "CUDA Runtime API, Stream synchronization behavior: the per-thread default stream is not a "
         "non-blocking stream and will synchronize with the legacy default stream if both are used in a "
         "program") {
  Fresh here;
  Gate gate;
  Diary diary;
  gate.hold(cudaStreamPerThread);
  diary.write(cudaStreamPerThread, 'a');
  diary.write(cudaStreamLegacy, 'b');
  EXPECT_EQ(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  gate.open();
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(diary.read(), "ab");
}

CONFORMS(Runtime, EveryCallTakesTheThreadsStream,
         "CUDA Driver API, Stream synchronization behavior: the per-thread default stream can be used by "
         "compiling with the nvcc option --default-stream per-thread: APIs that take stream 0 have _ptsz and "
         "_ptds variants") {
  Fresh here;
  Memory<> word(1);
  uint32_t* host = nullptr;
  cudaEvent_t mine = nullptr, theirs = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&host), 4));
  OK(cudaEventCreate(&mine));
  OK(cudaEventCreate(&theirs));
  *host = 1;
  OK(cudaMemset(word, 0, 4));
  OK(cudaStreamSynchronize(nullptr));
  Gate gate;
  gate.hold(cudaStreamPerThread);
  OK(cudaMemsetAsync(word, 0xff, 4));
  OK(cudaMemcpyAsync(host, word, 4, cudaMemcpyDeviceToHost));
  OK(cudaEventRecord(mine));
  std::thread([&] {
    OK(cudaEventRecord(theirs));
    OK(cudaEventSynchronize(theirs));
  }).join();
  EXPECT_EQ(cudaEventQuery(mine), cudaErrorNotReady);
  EXPECT_EQ(*host, 1u);
  gate.open();
  OK(cudaEventSynchronize(mine));
  EXPECT_EQ(*host, 0xffffffffu);
  OK(cudaEventDestroy(mine));
  OK(cudaEventDestroy(theirs));
  OK(cudaFreeHost(host));
}

}  // namespace
}  // namespace conform
