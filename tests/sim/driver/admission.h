// Which of the kernels that could start does start, when the GPU is full: the one whose stream has the higher
// priority, then the one that could start first ("pending work in higher-priority streams takes preference
// over pending work in low-priority streams", cuStreamCreateWithPriority). Nothing that runs is interrupted.
//
// A kernel starts as soon as one block of it fits beside what runs: what a GPU would run together, runs
// together here, so that kernels may wait for each other where they may there. Registers are an estimate and
// are left out: too much room is harmless, too little would be a deadlock that no GPU has.
#pragma once
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ptx/run.h"

namespace gpufence::sim {

// What a block takes of a GPU, and what a GPU has.
struct Room {
  uint64_t warps = 0;
  uint64_t blocks = 0;
  uint64_t shared = 0;  // bytes
};

class Admission;

// A launch, until it ended: the end is this object's.
class PendingKernel final : public ptx::BlockWatcher {
 public:
  // A grid of so many such blocks, of which the GPU holds `resident` at once. Lower numbers are higher
  // priorities, as CUDA has it.
  PendingKernel(std::shared_ptr<Admission> admission, Room block, uint64_t blocks, uint64_t resident,
                int priority);
  ~PendingKernel() override;
  PendingKernel(const PendingKernel&) = delete;
  PendingKernel& operator=(const PendingKernel&) = delete;

  // Nothing stands before it in its stream: it takes part from now on. May be called again.
  void due();
  // Waits for its turn. It is due by now.
  void enter();
  void block_ended() override;

 private:
  friend class Admission;
  const std::shared_ptr<Admission> admission_;
  const Room block_;
  const uint64_t blocks_, resident_;
  const int priority_;
  std::atomic<uint64_t> ended_{0};  // blocks
  // Under the admission's lock.
  enum class State { early, pending, running } state_ = State::early;
  uint64_t ended_before_ = 0;  // Admission::ended_ when it became due
  std::condition_variable admitted_;
};

// Of one context: GPUs take turns between contexts.
class Admission {
 public:
  explicit Admission(Room total) : total_(total) {}

 private:
  friend class PendingKernel;
  bool fits(const PendingKernel& kernel) const;
  void admit();  // all that may start now; under `lock_`

  const Room total_;
  std::mutex lock_;
  std::vector<PendingKernel*> pending_;  // by priority, then in the order in which they became due
  std::vector<PendingKernel*> running_;
  std::atomic<uint64_t> ended_{0};             // blocks of any kernel
  std::atomic<int> highest_pending_{INT_MAX};  // the priority of pending_.front(); INT_MAX: nobody waits
};

}  // namespace gpufence::sim
