// Which call of the program we are in. The driver level enforces, the runtime level annotates: while a
// runtime call runs, what the driver hooks below it find is told in the runtime call's name and place, as the
// programmer wrote it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "journal/journal.h"

namespace gpufence::observe {

struct Call {
  const char* api = "";          // "cudaMalloc", "cuMemAlloc_v2"
  const void* caller = nullptr;  // return address in the program
};

// What a thread knows of the runtime call that it is in.
struct Outermost {
  Call call{};
  bool chooses = false;         // it names the GPU that the thread is to work on
  bool explained = false;       // a finding was made of it: what goes wrong above it went wrong below
  std::uint32_t watched = 0;    // told by CUPTI in this generation, not by a hook; 0: by a hook
  const void* frame = nullptr;  // then: lies in the runtime function's stack frame
};
extern thread_local constinit Outermost outermost;

// When the observer leaves, calls that it told the beginning of have no end: what it told counts no more.
inline constinit std::atomic<std::uint32_t> watch_generation{1};

// This thread is in a runtime call that it knows.
[[nodiscard]] inline bool in_runtime_call() noexcept {
  return outermost.call.caller != nullptr &&
         (outermost.watched == 0 || outermost.watched == watch_generation.load(std::memory_order_relaxed));
}

// The caller of a watched call until somebody asks: CUPTI does not tell it, and to look for it takes
// unwinding.
extern const char kOnTheStack;
// The same call with its place: the frame above the runtime function's. `otherwise` where that can't be
// found.
[[nodiscard]] Call with_place(const void* otherwise) noexcept;

// For the time of a runtime call. Calls nest (a callback may call again): the outermost counts.
class InCall {
 public:
  InCall(const char* api, const void* caller) noexcept : outermost_(!in_runtime_call()) {
    if (outermost_) outermost = {{api, caller}};
  }
  ~InCall() {
    if (outermost_) outermost = {};
  }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  bool outermost_;
};

// The runtime call that this thread is in, else the driver call given.
[[nodiscard]] inline Call current(const char* driver_api, const void* caller) noexcept {
  if (!in_runtime_call()) return {driver_api, caller};
  return outermost.call.caller != &kOnTheStack ? outermost.call : with_place(caller);
}

// The same for findings: if the caller is a CUDA library (a runtime call that is not hooked, cuBLAS), the
// first frame above that is none. Unwinds, so only asked when there is something to say.
[[nodiscard]] Call outside_cuda(Call call) noexcept;

// Whether the address lies in a library of NVIDIA's toolkit or driver, or in ours.
[[nodiscard]] bool is_of_cuda(const void* address) noexcept;

// The same above the C library too: who called fork.
[[nodiscard]] const void* outside_libc() noexcept;
// Whether this call is made from exit(): by an exit handler or a destructor.
[[nodiscard]] bool exiting() noexcept;

// The place as a record has it.
[[nodiscard]] journal::Site site_of(const void* address);
// The same of a place in an object that is known: `at` decides the function, `shown` is what is said.
struct Object;
[[nodiscard]] journal::Site site_in(const Object& object, std::uintptr_t shown, std::uintptr_t at);
// "libtorch_cuda.so": the file that the address belongs to.
[[nodiscard]] std::string object_text(const void* address);

// "saxpy" of "_Z5saxpyPf", "scale<float>" of "_Z5scaleIfEvPT_": a kernel's name without its parameters.
[[nodiscard]] std::string kernel_text(const char* mangled);

// "libfoo.so+0x1a2b (make_stream)": the object's file name, the offset in it, the nearest exported symbol.
[[nodiscard]] std::string site_text(const void* address);

// "cuMemAlloc": without the version suffix, as the programmer wrote it.
[[nodiscard]] std::string api_text(const Call& call);

// "cudaMalloc at train+0x1a2b (main)"
[[nodiscard]] std::string text(const Call& call);

}  // namespace gpufence::observe
