// A kernel launch in its two steps: what is checked and gathered once, and the work that may be made of it
// any number of times. A launch into a stream takes both at once; a graph's kernel node keeps the first.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "admission.h"
#include "code.h"
#include "ptx/run.h"
#include "queue.h"

namespace gpufence::sim {

// What a program asks for.
struct KernelRequest {
  unsigned grid[3] = {1, 1, 1};   // blocks
  unsigned block[3] = {1, 1, 1};  // threads
  unsigned shared = 0;            // bytes, dynamic
  void** params = nullptr;
  void** extra = nullptr;
  bool cooperative = false;
  bool with_priority = false;  // its own instead of its stream's
  int priority = 0;
  unsigned cluster[3] = {0, 0, 0};  // 0: as compiled
};

// Checked, with its parameters copied: immutable, and good until its module is unloaded.
struct KernelPlan {
  ptx::Launch launch;  // without what is one run's own
  std::shared_ptr<Resident> resident;
  std::vector<uint8_t> params;
  Context* context = nullptr;
  unsigned long long context_id = 0;
  Room block;  // what one block takes
  uint64_t blocks = 0, blocks_at_once = 0;
};

// A CUkernel means the context's own function; a CUfunction has to be of that context
// (CUDA_ERROR_INVALID_HANDLE). CUDA_ERROR_NOT_SUPPORTED, after GF601: the interpreter can't run it.
CUresult plan_kernel(Context& context, CUfunction handle, KernelRequest request,
                     std::shared_ptr<const KernelPlan>* out);

// One run of it, as enqueue() takes it.
struct PlannedRun {
  Operation run;
  std::function<void()> due;
};
PlannedRun prepare_kernel(const std::shared_ptr<const KernelPlan>& plan, int priority);

}  // namespace gpufence::sim
