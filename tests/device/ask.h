// Small questions to a driver that only a GPU can answer. Each is a function of its own, named on the command
// line (ask NAME [ARGUMENT]), so that one that hangs or faults takes no other with it. It prints facts, a
// line each: name, a tab, value. A line that starts with "!" says why it could not be asked, and then the
// status is 77.
#pragma once
#include <cuda.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace ask {

constexpr size_t kMiB = size_t{1} << 20;

inline std::string name_of(CUresult result) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return name == nullptr ? std::to_string(static_cast<int>(result)) : name;
}

[[gnu::format(printf, 2, 3)]] inline void fact(const std::string& name, const char* format, ...) {
  printf("%s\t", name.c_str());
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
}

[[noreturn]] inline void could_not(const std::string& why) {
  printf("!%s\n", why.c_str());
  fflush(stdout);
  _Exit(77);
}

inline void need(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) could_not(std::string(call) + ": " + name_of(result));
}
#define NEED(call) ask::need(call, #call)

// The primary context of GPU 0, current.
inline CUcontext start() {
  NEED(cuInit(0));
  CUcontext context = nullptr;
  NEED(cuDevicePrimaryCtxRetain(&context, 0));
  NEED(cuCtxSetCurrent(context));
  return context;
}

inline long long free_bytes() {
  size_t free = 0, total = 0;
  NEED(cuMemGetInfo(&free, &total));
  return static_cast<long long>(free);
}

// What main() dispatches to; `argument` is "" without one.
void addresses();
void array_sizes();
void capture_reads();
void graph_memory();
void managed();
void mask_shows(const std::string& value);
void mask_time();
void pools();
void residue();

}  // namespace ask
