// Mixes up streams and events of two GPUs, one way a run, or does what looks alike and is allowed.
// Usage: mixes launch|launch_twice|record|elapsed|allowed|allowed_launch|allowed_record|allowed_elapsed
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void saxpy(float* out, float a) {
  out[threadIdx.x] = a * out[threadIdx.x];
}

#define SAY(call) std::printf("%s: %s\n", #call, cudaGetErrorName(call))
#define NEED(call)                                              \
  if (const cudaError_t error = (call); error != cudaSuccess) { \
    std::printf("%s: %s\n", #call, cudaGetErrorName(error));    \
    return 1;                                                   \
  }

extern "C" __attribute__((noinline)) cudaError_t make_stream(cudaStream_t* stream) {
  const cudaError_t error = cudaStreamCreate(stream);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t make_event(cudaEvent_t* event) {
  const cudaError_t error = cudaEventCreate(event);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t step(float* memory, cudaStream_t stream) {
  float factor = 2;
  void* arguments[] = {&memory, &factor};
  const cudaError_t error =
      cudaLaunchKernel(reinterpret_cast<const void*>(saxpy), dim3(1), dim3(32), arguments, 0, stream);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  const cudaError_t error = cudaEventRecord(event, stream);
  return error;
}
extern "C" __attribute__((noinline)) cudaError_t elapsed(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const cudaError_t error = cudaEventElapsedTime(ms, start, end);
  return error;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  cudaStream_t stream[2];
  cudaEvent_t event[2];
  float* memory[2];
  for (int gpu = 0; gpu < 2; ++gpu) {
    NEED(cudaSetDevice(gpu));
    NEED(make_stream(&stream[gpu]));
    NEED(make_event(&event[gpu]));
    NEED(cudaMalloc(&memory[gpu], 4096));
  }
  // CUDA 1 is the current device from here on.
  float ms = 0;
  if (!std::strcmp(what, "launch")) {
    SAY(step(memory[1], stream[0]));
  } else if (!std::strcmp(what, "chevrons")) {
    saxpy<<<1, 32, 0, stream[0]>>>(memory[1], 2);
    SAY(cudaGetLastError());
  } else if (!std::strcmp(what, "launch_twice")) {
    for (int i = 0; i < 2; ++i) SAY(step(memory[1], stream[0]));
  } else if (!std::strcmp(what, "record")) {
    SAY(record(event[1], stream[0]));
  } else if (!std::strcmp(what, "elapsed")) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      NEED(cudaSetDevice(gpu));
      NEED(record(event[gpu], stream[gpu]));
      NEED(cudaEventSynchronize(event[gpu]));
    }
    SAY(elapsed(&ms, event[0], event[1]));
  } else if (!std::strcmp(what, "reused")) {
    // What the driver gives out again after a destroy belongs to whom it was given last.
    for (int round = 0; round < 200; ++round) {
      const int gpu = round % 2;
      NEED(cudaSetDevice(gpu));
      for (int i = 0; i < 2; ++i) {
        NEED(cudaStreamDestroy(stream[i]));
        NEED(cudaEventDestroy(event[i]));
      }
      for (int i = 0; i < 2; ++i) {
        NEED(make_stream(&stream[i]));
        NEED(make_event(&event[i]));
        NEED(record(event[i], stream[i]));
        NEED(step(memory[gpu], stream[i]));
      }
    }
    SAY(cudaDeviceSynchronize());
  } else {
    // All of this CUDA allows: waiting and asking across GPUs, and copies into any stream.
    NEED(cudaSetDevice(0));
    NEED(step(memory[0], stream[0]));
    NEED(record(event[0], stream[0]));
    NEED(cudaSetDevice(1));
    NEED(cudaStreamWaitEvent(stream[1], event[0], 0));
    NEED(step(memory[1], stream[1]));
    NEED(cudaEventSynchronize(event[0]));
    NEED(cudaEventQuery(event[0]));
    NEED(cudaStreamSynchronize(stream[0]));
    float here[32] = {};
    NEED(cudaMemcpyAsync(memory[0], here, sizeof here, cudaMemcpyHostToDevice, stream[1]));
    NEED(cudaMemcpyPeerAsync(memory[0], 0, memory[1], 1, sizeof here, stream[0]));
    NEED(cudaStreamSynchronize(stream[1]));
    SAY(cudaStreamSynchronize(stream[0]));
  }
  return 0;
}
