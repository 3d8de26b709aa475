// Mixes up streams, events and kernels of two GPUs through the driver API, one way a run, or does what looks
// alike and is allowed. Usage: mixes_driver launch|kernel|record|elapsed|allowed
#include <cstring>

#include "check.h"

static const char* const kCode =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry _Z5saxpyPff(.param .u64 out, .param .f32 a) { ret; }\n";

#define SAY(call) std::printf("%s: %s\n", #call, name_of(call))

extern "C" __attribute__((noinline)) CUresult make_stream(CUstream* stream) {
  const CUresult result = cuStreamCreate(stream, 0);
  return result;
}
extern "C" __attribute__((noinline)) CUresult make_event(CUevent* event) {
  const CUresult result = cuEventCreate(event, 0);
  return result;
}
extern "C" __attribute__((noinline)) CUresult load(CUmodule* module) {
  const CUresult result = cuModuleLoadData(module, kCode);
  return result;
}
extern "C" __attribute__((noinline)) CUresult step(CUfunction kernel, CUdeviceptr memory, CUstream stream) {
  float factor = 2;
  void* arguments[] = {&memory, &factor};
  const CUresult result = cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
  return result;
}
extern "C" __attribute__((noinline)) CUresult record(CUevent event, CUstream stream) {
  const CUresult result = cuEventRecord(event, stream);
  return result;
}
extern "C" __attribute__((noinline)) CUresult elapsed(float* ms, CUevent start, CUevent end) {
  const CUresult result = cuEventElapsedTime(ms, start, end);
  return result;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  CUcontext context[2];
  CUstream stream[2];
  CUevent event[2];
  CUmodule module[2];
  CUfunction kernel[2];
  CUdeviceptr memory[2];
  CHECK(cuInit(0));
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cuCtxCreate(&context[gpu], nullptr, 0, gpu));
    CHECK(make_stream(&stream[gpu]));
    CHECK(make_event(&event[gpu]));
    CHECK(load(&module[gpu]));
    CHECK(cuModuleGetFunction(&kernel[gpu], module[gpu], "_Z5saxpyPff"));
    CHECK(cuMemAlloc(&memory[gpu], 4096));
  }
  // The context of CUDA 1 is current from here on.
  float ms = 0;
  if (!std::strcmp(what, "launch")) {
    SAY(step(kernel[1], memory[1], stream[0]));
  } else if (!std::strcmp(what, "kernel")) {
    SAY(step(kernel[0], memory[0], nullptr));
  } else if (!std::strcmp(what, "record")) {
    SAY(record(event[1], stream[0]));
  } else if (!std::strcmp(what, "elapsed")) {
    CHECK(record(event[1], stream[1]));
    CHECK(cuCtxSetCurrent(context[0]));
    CHECK(record(event[0], stream[0]));
    CHECK(cuEventSynchronize(event[0]));
    CHECK(cuEventSynchronize(event[1]));
    SAY(elapsed(&ms, event[0], event[1]));
  } else {
    CHECK(step(kernel[1], memory[1], stream[1]));
    CHECK(record(event[1], stream[1]));
    CHECK(cuCtxSetCurrent(context[0]));
    CHECK(cuStreamWaitEvent(stream[0], event[1], 0));
    CHECK(step(kernel[0], memory[0], stream[0]));
    CHECK(cuEventSynchronize(event[1]));
    CHECK(cuStreamSynchronize(stream[1]));
    CHECK(cuMemcpyPeerAsync(memory[0], context[0], memory[1], context[1], 128, stream[1]));
    CHECK(cuStreamSynchronize(stream[1]));
    CHECK(cuCtxSetCurrent(context[1]));
    CHECK(cuModuleUnload(module[1]));
    CHECK(cuStreamDestroy(stream[1]));
    CHECK(cuCtxSetCurrent(context[0]));
    CHECK(cuCtxDestroy(context[1]));
    SAY(cuCtxSynchronize());
  }
  return 0;
}
