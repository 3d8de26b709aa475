// Each thread's last error, and the name and sentence of every code. A switch without a default over
// cudaError makes a code that a new CUDA adds a compile error here.
#include <stdio.h>
#include <unistd.h>

#include <string>

#include "tests/sim/check/instead.h"
#include "tests/sim/runtime/runtime.h"

#pragma GCC diagnostic error "-Wswitch"

namespace gpufence::sim::runtime {
namespace {

constinit thread_local cudaError_t last_error = cudaSuccess;
constinit thread_local unsigned resets_then = 0;  // when last_error was kept
constinit std::atomic<unsigned> resets{0};

// The codes of which driver_types.h says that the process has to be started anew: asking
// for the last error does not clear these ("sticky"), until the device is reset.
bool sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

struct Said {
  const char* name;
  const char* sentence;
};

constexpr Said look_up(cudaError_t error) {
  switch (error) {
#define GPUFENCE_RUNTIME_ERROR(name, sentence) \
  case name:                                   \
    return {#name, sentence};
#include "tests/sim/runtime/errors.inc"
  }
  return {"unrecognized error code", "unrecognized error code"};
}

constexpr bool known(cudaError_t error) {
  switch (error) {
#define GPUFENCE_RUNTIME_ERROR(name, sentence) case name:
#include "tests/sim/runtime/errors.inc"
    return true;
  }
  return false;
}

}  // namespace

cudaError_t from_driver(CUresult result) {
  const auto same = static_cast<cudaError_t>(result);
  return known(same) ? same : cudaErrorUnknown;
}

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
    resets_then = resets.load(std::memory_order_relaxed);
  }
  return error;
}

void let_faults_go() {
  ++resets;
}

void say_unsupported(const char* what, const char* consequence, std::atomic<bool>& said) {
  if (said.exchange(true)) return;
  // One write, so that lines of several processes do not mix.
  char line[400];
  const int length = snprintf(line, sizeof line, "gpufence[%d] GF601 warning: the simulator has no %s: %s\n",
                              getpid(), what, consequence);
  if (length > 0 && write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) {
    // Nobody to tell: stderr is closed.
  }
}

cudaError_t unsupported(const char* call, std::atomic<bool>& said) {
  if (const cudaError_t start = Runtime::get().error(); start != cudaSuccess) return note(start);
  const std::string consequence = "it answered cudaErrorNotSupported; " + std::string(instead_of_call(call));
  say_unsupported(call, consequence.c_str(), said);
  return note(cudaErrorNotSupported);
}

// The same for unsupported.cpp, which knows no type of CUDA's.
int answer_unsupported(const char* call, std::atomic<bool>& said) {
  return unsupported(call, said);
}

}  // namespace gpufence::sim::runtime

using namespace gpufence::sim::runtime;

// These four need no driver and start nothing.
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  if (!sticky(error) || resets_then != resets.load(std::memory_order_relaxed)) last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}
const char* cudaGetErrorName(cudaError_t error) {
  return look_up(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return look_up(error).sentence;
}
