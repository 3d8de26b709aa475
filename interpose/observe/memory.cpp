// See memory.h.
#include "observe/memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpufence::observe {
namespace {

// The kernel takes the mask in before it looks at what is to be done with it, which is nothing it knows:
// EFAULT, it can't be read; EINVAL, it can.
bool can_be_read(std::uintptr_t at) noexcept {
  constexpr long kNothing = ~0L;
  const int kept = errno;
  const long answer = ::syscall(SYS_rt_sigprocmask, kNothing, at, nullptr, 8);
  const bool readable = answer == -1 && errno == EINVAL;
  errno = kept;
  return readable;
}

// The stack of other functions is what AddressSanitizer forbids to read, and other threads' memory is what
// ThreadSanitizer does.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GPUFENCE_UNCHECKED [[gnu::noinline, gnu::no_sanitize("address", "thread")]]
#else
#define GPUFENCE_UNCHECKED
#endif
GPUFENCE_UNCHECKED void copy(std::uintptr_t from, unsigned char* to, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
    // volatile: a loop that the compiler takes for memcpy would be the sanitizer's.
    const std::uint64_t word = *reinterpret_cast<const volatile std::uint64_t*>(from + i);
    for (std::size_t byte = 0; byte < sizeof word; ++byte)
      to[i + byte] = static_cast<unsigned char>(word >> (8 * byte));
  }
}
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

}  // namespace

const Memory::Line* Memory::line_of(std::uintptr_t at) noexcept {
  const std::uintptr_t from = at / kLine * kLine;
  Line& line = lines_[from / kLine % lines_.size()];
  if (line.at == from) return &line;
  line.at = 1;
  if (from == 0 || !can_be_read(from)) return nullptr;
  copy(from, line.bytes.data(), kLine);
  line.at = from;
  return &line;
}

bool Memory::read(std::uintptr_t at, void* to, std::size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  while (bytes > 0) {
    const Line* line = line_of(at);
    if (line == nullptr) return false;
    const std::size_t skip = at % kLine;
    const std::size_t part = std::min(bytes, kLine - skip);
    std::memcpy(out, line->bytes.data() + skip, part);
    out += part;
    at += part;
    bytes -= part;
  }
  return true;
}

}  // namespace gpufence::observe
