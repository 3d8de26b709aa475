// What the checks of the runtime API share. They are compiled by nvcc as users compile, with the runtime
// shared.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "conform.h"
#include "tests/sim/test/gate.h"  // a stream that is held until the check lets it go, on any driver

inline void PrintTo(cudaError_t error, std::ostream* out) {
  *out << cudaGetErrorName(error) << " (" << static_cast<int>(error) << ')';
}

namespace conform {

using gpufence::sim::Diary;
using gpufence::sim::Gate;

// With a default stream per thread the same calls are other functions, so these are other classes.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
inline namespace per_thread {
#else
inline namespace legacy {
#endif

#define OK(call) EXPECT_EQ(call, cudaSuccess)

constexpr size_t kMiB = size_t{1} << 20;

// Each check starts on GPU 0 with no error left behind, and leaves none: the last error is the thread's.
class Fresh {
 public:
  Fresh() {
    cudaGetLastError();
    OK(cudaSetDevice(0));
  }
  Fresh(const Fresh&) = delete;
  ~Fresh() {
    OK(cudaSetDevice(0));
    OK(cudaDeviceSynchronize());
    cudaGetLastError();
  }
};

inline int devices() {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  return count;
}

inline int attribute(cudaDeviceAttr which, int device = 0) {
  int value = -1;
  OK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

inline bool peers() {
  int there = 0, back = 0;
  if (devices() < 2) return false;
  OK(cudaDeviceCanAccessPeer(&there, 0, 1));
  OK(cudaDeviceCanAccessPeer(&back, 1, 0));
  return there == 1 && back == 1;
}

template <class T = uint32_t>
class Memory {
 public:
  explicit Memory(size_t count) : count_(count) {
    OK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  Memory(const Memory&) = delete;
  ~Memory() { OK(cudaFree(data_)); }
  operator T*() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    OK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  void write(const std::vector<T>& values) const {
    OK(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { OK(cudaStreamCreateWithFlags(&handle_, flags)); }
  Stream(const Stream&) = delete;
  ~Stream() {
    OK(cudaStreamSynchronize(handle_));
    OK(cudaStreamDestroy(handle_));
  }
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

}  // inline namespace
}  // namespace conform
