// The calls that a thread is in, by the rules that compilers leave for exceptions (DWARF call frame
// information), so that programs without frame pointers are read as well. Not by the C++ runtime's unwinder:
// that one aborts on rules that it does not know, faults on a stack that was overwritten, and reads the code
// at an address that may be none. Here each read is asked for first (memory.h), each loop ends, and no lock
// is taken (objects.h); what can't be followed ends the walk. It works on the heap and takes little of the
// stack, which may be one of 16 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpufence::observe {

// By their DWARF numbers: 6 rbp, 7 rsp, 16 rip.
struct Registers {
  std::array<std::uintptr_t, 17> value{};
};

// Where the calling function is now; inlined, so that its frame is the innermost.
[[gnu::always_inline]] inline Registers registers_here() noexcept {
  Registers here;
#if defined(__x86_64__)
  // What callers count on to be kept, and the place. The rest is unknown above a call anyway.
  asm volatile(
      "movq %%rbx, 24(%0)\n\t"
      "movq %%rbp, 48(%0)\n\t"
      "movq %%rsp, 56(%0)\n\t"
      "movq %%r12, 96(%0)\n\t"
      "movq %%r13, 104(%0)\n\t"
      "movq %%r14, 112(%0)\n\t"
      "movq %%r15, 120(%0)\n\t"
      "leaq 0(%%rip), %%rax\n\t"
      "movq %%rax, 128(%0)"
      :
      : "r"(here.value.data())
      : "rax", "memory");
#endif
  return here;
}

inline constexpr std::size_t kMostWalked = 512;  // frames, whatever is asked for

// Calls `visit` with the place of each frame, innermost first, until it says false. `after_call`: it is where
// a call returns to, so the call is before it; else the very instruction. Nothing on other processors than
// x86-64.
void walk(const Registers& from, bool (*visit)(std::uintptr_t at, bool after_call, void* data),
          void* data) noexcept;

// Where on the stack stands where the function returns to in whose frame `address` lies; null if it is in
// none of this thread's frames, or they can't be followed that far.
[[nodiscard]] const std::uintptr_t* return_of_frame(const Registers& from, std::uintptr_t address) noexcept;

}  // namespace gpufence::observe
