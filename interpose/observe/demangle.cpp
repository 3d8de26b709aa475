// See demangle.h.
#include "observe/demangle.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace gpufence::observe {
namespace {

constexpr std::size_t kRoom = 8 << 20;  // bytes, of which only what is used takes memory
constexpr std::size_t kGuard = 64 << 10;

struct Name {
  const char* symbol;
  char* text;
};

void read(void* data) {
  auto& name = *static_cast<Name*>(data);
  int status = 0;
  name.text = abi::__cxa_demangle(name.symbol, nullptr, nullptr, &status);
}

#if defined(__x86_64__)
[[gnu::noinline]] void call_on(void* stack, void (*function)(void*), void* data) noexcept {
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[stack], %%rsp\n\t"
      "callq *%[function]\n\t"
      "movq %%rbx, %%rsp"
      : "+D"(data)
      : [stack] "r"(stack), [function] "r"(function)
      : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
        "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
        "memory", "cc");
}
#endif

}  // namespace

std::string demangled(const char* symbol) {
  // Without the lead everything is a type: "f" would be float.
  if (std::strncmp(symbol, "_Z", 2) != 0) return symbol;
  Name name{symbol, nullptr};
#if defined(__x86_64__)
  void* room =
      ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return symbol;
  ::mprotect(room, kGuard, PROT_NONE);
  call_on(static_cast<char*>(room) + kRoom - 64, read, &name);
  ::munmap(room, kRoom);
#else
  read(&name);
#endif
  const std::unique_ptr<char, decltype(&std::free)> text(name.text, &std::free);
  return text != nullptr ? text.get() : symbol;
}

}  // namespace gpufence::observe
