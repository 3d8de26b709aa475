// Streams and events: what waits for what, and what each tells of itself. A Gate holds a stream in a host
// function until it is opened, so nothing here depends on how fast anything is.
#include <cstring>
#include <set>

#include "driver.h"
#include "kernels.h"

namespace conform {
namespace {

CONFORMS(Base, AStreamWithWorkIsNotReady,
         "cuda.h, cuStreamQuery: CUDA_SUCCESS if all operations in the stream have completed, or "
         "CUDA_ERROR_NOT_READY "
         "if not") {
  Primary here;
  Stream stream;
  Gate gate;
  OK(cuStreamQuery(stream));
  OK(gate.hold(stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cuStreamSynchronize(stream));
  OK(cuStreamQuery(stream));
}

CONFORMS(Base, NonBlockingStreamsDoNotWaitForStreamZero,
         "cuda.h, cuStreamCreate: CU_STREAM_NON_BLOCKING: work running in the created stream may run "
         "concurrently with "
         "work in stream 0, and should perform no implicit synchronization with it") {
  Primary here;
  Stream beside(CU_STREAM_NON_BLOCKING);
  uint32_t* word = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&word), 4, 0));
  *word = 0;
  Gate gate;
  OK(gate.hold(CU_STREAM_LEGACY));
  // No host function: those of independent streams "may be serialized".
  OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(word), 7, 1, beside));
  OK(cuStreamSynchronize(beside));
  EXPECT_EQ(*word, 7u);
  EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cuStreamSynchronize(CU_STREAM_LEGACY));
  OK(cuMemFreeHost(word));
}

CONFORMS(Base, BlockingStreamsWaitForStreamZero,
         "CUDA C++ Programming Guide, Implicit Synchronization / CUDA Runtime API, Stream synchronization "
         "behavior: the "
         "legacy default stream synchronizes with all other blocking streams: a wait before and after") {
  Primary here;
  Stream blocking(CU_STREAM_DEFAULT);
  Diary diary;
  Gate gate;
  OK(gate.hold(CU_STREAM_LEGACY));
  OK(diary.write(CU_STREAM_LEGACY, 'a'));
  OK(diary.write(blocking, 'b'));
  OK(diary.write(CU_STREAM_LEGACY, 'c'));
  EXPECT_EQ(diary.read(), "");
  gate.open();
  OK(cuCtxSynchronize());
  EXPECT_EQ(diary.read(), "abc");
}

CONFORMS(Base, WorkOfAStreamRunsInOrder,
         "CUDA C++ Programming Guide, Streams: a stream is a sequence of commands that execute in order") {
  Primary here;
  Stream stream;
  Diary diary;
  for (const char letter : {'a', 'b', 'c', 'd', 'e'}) OK(diary.write(stream, letter));
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(diary.read(), "abcde");
}

CONFORMS(Base, HostFunctionsComeAfterWorkAndBeforeMore,
         "cuda.h, cuLaunchHostFunc: the function will be called after currently enqueued work and will block "
         "work added "
         "after it") {
  Primary here;
  Stream stream;
  Module module(kKernels);
  uint32_t* words = nullptr;
  OK(cuMemHostAlloc(reinterpret_cast<void**>(&words), 2 * sizeof *words, CU_MEMHOSTALLOC_DEVICEMAP));
  words[0] = words[1] = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(words);
  OK(launch(module["fill"], 1, stream, address, 5u));
  OK(cuLaunchHostFunc(
      stream,
      [](void* data) {
        auto* seen = static_cast<uint32_t*>(data);
        seen[1] = seen[0] * 10;
        seen[0] = 6;
      },
      words));
  OK(launch(module["scale"], 1, stream, address, address));
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words[1], 50u);
  EXPECT_EQ(words[0], 6u * 3 + 7);
  OK(cuMemFreeHost(words));
}

CONFORMS(Base, CallbacksAreToldHowItWent,
         "cuda.h, cuStreamAddCallback: called on the host after all currently enqueued items have completed, "
         "exactly once; "
         "may be passed CUDA_SUCCESS or an error code; will block later work") {
  Primary here;
  Stream stream;
  struct Seen {
    int calls = 0;
    CUstream stream = nullptr;
    CUresult result = CUDA_ERROR_UNKNOWN;
  } seen;
  OK(cuStreamAddCallback(
      stream,
      [](CUstream of, CUresult result, void* data) {
        auto* s = static_cast<Seen*>(data);
        *s = {s->calls + 1, of, result};
      },
      &seen, 0));
  OK(cuStreamSynchronize(stream));
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.stream, static_cast<CUstream>(stream));
  EXPECT_EQ(seen.result, CUDA_SUCCESS);
}

CONFORMS(Base, DestroyingABusyStreamLetsItFinish,
         "cuda.h, cuStreamDestroy: in case the device is still doing work in the stream, the function will "
         "return immediately "
         "and the resources will be released automatically once the device has completed all work") {
  Primary here;
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  Diary diary;
  OK(gate.hold(stream));
  OK(diary.write(stream, 'x'));
  OK(cuStreamDestroy(stream));
  EXPECT_EQ(diary.read(), "");
  gate.open();
  OK(cuCtxSynchronize());
  EXPECT_EQ(diary.read(), "x");
}

CONFORMS(Base, PrioritiesFormARange,
         "cuda.h, cuCtxGetStreamPriorityRange: lower numbers imply greater priorities; a NULL may be passed "
         "in for either "
         "if the value is not desired") {
  Primary here;
  int least = 99, greatest = 99, alone = 99;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(least, 0);  // cuStreamCreateWithPriority: '0' represents default priority
  EXPECT_LE(greatest, least);
  OK(cuCtxGetStreamPriorityRange(nullptr, &alone));
  EXPECT_EQ(alone, greatest);
  OK(cuCtxGetStreamPriorityRange(nullptr, nullptr));
}

CONFORMS(Base, PrioritiesAreClamped,
         "cuda.h, cuStreamGetPriority: if the stream was created with a priority outside the numerical "
         "range, this function "
         "returns the clamped priority") {
  Primary here;
  int least = 0, greatest = 0;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  for (const auto& [asked, given] : {std::pair{-1000, greatest}, std::pair{1000, least}, std::pair{0, 0}}) {
    CUstream stream = nullptr;
    int priority = 99;
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, asked));
    OK(cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, given);
    OK(cuStreamDestroy(stream));
  }
}

CONFORMS(Base, StreamsKeepTheirFlags,
         "cuda.h, cuStreamGetFlags: a logical 'OR' of all flags that were used while creating this stream") {
  Primary here;
  Stream blocking(CU_STREAM_DEFAULT), beside(CU_STREAM_NON_BLOCKING);
  unsigned flags = 99;
  OK(cuStreamGetFlags(blocking, &flags));
  EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_DEFAULT));
  OK(cuStreamGetFlags(beside, &flags));
  EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  CUstream none = nullptr;
  EXPECT_EQ(cuStreamCreate(&none, 0x80), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, StreamsHaveIds,
         "cuda.h, cuStreamGetId: unique for the life of the program; hStream can be any of the special "
         "streams such as the NULL "
         "stream, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD") {
  Primary here;
  std::set<unsigned long long> ids;
  unsigned long long id = 0, null = 0, legacy = 0, per_thread = 0;
  for (int i = 0; i < 3; ++i) {
    Stream stream;
    OK(cuStreamGetId(stream, &id));
    EXPECT_TRUE(ids.insert(id).second);
  }
  OK(cuStreamGetId(nullptr, &null));
  OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
  OK(cuStreamGetId(CU_STREAM_PER_THREAD, &per_thread));
  EXPECT_EQ(null, legacy);
  EXPECT_NE(legacy, per_thread);
}

CONFORMS(Base, StreamsTellTheirContext,
         "cuda.h, cuStreamGetCtx: the context that was active in the calling thread when the stream was "
         "created; specifying any "
         "of the special handles will return the context current to the calling thread") {
  Own first;
  Stream stream;
  CUcontext of_stream = nullptr;
  Own second;
  OK(cuStreamGetCtx(stream, &of_stream));
  EXPECT_EQ(of_stream, first.context);
  OK(cuStreamGetCtx(nullptr, &of_stream));
  EXPECT_EQ(of_stream, second.context);
  OK(cuStreamGetCtx(CU_STREAM_PER_THREAD, &of_stream));
  EXPECT_EQ(of_stream, second.context);
}

CONFORMS(Base, StreamsTellTheirDevice,
         "cuda.h, cuStreamGetDevice: returns in *device the device handle of the stream") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  Primary second(1);
  Stream stream;
  Primary first(0);
  CUdevice device = -1;
  OK(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 1);
}

CONFORMS(Base, AnUnrecordedEventIsDone,
         "cuda.h, cuEventRecord: before the first call to cuEventRecord(), an event represents an empty set "
         "of work, so for "
         "example cuEventQuery() would return CUDA_SUCCESS") {
  Primary here;
  Event event;
  OK(cuEventQuery(event));
  OK(cuEventSynchronize(event));
  Stream stream;
  OK(cuStreamWaitEvent(stream, event, 0));
  OK(cuStreamSynchronize(stream));
}

CONFORMS(Base, AnEventCapturesWhatCameBefore,
         "cuda.h, cuEventRecord: captures in hEvent the contents of hStream at the time of this call; uses "
         "of hStream after this "
         "call do not modify hEvent") {
  Primary here;
  Stream stream;
  Event event;
  Gate first, second;
  OK(first.hold(stream));
  OK(cuEventRecord(event, stream));
  OK(second.hold(stream));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  first.open();
  OK(cuEventSynchronize(event));
  OK(cuEventQuery(event));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  second.open();
}

CONFORMS(Base, RecordingAgainOverwrites,
         "cuda.h, cuEventRecord: can be called multiple times on the same event and will overwrite the "
         "previously captured state; "
         "cuStreamWaitEvent() is not affected by later calls to cuEventRecord()") {
  Primary here;
  Stream idle, held, waiting;
  Event event;
  Gate gate;
  OK(cuEventRecord(event, idle));
  OK(cuStreamWaitEvent(waiting, event, 0));
  OK(gate.hold(held));
  OK(cuEventRecord(event, held));
  OK(cuStreamSynchronize(waiting));  // waits for what was captured first
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cuEventSynchronize(event));
}

CONFORMS(Base, AStreamWaitsForAnEvent,
         "cuda.h, cuStreamWaitEvent: makes all future work submitted to hStream wait for all work captured "
         "in hEvent") {
  Primary here;
  Stream first, second;
  Event event;
  Gate gate;
  Diary diary;
  OK(gate.hold(first));
  OK(diary.write(first, 'a'));
  OK(cuEventRecord(event, first));
  OK(cuStreamWaitEvent(second, event, CU_EVENT_WAIT_DEFAULT));
  OK(diary.write(second, 'b'));
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cuStreamSynchronize(second));
  EXPECT_EQ(diary.read(), "ab");
}

CONFORMS(Base, StreamsWaitForEventsOfOtherDevices,
         "cuda.h, cuStreamWaitEvent: hEvent may be from a different context or device than hStream") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  Primary first(0);
  Stream there;
  Event event(CU_EVENT_DISABLE_TIMING);
  Gate gate;
  Diary diary;
  OK(gate.hold(there));
  OK(diary.write(there, 'a'));
  OK(cuEventRecord(event, there));
  {
    Primary second(1);
    Stream here;
    OK(cuStreamWaitEvent(here, event, 0));
    OK(diary.write(here, 'b'));
    gate.open();
    OK(cuStreamSynchronize(here));
  }
  EXPECT_EQ(diary.read(), "ab");
}

CONFORMS(Base, EventAndStreamAreOfOneContext,
         "cuda.h, cuEventRecord: hEvent and hStream must be from the same context otherwise "
         "CUDA_ERROR_INVALID_HANDLE is returned") {
  Own first;
  Event event;
  Own second;
  Stream stream;
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
}

CONFORMS(Base, ElapsedTimeNeedsTwoRecords,
         "cuda.h, cuEventElapsedTime: if cuEventRecord() has not been called on either event then "
         "CUDA_ERROR_INVALID_HANDLE; if one "
         "of them has not yet been completed, CUDA_ERROR_NOT_READY") {
  Primary here;
  Stream stream;
  Event start, end;
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventRecord(start, stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  Gate gate;
  OK(gate.hold(stream));
  OK(cuEventRecord(end, stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cuEventSynchronize(end));
  OK(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
}

CONFORMS(Base, EventsWithoutTimingHaveNone,
         "cuda.h, cuEventElapsedTime: if either event was created with the CU_EVENT_DISABLE_TIMING flag, "
         "then this function will "
         "return CUDA_ERROR_INVALID_HANDLE") {
  Primary here;
  Event timed, untimed(CU_EVENT_DISABLE_TIMING);
  OK(cuEventRecord(timed, nullptr));
  OK(cuEventRecord(untimed, nullptr));
  OK(cuCtxSynchronize());
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
}

CONFORMS(
    Base, InterprocessEventsHaveNoTiming,
    "cuda.h, cuEventCreate: CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING") {
  Primary here;
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) == 1, "events between processes");
  OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  OK(cuEventDestroy(event));
}

CONFORMS(Base, AnEventMayGoBeforeItIsComplete,
         "cuda.h, cuEventDestroy: may be destroyed before it is complete; the call does not block on "
         "completion of the event") {
  Primary here;
  Stream stream;
  CUevent event = nullptr;
  OK(cuEventCreate(&event, 0));
  Gate gate;
  OK(gate.hold(stream));
  OK(cuEventRecord(event, stream));
  OK(cuEventDestroy(event));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  gate.open();
  OK(cuStreamSynchronize(stream));
}

CONFORMS(Base, StreamsWriteAndWaitForValues,
         "cuda.h, cuStreamWaitValue32: work ordered after the operation will block until the given condition "
         "on the memory is "
         "satisfied; cuStreamWriteValue32: write a value to memory") {
  Primary here;
  Stream writer, waiter;
  Memory word(4);
  OK(cuMemsetD32(word, 0, 1));
  Diary diary;
  OK(cuStreamWaitValue32(waiter, word, 3, CU_STREAM_WAIT_VALUE_GEQ));
  OK(diary.write(waiter, 'b'));
  OK(cuStreamWriteValue32(writer, word, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cuStreamSynchronize(writer));
  EXPECT_EQ(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
  OK(diary.write(writer, 'a'));
  OK(cuStreamWriteValue32(writer, word, 4, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cuStreamSynchronize(waiter));
  EXPECT_EQ(diary.read(), "ab");
  EXPECT_EQ(word_at(word), 4u);
}

CONFORMS(Base, SynchronisingAContextWaitsForItsStreams,
         "cuda.h, cuCtxSynchronize: blocks until the current context has completed all preceding requested "
         "tasks") {
  Primary here;
  Stream first, second;
  Diary diary;
  OK(diary.write(first, 'x'));
  OK(diary.write(second, 'x'));
  OK(cuCtxSynchronize());
  EXPECT_EQ(diary.read(), "xx");
  OK(cuStreamQuery(first));
  OK(cuStreamQuery(second));
}

CONFORMS(Base, AttributesOfStreamsAreCopied,
         "cuda.h, cuStreamCopyAttributes: copies attributes from source stream to destination stream; both "
         "must have the same "
         "context") {
  Primary here;
  Stream from, to;
  CUstreamAttrValue value{};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  OK(cuStreamSetAttribute(from, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  OK(cuStreamCopyAttributes(to, from));
  value.syncPolicy = CU_SYNC_POLICY_AUTO;
  OK(cuStreamGetAttribute(to, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT_EQ(value.syncPolicy, CU_SYNC_POLICY_YIELD);
}

}  // namespace
}  // namespace conform
