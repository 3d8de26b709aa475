// Streams and events of the simulated driver: what is asynchronous, what waits for what, and what becomes of
// work whose stream or context goes. Host functions that wait for a condition prove order; nothing depends on
// speed.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

CUdeviceptr memory_of(size_t bytes) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, bytes));
  return memory;
}

char* pinned_of(size_t bytes) {
  void* memory = nullptr;
  OK(cuMemHostAlloc(&memory, bytes, 0));
  memset(memory, '.', bytes);
  return static_cast<char*>(memory);
}

CUstream stream_of(unsigned flags = CU_STREAM_DEFAULT) {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

CUevent event_of(unsigned flags = CU_EVENT_DEFAULT) {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, flags));
  return event;
}

template <class Function>
Function exported(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Each test in a process with this machine and a context on its first GPU.
void on_machine(const char* machine, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

TEST(Streams, WorkIsDoneLaterAndInItsOrder) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUdeviceptr memory = memory_of(200000);
    char* host = pinned_of(200000);
    CUevent event = event_of();
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemsetD8Async(memory, 'a', 200000, stream));
    OK(cuMemcpyDtoHAsync(host, memory, 200000, stream));
    OK(cuMemsetD8Async(memory, 'b', 200000, stream));
    OK(cuMemcpyDtoHAsync(host, memory, 1, stream));
    OK(cuEventRecord(event, stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(host[199999], '.');
    gate.open();
    OK(cuEventSynchronize(event));
    OK(cuStreamQuery(stream));
    OK(cuEventQuery(event));
    EXPECT_EQ(std::string(host, 3), "baa");
    EXPECT_EQ(host[199999], 'a');
  });
}

TEST(Streams, OfOneGpuDoNotWaitForEachOther) {
  on_machine("1", [] {
    CUstream held = stream_of(), free = stream_of();
    Gate gate;
    Diary diary;
    OK(gate.hold(held));
    OK(diary.write(held, '2'));
    OK(diary.write(free, '1'));
    OK(cuStreamSynchronize(free));
    EXPECT_EQ(diary.read(), "1");
    gate.open();
    OK(cuCtxSynchronize());
    EXPECT_EQ(diary.read(), "12");
  });
}

TEST(Streams, TheLegacyStreamWaitsForBlockingOnesAndTheyForIt) {
  on_machine("1", [] {
    CUstream blocking = stream_of(), other = stream_of(), independent = stream_of(CU_STREAM_NON_BLOCKING);
    Gate gate;
    Diary diary;
    OK(gate.hold(blocking));
    OK(diary.write(blocking, 'a'));
    OK(diary.write(nullptr, 'b'));  // after a
    OK(diary.write(other, 'c'));    // after b, though another stream
    OK(diary.write(independent, '*'));
    OK(cuStreamSynchronize(independent));
    EXPECT_EQ(diary.read(), "*");
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cuStreamSynchronize(other));
    EXPECT_EQ(diary.read(), "*abc");
    OK(cuStreamQuery(nullptr));
  });
}

TEST(Streams, SynchronisingTheLegacyStreamWaitsForBlockingOnes) {
  on_machine("1", [] {
    CUstream blocking = stream_of();
    Gate gate;
    Diary diary;
    OK(gate.hold(blocking));
    OK(diary.write(blocking, 'a'));
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    std::thread opener([&] {
      gate.reached();
      gate.open();
    });
    OK(cuStreamSynchronize(nullptr));
    EXPECT_EQ(diary.read(), "a");
    opener.join();
  });
}

TEST(Streams, TheLegacyStreamOfAnotherContextIsAnother) {
  on_machine("2", [] {
    CUcontext first = nullptr;
    OK(cuCtxGetCurrent(&first));
    Gate gate;
    Diary diary;
    OK(gate.hold(nullptr));
    OK(diary.write(nullptr, 'b'));
    CUcontext second = context_on(1);
    OK(diary.write(nullptr, 'a'));
    OK(cuCtxSynchronize());
    EXPECT_EQ(diary.read(), "a");
    OK(cuCtxSynchronize_v2(second));
    gate.open();
    OK(cuCtxSynchronize_v2(first));
    EXPECT_EQ(diary.read(), "ab");
  });
}

TEST(Streams, EachThreadHasADefaultStreamOfItsOwn) {
  on_machine("1", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    Gate gate;
    Diary diary;
    OK(gate.hold(CU_STREAM_PER_THREAD));
    OK(diary.write(CU_STREAM_PER_THREAD, 'b'));
    unsigned long long mine = 0, others = 0, again = 0;
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    OK((exported<CUresult (*)(CUstream, unsigned long long*)>("cuStreamGetId_ptsz")(nullptr, &again)));
    EXPECT_EQ(mine, again);
    std::thread([&] {
      OK(cuCtxSetCurrent(context));
      OK(cuStreamGetId(CU_STREAM_PER_THREAD, &others));
      OK((exported<CUresult (*)(CUstream, CUhostFn, void*)>("cuLaunchHostFunc_ptsz")(
          nullptr, [](void* seen) { *static_cast<bool*>(seen) = true; }, new bool)));
      OK(diary.write(CU_STREAM_PER_THREAD, 'a'));
      OK((exported<CUresult (*)(CUstream)>("cuStreamSynchronize_ptsz")(nullptr)));
    }).join();
    EXPECT_NE(mine, others);
    EXPECT_EQ(diary.read(), "a");
    OK(diary.write(CU_STREAM_LEGACY, 'c'));  // per-thread streams are blocking ones
    EXPECT_EQ((exported<CUresult (*)(CUstream)>("cuStreamQuery_ptsz")(nullptr)), CUDA_ERROR_NOT_READY);
    gate.open();
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    EXPECT_EQ(diary.read(), "abc");
  });
}

TEST(Streams, WaitForEventsOfOtherStreamsAndGpus) {
  on_machine("2", [] {
    CUstream first = stream_of(CU_STREAM_NON_BLOCKING);
    CUevent event = event_of(CU_EVENT_DISABLE_TIMING);
    Gate gate;
    Diary diary;
    OK(gate.hold(first));
    OK(diary.write(first, 'a'));
    OK(cuEventRecord(event, first));
    CUstream second = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitEvent(second, event, 0));
    OK(diary.write(second, 'b'));
    context_on(1);
    CUstream third = stream_of();
    CUevent done = event_of(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    OK(cuStreamWaitEvent(third, event, 0));
    EXPECT_EQ(cuStreamQuery(third), CUDA_ERROR_NOT_READY);
    OK(cuEventRecord(done, third));
    EXPECT_EQ(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventRecord(done, first), CUDA_ERROR_INVALID_HANDLE);  // of different contexts
    OK(cuStreamWaitEvent(second, done, 0));
    OK(diary.write(second, 'c'));
    EXPECT_EQ(cuStreamWaitEvent(second, nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamWaitEvent(second, done, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(diary.read(), "");
    gate.open();
    OK(cuStreamSynchronize(second));
    EXPECT_EQ(diary.read(), "abc");
    OK(cuEventSynchronize(done));
  });
}

TEST(Streams, AWaitIsForWhatTheEventHeldAtTheCall) {
  on_machine("1", [] {
    CUstream early = stream_of(), late = stream_of(), waiting = stream_of();
    CUevent event = event_of();
    Gate gate;
    OK(cuStreamWaitEvent(waiting, event, 0));  // never recorded: nothing to wait for
    OK(cuEventQuery(event));
    OK(cuEventRecord(event, early));
    OK(cuStreamWaitEvent(waiting, event, 0));
    OK(gate.hold(late));
    OK(cuEventRecord(event, late));
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(waiting));
    OK(cuEventDestroy(event));  // while it is pending
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    gate.open();
    OK(cuCtxSynchronize());
  });
}

TEST(Streams, ElapsedTimeIsOfTheWorkBetween) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUevent start = event_of(), end = event_of(), never = event_of(),
            untimed = event_of(CU_EVENT_DISABLE_TIMING);
    Gate gate;
    float ms = -1;
    OK(cuEventRecord(start, stream));
    OK(cuEventRecord(untimed, stream));
    OK(cuLaunchHostFunc(
        stream, [](void*) { usleep(20000); }, nullptr));
    OK(gate.hold(stream));
    OK(cuEventRecord(end, stream));
    EXPECT_EQ(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventElapsedTime(&ms, start, never), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventElapsedTime(&ms, untimed, end), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventElapsedTime(nullptr, start, end), CUDA_ERROR_INVALID_VALUE);
    gate.open();
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&ms, start, end));
    EXPECT_GE(ms, 20.0f);
    float back = 0;
    OK((exported<CUresult (*)(float*, CUevent, CUevent)>("cuEventElapsedTime")(&back, end, start)));
    EXPECT_EQ(back, -ms);
  });
}

TEST(Streams, HostFunctionsMayNotCallCuda) {
  on_machine("1", [] {
    static CUresult results[4];
    static CUdeviceptr memory;
    CUstream stream = stream_of();
    OK(cuLaunchHostFunc(
        stream,
        [](void*) {
          int count = 0;
          results[0] = cuMemAlloc(&memory, 16);
          results[1] = cuDeviceGetCount(&count);
          results[2] = cuCtxSynchronize();
        },
        nullptr));
    OK(cuStreamAddCallback(
        stream, [](CUstream on, CUresult, void*) { results[3] = cuStreamQuery(on); }, nullptr, 0));
    OK(cuStreamSynchronize(stream));
    for (CUresult result : results) EXPECT_EQ(result, CUDA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(cuLaunchHostFunc(stream, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamAddCallback(
                  stream, [](CUstream, CUresult, void*) {}, nullptr, 1),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Streams, ACallbackIsToldItsStreamAndThatAllIsWell) {
  on_machine("1", [] {
    static CUstream told = nullptr;
    static CUresult state = CUDA_ERROR_UNKNOWN;
    CUstream stream = stream_of();
    int data = 0;
    OK(cuStreamAddCallback(
        stream,
        [](CUstream on, CUresult result, void* pointer) {
          told = on;
          state = result;
          *static_cast<int*>(pointer) = 7;
        },
        &data, 0));
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(told, stream);
    EXPECT_EQ(state, CUDA_SUCCESS);
    EXPECT_EQ(data, 7);
  });
}

TEST(Streams, DestroyedWithWorkPendingItIsStillDone) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUdeviceptr memory = memory_of(100000);
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemsetD8Async(memory, 'x', 100000, stream));
    OK(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);  // it still counts as blocking
    gate.open();
    OK(cuCtxSynchronize());
    std::string back(100000, ' ');
    OK(cuMemcpyDtoH(back.data(), memory, back.size()));
    EXPECT_EQ(back, std::string(100000, 'x'));
    for (int i = 0; i < 300; ++i) OK(cuStreamDestroy(stream_of()));
  });
}

TEST(Streams, AContextDestroyedWithWorkPendingCompletesIt) {
  on_machine("1", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    Diary diary;
    Gate gate;
    CUstream stream = stream_of(), other = stream_of(CU_STREAM_NON_BLOCKING);
    OK(gate.hold(stream));
    OK(diary.write(stream, 'a'));
    OK(diary.write(nullptr, 'b'));
    CUevent event = event_of();
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(diary.write(other, 'c'));
    std::thread opener([&] {
      gate.reached();
      gate.open();
    });
    OK(cuCtxDestroy(context));
    opener.join();
    std::string said = diary.read();
    EXPECT_EQ(said.size(), 3u);
    EXPECT_LT(said.find('a'), said.find('b'));
    EXPECT_LT(said.find('a'), said.find('c'));
    context_on(0);
    CUstream fresh = stream_of();
    OK(diary.write(fresh, 'd'));
    OK(cuStreamSynchronize(fresh));
    EXPECT_EQ(diary.read(), said + "d");
  });
}

TEST(Streams, ManyWorkAtOnce) {
  on_machine("1", [] {
    constexpr size_t kStreams = 200;
    std::vector<CUstream> streams;
    CUdeviceptr memory = memory_of(kStreams);
    OK(cuMemsetD8(memory, 0, kStreams));
    Gate gate;
    for (size_t i = 0; i < kStreams; ++i) {
      streams.push_back(stream_of(CU_STREAM_NON_BLOCKING));
      OK(gate.hold(streams[i]));
      OK(cuMemsetD8Async(memory + i, static_cast<unsigned char>(i + 1), 1, streams[i]));
    }
    gate.open();
    OK(cuCtxSynchronize());
    std::vector<unsigned char> back(kStreams);
    OK(cuMemcpyDtoH(back.data(), memory, kStreams));
    for (size_t i = 0; i < kStreams; ++i) EXPECT_EQ(back[i], i + 1);
    for (CUstream stream : streams) OK(cuStreamDestroy(stream));
  });
}

TEST(Streams, AreUsedByManyThreadsTogether) {
  on_machine("2", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    CUstream shared = stream_of();
    static std::atomic<int> calls;
    calls = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        OK(cuCtxSetCurrent(context));
        CUstream own = stream_of(t % 2 == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        CUevent event = event_of();
        for (int i = 0; i < 200; ++i) {
          for (CUstream stream : {own, shared, CUstream{nullptr}, CU_STREAM_PER_THREAD})
            OK(cuLaunchHostFunc(
                stream, [](void*) { ++calls; }, nullptr));
          OK(cuEventRecord(event, i % 2 == 0 ? own : shared));
          OK(cuStreamWaitEvent(i % 2 == 0 ? shared : own, event, 0));
        }
        OK(cuStreamSynchronize(own));
        OK(cuEventDestroy(event));
        OK(cuStreamDestroy(own));
      });
    for (auto& thread : threads) thread.join();
    OK(cuCtxSynchronize());
    EXPECT_EQ(calls, 3200);
  });
}

TEST(Streams, AreNotCapturing) {
  on_machine("1", [] {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    OK(cuStreamIsCapturing(stream_of(), &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    OK(cuStreamGetCaptureInfo(nullptr, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(cuStreamIsCapturing(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

// ---- Priorities ----

constexpr const char* kKernels = R"(
.version 7.0
.target sm_75
.address_size 64
// Each block runs until *go is greater than its number. *started counts blocks.
.visible .entry hold(.param .u64 started, .param .u64 go)
{
  .reg .pred %p<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [started];
  ld.param.u64 %rd2, [go];
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  atom.global.add.u32 %r3, [%rd1], 1;
  mov.u32 %r4, %ctaid.x;
AGAIN:
  ld.volatile.global.u32 %r5, [%rd2];
  setp.le.u32 %p2, %r5, %r4;
  @%p2 bra AGAIN;
DONE:
  bar.sync 0;
  ret;
}
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 ended[7] = {101, 110, 100, 101, 100, 10, 0};
.visible .entry print()
{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, ended;
  cvta.global.u64 %rd2, %rd1;
  {
    .param .b64 format;
    .param .b64 arguments;
    .param .b32 result;
    st.param.b64 [format], %rd2;
    st.param.b64 [arguments], 0;
    call.uni (result), vprintf, (format, arguments);
  }
  ret;
}
// The grid's first thread writes its letter behind those that were there before it.
.visible .entry note(.param .u64 count, .param .u64 letters, .param .u32 letter)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [count];
  ld.param.u64 %rd2, [letters];
  ld.param.u32 %r1, [letter];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  or.b32 %r2, %r2, %r3;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  atom.global.add.u32 %r4, [%rd1], 1;
  cvt.u64.u32 %rd3, %r4;
  add.u64 %rd4, %rd2, %rd3;
  st.global.u8 [%rd4], %r1;
DONE:
  ret;
}
)";

// A GPU of one multiprocessor, which two blocks of 1024 threads fill.
class SmallGpu {
 public:
  SmallGpu() {
    OK(cuModuleLoadData(&module_, kKernels));
    OK(cuModuleGetFunction(&hold_, module_, "hold"));
    OK(cuModuleGetFunction(&note_, module_, "note"));
    host_ = pinned_of(64);
    memset(host_, 0, 64);
  }
  // Returns when so many of its blocks run.
  void hold(CUstream stream, unsigned blocks, unsigned running) {
    auto started = reinterpret_cast<CUdeviceptr>(host_), go = started + 4;
    void* params[] = {&started, &go};
    OK(cuLaunchKernel(hold_, blocks, 1, 1, 1024, 1, 1, 0, stream, params, nullptr));
    while (word(0) < running) std::this_thread::yield();
  }
  void let_go(unsigned blocks = 1000) {
    __atomic_store_n(reinterpret_cast<unsigned*>(host_) + 1, blocks, __ATOMIC_SEQ_CST);
  }
  CUresult note(CUstream stream, unsigned letter, unsigned blocks = 2, int priority = 1) {
    auto count = reinterpret_cast<CUdeviceptr>(host_) + 8, letters = count + 4;
    void* params[] = {&count, &letters, &letter};
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attribute.value.priority = priority;
    CUlaunchConfig config = {blocks, 1, 1, 1024, 1, 1, 0, stream, &attribute, priority > 0 ? 0u : 1u};
    return cuLaunchKernelEx(&config, note_, params, nullptr);
  }
  CUresult print(CUstream stream) {
    CUfunction function = nullptr;
    OK(cuModuleGetFunction(&function, module_, "print"));
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  std::string noted() const { return host_ + 12; }

 private:
  unsigned word(int index) const {
    return __atomic_load_n(reinterpret_cast<unsigned*>(host_) + index, __ATOMIC_SEQ_CST);
  }
  CUmodule module_ = nullptr;
  CUfunction hold_ = nullptr, note_ = nullptr;
  char* host_ = nullptr;
};

void on_small_gpu(const std::function<void(SmallGpu&)>& body) {
  const std::string file = private_directory() + "/small.toml";
  std::ofstream(file) << "[[gpu]]\nmultiprocessors = 1\n";
  on_machine(file.c_str(), [&] {
    SmallGpu gpu;
    body(gpu);
  });
}

CUstream stream_of_priority(int priority) {
  CUstream stream = nullptr;
  OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority));
  return stream;
}

TEST(Priorities, AreClampedToTheRange) {
  on_machine("1", [] {
    int least = 7, greatest = 7, priority = 7;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT_EQ(least, 0);
    EXPECT_EQ(greatest, -5);
    OK(cuCtxGetStreamPriorityRange(nullptr, nullptr));
    for (const auto& [asked, given] : {std::pair{-6, -5}, {-5, -5}, {-2, -2}, {0, 0}, {3, 0}}) {
      OK(cuStreamGetPriority(stream_of_priority(asked), &priority));
      EXPECT_EQ(priority, given);
    }
    OK(cuStreamGetPriority(nullptr, &priority));
    EXPECT_EQ(priority, 0);
  });
}

TEST(Priorities, OfKernelsThatWaitForAFullGpuTheHigherOnesStartFirst) {
  on_small_gpu([](SmallGpu& gpu) {
    gpu.hold(stream_of_priority(0), 2, 2);
    OK(gpu.note(stream_of_priority(0), 'd'));
    OK(gpu.note(stream_of_priority(0), 'e'));
    OK(gpu.note(stream_of_priority(-1), 'c'));
    OK(gpu.note(stream_of_priority(-5), 'a'));
    OK(gpu.note(stream_of_priority(-5), 'b'));
    EXPECT_EQ(gpu.noted(), "");
    gpu.let_go();
    OK(cuCtxSynchronize());
    EXPECT_EQ(gpu.noted(), "abcde");
  });
}

TEST(Priorities, TheStreamsOwnOrderComesFirst) {
  on_small_gpu([](SmallGpu& gpu) {
    CUstream low = stream_of_priority(0), high = stream_of_priority(-5);
    gpu.hold(low, 2, 2);
    CUevent event = event_of();
    OK(gpu.note(low, '1'));
    OK(cuEventRecord(event, low));
    OK(cuStreamWaitEvent(high, event, 0));
    OK(gpu.note(high, '2'));
    OK(gpu.note(stream_of_priority(0), '3'));
    gpu.let_go();
    OK(cuCtxSynchronize());
    EXPECT_EQ(gpu.noted().find('1') < gpu.noted().find('2'), true) << gpu.noted();
    EXPECT_EQ(gpu.noted().size(), 3u);
  });
}

TEST(Priorities, ALaunchMayHaveOneOfItsOwn) {
  on_small_gpu([](SmallGpu& gpu) {
    gpu.hold(stream_of_priority(0), 2, 2);
    OK(gpu.note(stream_of_priority(-3), 'b'));
    OK(gpu.note(stream_of_priority(0), 'a', 2, -4));
    OK(gpu.note(stream_of_priority(-5), 'c', 2, 0));
    gpu.let_go();
    OK(cuCtxSynchronize());
    EXPECT_EQ(gpu.noted(), "abc");
  });
}

TEST(Priorities, AKernelGetsTheRoomThatABlockOfALowerOneLeaves) {
  on_small_gpu([](SmallGpu& gpu) {
    CUstream low = stream_of_priority(0), high = stream_of_priority(-5), equal = stream_of_priority(0);
    gpu.hold(low, 3, 2);
    OK(gpu.note(equal, 'b'));
    OK(gpu.note(high, 'a'));
    EXPECT_EQ(cuStreamQuery(high), CUDA_ERROR_NOT_READY);
    gpu.let_go(1);
    OK(cuStreamSynchronize(high));
    EXPECT_EQ(gpu.noted(), "a");
    EXPECT_EQ(cuStreamQuery(low), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(equal), CUDA_ERROR_NOT_READY);
    gpu.let_go();
    OK(cuCtxSynchronize());
    EXPECT_EQ(gpu.noted(), "ab");
  });
}

TEST(Priorities, KernelsRunSideBySideWhileThereIsRoom) {
  on_small_gpu([](SmallGpu& gpu) {
    CUstream held = stream_of_priority(-5), beside = stream_of_priority(0);
    gpu.hold(held, 1, 1);
    OK(gpu.note(beside, 'a', 9));
    OK(cuStreamSynchronize(beside));
    EXPECT_EQ(gpu.noted(), "a");
    EXPECT_EQ(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
    gpu.let_go();
    OK(cuCtxSynchronize());
  });
}

TEST(AsyncCopy, StagesPageableMemoryAndReadsPinnedMemoryLater) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUdeviceptr from_pageable = memory_of(4), from_pinned = memory_of(4);
    std::string pageable = "then";
    char* pinned = pinned_of(4);
    memcpy(pinned, "then", 4);
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemcpyHtoDAsync(from_pageable, pageable.data(), 4, stream));
    OK(cuMemcpyHtoDAsync(from_pinned, pinned, 4, stream));
    pageable = "late";
    memcpy(pinned, "late", 4);
    gate.open();
    OK(cuStreamSynchronize(stream));
    std::string back(4, ' ');
    OK(cuMemcpyDtoH(back.data(), from_pageable, 4));
    EXPECT_EQ(back, "then");
    OK(cuMemcpyDtoH(back.data(), from_pinned, 4));
    EXPECT_EQ(back, "late");
  });
}

TEST(AsyncCopy, StagesRowsToo) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUdeviceptr memory = memory_of(16);
    OK(cuMemsetD8(memory, '.', 16));
    std::string rows = "ab__cd__";
    Gate gate;
    OK(gate.hold(stream));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = rows.data();
    copy.srcPitch = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.dstPitch = 8;
    copy.WidthInBytes = 2;
    copy.Height = 2;
    OK(cuMemcpy2DAsync(&copy, stream));
    rows = "XXXXXXXX";
    gate.open();
    OK(cuStreamSynchronize(stream));
    std::string back(16, ' ');
    OK(cuMemcpyDtoH(back.data(), memory, 16));
    EXPECT_EQ(back, "ab......cd......");
  });
}

TEST(AsyncCopy, ToPageableMemoryIsDoneAtItsReturn) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    CUdeviceptr memory = memory_of(4);
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemsetD8Async(memory, 'v', 4, stream));
    std::thread opener([&] {
      gate.reached();
      gate.open();
    });
    std::string back(4, ' ');
    OK(cuMemcpyDtoHAsync(back.data(), memory, 4, stream));
    EXPECT_EQ(back, "vvvv");
    opener.join();
  });
}

TEST(SyncCopy, WaitsForItsStreamAndBetweenDevicesNotEvenThat) {
  on_machine("1", [] {
    CUdeviceptr one = memory_of(100000), two = memory_of(100000);
    Gate gate;
    OK(cuMemsetD8(one, '1', 100000));
    OK(gate.hold(nullptr));
    gate.reached();
    OK(cuMemsetD8(one, '2', 100000));    // returns, though nothing is done
    OK(cuMemcpyDtoD(two, one, 100000));  // the same
    OK(cuMemcpy(two, one, 1));           // and by address
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    gate.open();
    std::string back(100000, ' ');
    OK(cuMemcpyDtoH(back.data(), two, 100000));
    EXPECT_EQ(back, std::string(100000, '2'));
  });
}

TEST(SyncCopy, OfManagedAndPinnedMemoryIsSeenByTheHostAtOnce) {
  on_machine("1", [] {
    CUdeviceptr managed = 0;
    OK(cuMemAllocManaged(&managed, 100000, CU_MEM_ATTACH_GLOBAL));
    char* pinned = pinned_of(100000);
    OK(cuMemsetD8(managed, 'm', 100000));
    EXPECT_EQ(reinterpret_cast<char*>(managed)[99999], 'm');
    OK(cuMemsetD8(reinterpret_cast<CUdeviceptr>(pinned), 'p', 100000));
    EXPECT_EQ(pinned[99999], 'p');
    OK(cuMemcpyDtoD(managed, reinterpret_cast<CUdeviceptr>(pinned), 100000));
    EXPECT_EQ(reinterpret_cast<char*>(managed)[99999], 'p');
  });
}

TEST(Free, WaitsForTheWorkThatMayUseTheMemory) {
  on_machine("1", [] {
    CUdeviceptr memory = memory_of(100000);
    char* pinned = pinned_of(100000);
    CUstream stream = stream_of();
    Gate gate;
    Diary diary;
    OK(gate.hold(stream));
    OK(cuMemcpyHtoDAsync(memory, pinned, 100000, stream));
    OK(diary.write(stream, 'a'));
    std::thread opener([&] {
      gate.reached();
      gate.open();
    });
    OK(cuMemFreeHost(pinned));
    EXPECT_EQ(diary.read(), "a");
    OK(cuMemFree(memory));
    opener.join();
  });
}

TEST(Process, EndsWithWorkThatNeverWould) {
  const pid_t pid = start({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    auto* gate = new Gate;  // leaked, as it is never opened
    OK(gate->hold(stream_of()));
    gate->reached();
    atexit([] {
      // Exit handlers still reach a driver that works.
      CUdeviceptr memory = 0;
      if (cuMemAlloc(&memory, 16) != CUDA_SUCCESS || cuMemsetD8(memory, 1, 16) != CUDA_SUCCESS) _exit(9);
      CUstream stream = nullptr;
      if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
          cuLaunchHostFunc(
              stream, [](void*) {}, nullptr) != CUDA_SUCCESS ||
          cuStreamSynchronize(stream) != CUDA_SUCCESS)
        _exit(8);
    });
    exit(testing::Test::HasFailure() ? 1 : 3);
  });
  const int status = finish(pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

// Its exit handler gives the context back, as a runtime's does, with a kernel that has no end and the output
// of one that has ended.
TEST(Process, ExitsSoonWhileAKernelSpinsAndWritesWhatOthersPrinted) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const uint64_t before = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
  const pid_t pid = start({{"GPUFENCE_SIM", "1"}}, [&] {
    dup2(ends[1], STDOUT_FILENO);
    OK(cuInit(0));
    atexit([] { cuDevicePrimaryCtxRelease(0); });
    CUcontext context = nullptr;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    SmallGpu gpu;
    CUstream prints = stream_of(CU_STREAM_NON_BLOCKING);
    OK(gpu.print(prints));
    while (cuStreamQuery(prints) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    gpu.hold(stream_of(CU_STREAM_NON_BLOCKING), 1, 1);
    exit(testing::Test::HasFailure() ? 1 : 3);
  });
  close(ends[1]);
  const int status = finish(pid);
  const uint64_t after = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_LT(after - before, 4000u);
  char said[64] = {};
  EXPECT_EQ(read(ends[0], said, 63), 6);
  EXPECT_STREQ(said, "ended\n");
  close(ends[0]);
}

TEST(Process, ForkedWhileStreamsWorkTheChildHasNoCudaAndTheParentGoesOn) {
  on_machine("1", [] {
    CUstream stream = stream_of();
    Gate gate;
    Diary diary;
    OK(gate.hold(stream));
    gate.reached();
    for (int i = 0; i < 20; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        const bool right = cuStreamSynchronize(stream) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuLaunchHostFunc(
                               stream, [](void*) {}, nullptr) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
        _exit(right ? 0 : 1);
      }
      OK(diary.write(stream, 'a'));
      EXPECT_EQ(finish(pid), 0);
    }
    gate.open();
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(diary.read(), std::string(20, 'a'));
  });
}

// cuda.h, cuCtxRecordEvent and cuCtxWaitEvent.
TEST(ContextEvents, HoldAllWorkOfTheContextAndNoLaterOne) {
  on_machine("1", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    const CUstream one = stream_of(CU_STREAM_NON_BLOCKING), two = stream_of(CU_STREAM_NON_BLOCKING);
    const CUevent event = event_of(CU_EVENT_DISABLE_TIMING);
    Gate first, second, later;
    OK(first.hold(one));
    OK(second.hold(two));
    OK(cuCtxRecordEvent(context, event));
    OK(later.hold(one));
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    first.open();
    later.reached();
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    second.open();
    OK(cuEventSynchronize(event));  // though `later` is not open
    later.open();
    EXPECT_EQ(cuCtxRecordEvent(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxRecordEvent(context, nullptr), CUDA_ERROR_INVALID_HANDLE);
    const CUcontext other = context_on(0);
    EXPECT_EQ(cuCtxRecordEvent(other, event), CUDA_ERROR_INVALID_HANDLE);  // "from the same CUDA context"
  });
}

TEST(ContextEvents, AreWaitedForByAllWorkThatComes) {
  on_machine("2", [] {
    CUcontext here = nullptr;
    OK(cuCtxGetCurrent(&here));
    const CUstream before = stream_of(CU_STREAM_NON_BLOCKING);
    Diary diary;
    Gate old;
    OK(old.hold(before));
    OK(diary.write(before, 'o'));
    const CUcontext there = context_on(1);
    const CUstream far = stream_of(CU_STREAM_NON_BLOCKING);
    const CUevent event = event_of(CU_EVENT_DISABLE_TIMING);
    Gate gate;
    OK(gate.hold(far));
    OK(cuEventRecord(event, far));
    OK(cuCtxSetCurrent(here));
    OK(cuCtxWaitEvent(here, event));
    const CUstream after = stream_of(CU_STREAM_NON_BLOCKING);
    for (CUstream stream : {after, CUstream{nullptr}, CUstream{CU_STREAM_PER_THREAD}})
      OK(diary.write(stream, 'n'));
    old.open();
    OK(cuStreamSynchronize(before));
    EXPECT_EQ(diary.read(), "o");
    for (CUstream stream : {after, CUstream{nullptr}}) EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    OK(cuCtxSetCurrent(there));
    const CUstream free = stream_of(CU_STREAM_NON_BLOCKING);
    OK(cuStreamSynchronize(free));  // another context waits for nothing
    OK(cuCtxSetCurrent(here));
    gate.open();
    OK(cuCtxSynchronize());
    EXPECT_EQ(diary.read(), "onnn");
  });
}

TEST(ContextEvents, BreakCapturesOfTheContext) {
  on_machine("1", [] {
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    const CUstream stream = stream_of(CU_STREAM_NON_BLOCKING);
    const CUevent event = event_of(CU_EVENT_DISABLE_TIMING);
    CUgraph graph = nullptr;
    for (auto call : {cuCtxRecordEvent, cuCtxWaitEvent}) {
      OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      EXPECT_EQ(call(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      OK(call(context, event));
    }
  });
}

}  // namespace
}  // namespace gpufence::sim
