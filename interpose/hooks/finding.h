// How every wrong-device finding is made: both GPUs in full, the call as the programmer wrote it, where it
// was made and by which thread. Words are built only for the first of a call site; later ones are counted.
#pragma once

#include "hooks/rules.h"
#include "observe/owners.h"

namespace gpufence::hooks {

// A thread, as findings name it.
struct Thread {
  int id = 0;
  std::string name;
};
[[nodiscard]] Thread this_thread_named();

struct Fault {
  const char* code = "";
  journal::Severity severity = journal::Severity::warning;
  observe::Call call{};
  int device = -1;        // ordinal; where the work was to be done
  int other_device = -1;  // ordinal; -1: there is none
  std::optional<std::uint64_t> bytes{};
  std::string once{};     // what makes it the same finding; empty: the place, the two GPUs and the subject
  std::string subject{};  // the kernel: without -O all launches of a program are one place, nvcc's own
  std::optional<Thread> thread{};  // that made the call, if it is not the one that speaks
};

// `words` come before "; cudaLaunchKernel at app+0x4c10 (step), thread "worker-2"".
void explain(Fault fault, const std::function<std::string(const Visible&)>& words) noexcept;

// A finding that is worded already, of `call`: its record gets the call, the place and the thread. For what
// is found before the GPUs of this process are known.
void say_of(journal::Finding finding, const observe::Call& call) noexcept;

// GF101: an ordinal that does not exist here. `real`: what a remap made of it.
void say_no_such_ordinal(int ordinal, const observe::Call& call, int real) noexcept;
inline void say_no_such_ordinal(int ordinal, const observe::Call& call) noexcept {
  say_no_such_ordinal(ordinal, call, ordinal);
}

// A GPU of this view as records have it; an ordinal that is none gives what does not apply.
[[nodiscard]] journal::Gpu record_of(const Visible& seen, int ordinal);
// A GPU of the machine by its UUID, whether it is visible here or not.
[[nodiscard]] journal::Gpu record_of(const Rules& to, const std::string& uuid);

// Where a call comes from, as a person reads it: "app+0x4c10 (step)"; where the calls in Python that it was
// made below are known, "train.py:41 (step)", or "libtorch_cuda.so+0x4c10 (…) from train.py:41 (step)".
[[nodiscard]] std::string place_text(const void* caller, const std::vector<journal::PythonFrame>& python);

// With --backtrace: the call stacks of this thread, from the place of the call that it is in, into the
// finding.
void add_stacks(journal::Finding& finding, const void* caller);

// "CUDA 1 = host GPU 3 (H100, 0000:81:00.0)"; the ordinal must be one of this view.
[[nodiscard]] std::string gpu_text(const Visible& seen, int ordinal);

// ", created at libfoo.so+0x1a2b (make_stream)"; empty if it is not known.
[[nodiscard]] std::string made_text(const char* how, const observe::Call& made);

// What owns handles in this process; null before cuInit, and where one GPU is visible: then nothing can be
// another's.
[[nodiscard]] inline observe::Owners* owners() noexcept {
  Visible* seen = visible();
  return seen != nullptr ? seen->owners.get() : nullptr;
}

// "cuInit at +0.4 s (called from libtorch_cuda.so)"
[[nodiscard]] std::string started_text(const Started& started);

// This process was forked from one with CUDA live: CUDA does not work here. Set by the fork handler.
inline constinit std::atomic<bool> in_dead_child{false};
void say_used_in_dead_child(const observe::Call& call) noexcept;
// At the head of calls that use CUDA. Not of those that give things back: exit handlers make them too.
inline void note_use(const char* api, const void* caller) noexcept {
  if (in_dead_child.load(std::memory_order_relaxed)) [[unlikely]]
    say_used_in_dead_child(observe::current(api, caller));
}

// A handle that the call in progress made in the current context.
void remember_made(observe::Kind kind, const void* handle, const char* api, const void* caller,
                   const void* parent = nullptr, const char* name = nullptr) noexcept;

// One that belongs to a GPU whatever context is current.
void remember_on(observe::Kind kind, const void* handle, int device, const observe::Call& made) noexcept;

// For a destroying call: the handle is forgotten first, and remembered again if the driver refuses.
template <class Destroy>
CUresult forgotten(observe::Kind kind, const void* handle, Destroy destroy) noexcept {
  observe::Owners* known = owners();
  const std::optional<observe::Owner> owner = known != nullptr ? known->forget(kind, handle) : std::nullopt;
  const CUresult result = destroy();
  if (owner && result != CUDA_SUCCESS) known->remember(kind, handle, *owner);
  return result;
}

// The GPU of the current context; -1: none.
[[nodiscard]] int current_device() noexcept;

// Whose a stream is: its own GPU if it was created, else the current one's (NULL, legacy, per-thread).
struct StreamPlace {
  int device = -1;  // -1: not known
  bool is_default = false;
  observe::Call made{};
};
[[nodiscard]] StreamPlace place_of_stream(CUstream stream) noexcept;

}  // namespace gpufence::hooks
