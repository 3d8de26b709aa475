// The runtime's own state: what the start cached about each device, which primary contexts it holds, and each
// thread's device and last error. One instance a runtime, never destroyed: programs call CUDA from exit
// handlers. Every exported call goes through started() or in_context(), which start the runtime at the first
// call.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "tests/sim/runtime/driver.h"

namespace gpufence::sim {
struct ToolsTable;
}

namespace gpufence::sim::runtime {

inline constexpr int kMaxDevices = 64;

struct Device {
  CUdevice handle = 0;
  cudaDeviceProp properties{};  // cached at the start: cudaGetDeviceProperties asks the driver nothing
  std::mutex retaining;
  std::atomic<CUcontext> primary{nullptr};
  std::atomic<bool> live{false};  // false again after cudaDeviceReset, until the next use retains it anew
  int retained = 0;               // how many times the exit handler has to release it; under `retaining`
};

class Runtime {
 public:
  // The process's runtime, started. Its error() is what every call then answers.
  static Runtime& get();

  cudaError_t error() const { return error_; }
  const Driver& driver() const { return driver_; }
  int driver_version() const { return driver_version_; }  // 0 without a driver
  int count() const { return count_; }
  const cudaDeviceProp& properties(int ordinal) const { return devices_[ordinal].properties; }
  CUdevice handle(int ordinal) const { return devices_[ordinal].handle; }
  int ordinal(CUdevice handle) const;  // -1 if it is none of ours
  bool valid(int ordinal) const { return ordinal >= 0 && ordinal < count_; }

  // Makes sure that a context is current on this thread: the one that is, if any, else the primary context of
  // the thread's device.
  cudaError_t bind();
  // The device of the current context, else the one that this thread chose (0 at first).
  int current_ordinal();
  // Retains the ordinal's primary context the first time. Does not make it current.
  cudaError_t primary(int ordinal, CUcontext* context);
  // How many devices this runtime retained so far.
  int devices_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  cudaError_t use(int ordinal);
  // What a thread that chose no device gets: the first of these that works. Empty: of all.
  void try_in_order(std::vector<int> ordinals);
  cudaError_t reset(int ordinal);

 private:
  Runtime() = default;
  cudaError_t start();
  cudaError_t describe(int ordinal);
  bool stale(CUcontext context) const;
  std::vector<int> order();
  static void release_all();

  Driver driver_{};
  cudaError_t error_ = cudaSuccess;
  int driver_version_ = 0;
  int count_ = 0;
  std::atomic<int> in_use_{0};
  std::mutex order_lock_;
  std::vector<int> order_;  // cudaSetValidDevices; under `order_lock_`
  bool eager_ = false;      // CUDA_MODULE_LOADING=EAGER
  Device devices_[kMaxDevices];
};

// The check that stands in for the genuine runtime's: did anything on the way alter the driver version, the
// device count, a UUID or a PCI id? cudaErrorSoftwareValidityNotEstablished (103) if so, or if it is not our
// driver.
cudaError_t check_validity(const Runtime& runtime);

#ifdef GPUFENCE_SIM_TOLD
// From here on whoever listens there is told of this runtime's calls (told.cpp).
void tell_tools(const ToolsTable* tools);
#else
inline void tell_tools(const ToolsTable*) {}
#endif

// The runtime's code for a driver's: the same number where the runtime has one, else cudaErrorUnknown.
cudaError_t from_driver(CUresult result);
inline cudaError_t from_driver(cudaError_t error) {
  return error;
}

// Keeps a failure as this thread's last error and hands it back.
cudaError_t note(cudaError_t error);
// After a reset: what faults left as threads' last errors is cleared by asking again.
void let_faults_go();

// For a call that needs the driver and no context.
template <typename Body>
cudaError_t started(Body body) {
  Runtime& runtime = Runtime::get();
  if (runtime.error() != cudaSuccess) return note(runtime.error());
  return note(from_driver(body(runtime)));
}

// For a call that needs a current context.
template <typename Body>
cudaError_t in_context(Body body) {
  return started([&](Runtime& runtime) -> cudaError_t {
    if (const cudaError_t bound = runtime.bind(); bound != cudaSuccess) return bound;
    return from_driver(body(runtime.driver()));
  });
}

// Says once (per `said`) on stderr that the simulator has no such thing, and what came of it (GF601).
void say_unsupported(const char* what, const char* consequence, std::atomic<bool>& said);

// The same for a call, which answers cudaErrorNotSupported, or what the start ended with.
cudaError_t unsupported(const char* call, std::atomic<bool>& said);

}  // namespace gpufence::sim::runtime
