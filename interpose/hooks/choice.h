// Which GPU each thread works on, and whether it said so. CUDA puts a thread that says nothing on CUDA 0: a
// helper thread's first call then works on the wrong GPU, or leaves a context of hundreds of MiB on it, in
// silence. Only a runtime that shows its calls, a shared one or one that CUPTI tells of, shows the difference
// between cudaSetDevice(0) and no choice at all; elsewhere every thread counts as having chosen.
//
// A context that a call made before any thread chose is a fault only in hindsight: the thread went on to
// another GPU, the process worked there, and nothing was ever done where the context is. So it is watched
// until something is, and said at exit.
#pragma once

#include "hooks/finding.h"

namespace gpufence::hooks {

// This thread chose a GPU: by cudaSetDevice, or by a context of its own making.
void note_choice(int device) noexcept;

// For a call that may create the primary context of `device`; made before the driver is asked.
class Creation {
 public:
  Creation(int device, const observe::Call& call, const void* caller) noexcept;
  // After the driver created it. GF202, if nobody chose this GPU.
  void done() noexcept;

 private:
  int device_;
  observe::Call call_;
  bool unasked_;
  bool early_ = false;                                      // nobody has chosen yet
  std::optional<std::uint64_t> used_before_, held_before_;  // bytes of the card, and of this process on it
};

// A context was made current. GF201, if this is the first that the thread does, it chose nothing, and the
// process works elsewhere.
void arrived(CUcontext context, const char* api, const void* caller) noexcept;

// Whether such a context stands unused; set and cleared in choice.cpp alone.
inline constinit std::atomic<bool> watched{false};
void note_work_on(int device) noexcept;
// Something was done on a GPU, or with its memory; `device()` gives its ordinal.
template <class Device>
void note_work(Device device) noexcept {
  if (watched.load(std::memory_order_relaxed)) [[unlikely]]
    note_work_on(device());
}
// The primary context of `device` was given back. Not a word of it at exit, where runtimes give back what
// they have.
void note_context_gone(int device) noexcept;
// GF202, for the context that nothing used.
void say_unused_context() noexcept;

}  // namespace gpufence::hooks
