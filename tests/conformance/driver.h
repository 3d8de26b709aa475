// What the checks of the driver API share: a context, and handles that go with their scope.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "conform.h"
#include "tests/sim/test/gate.h"  // a stream that is held until the check lets it go, on any driver

inline void PrintTo(CUresult result, std::ostream* out) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  *out << (name == nullptr ? "an unknown CUresult" : name) << " (" << static_cast<int>(result) << ')';
}

namespace conform {

using gpufence::sim::Diary;
using gpufence::sim::Gate;

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr size_t kMiB = size_t{1} << 20;

inline int attribute(CUdevice_attribute which, CUdevice device = 0) {
  int value = -1;
  OK(cuDeviceGetAttribute(&value, which, device));
  return value;
}

inline int devices() {
  int count = 0;
  OK(cuDeviceGetCount(&count));
  return count;
}

inline bool peers() {
  int there = 0, back = 0;
  if (devices() < 2) return false;
  OK(cuDeviceCanAccessPeer(&there, 0, 1));
  OK(cuDeviceCanAccessPeer(&back, 1, 0));
  return there == 1 && back == 1;
}

// The primary context of a GPU, current in this thread for the scope. It stays active until the program ends:
// making one takes a tenth of a second on a GPU.
class Primary {
 public:
  explicit Primary(CUdevice of = 0) : device(of) {
    OK(cuInit(0));
    static bool kept[64] = {};
    if (!kept[device]) {
      OK(cuDevicePrimaryCtxRetain(&context, device));
      kept[device] = true;
    }
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxPushCurrent(context));
  }
  Primary(const Primary&) = delete;
  ~Primary() {
    OK(cuCtxSetCurrent(context));
    OK(cuCtxSynchronize());
    CUcontext popped = nullptr;
    OK(cuCtxPopCurrent(&popped));
    OK(cuDevicePrimaryCtxRelease(device));
  }

  const CUdevice device;
  CUcontext context = nullptr;
};

// A context of the check's own, current in this thread.
class Own {
 public:
  explicit Own(unsigned flags = 0, CUdevice device = 0) {
    OK(cuInit(0));
    OK(cuCtxCreate(&context, nullptr, flags, device));
  }
  Own(const Own&) = delete;
  ~Own() {
    if (context != nullptr) {
      OK(cuCtxDestroy(context));
    }
  }

  CUcontext context = nullptr;
};

class Stream {
 public:
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING) { OK(cuStreamCreate(&handle_, flags)); }
  Stream(const Stream&) = delete;
  ~Stream() {
    OK(cuStreamSynchronize(handle_));
    OK(cuStreamDestroy(handle_));
  }
  operator CUstream() const { return handle_; }

 private:
  CUstream handle_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DEFAULT) { OK(cuEventCreate(&handle_, flags)); }
  Event(const Event&) = delete;
  ~Event() { OK(cuEventDestroy(handle_)); }
  operator CUevent() const { return handle_; }

 private:
  CUevent handle_ = nullptr;
};

class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) { OK(cuMemAlloc(&address_, bytes)); }
  Memory(const Memory&) = delete;
  ~Memory() { OK(cuMemFree(address_)); }
  operator CUdeviceptr() const { return address_; }

  // All of it, as T.
  template <class T = uint32_t>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    OK(cuMemcpyDtoH(values.data(), address_, values.size() * sizeof(T)));
    return values;
  }
  template <class T>
  void write(const std::vector<T>& values) const {
    OK(cuMemcpyHtoD(address_, values.data(), values.size() * sizeof(T)));
  }

 private:
  size_t bytes_;
  CUdeviceptr address_ = 0;
};

inline uint32_t word_at(CUdeviceptr address) {
  uint32_t word = 0;
  OK(cuMemcpyDtoH(&word, address, sizeof word));
  return word;
}

class Module {
 public:
  explicit Module(const char* ptx) { OK(cuModuleLoadData(&handle_, ptx)); }
  Module(const Module&) = delete;
  ~Module() { OK(cuModuleUnload(handle_)); }
  operator CUmodule() const { return handle_; }
  CUfunction operator[](const char* name) const {
    CUfunction function = nullptr;
    OK(cuModuleGetFunction(&function, handle_, name));
    return function;
  }

 private:
  CUmodule handle_ = nullptr;
};

// One kernel of `threads` threads in one block.
template <class... Arguments>
CUresult launch(CUfunction function, unsigned threads, CUstream stream, Arguments... arguments) {
  void* pointers[] = {&arguments..., nullptr};
  return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr);
}

}  // namespace conform
