// Writing into the host's descriptors without becoming the host's fault. A closed pipe would raise SIGPIPE, a
// file at the limit of its size SIGXFSZ, a full pipe that nobody drains would block for ever; all of them
// lose our text and leave the program alone.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <string_view>

namespace gpufence::journal {

// A thread that is cancelled ends in the next call that may wait, and so it would in one of ours: below a
// hook, which nothing may be thrown through, that would end the program.
class WithoutCancellation {
 public:
  WithoutCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~WithoutCancellation() { pthread_setcancelstate(before_, nullptr); }
  WithoutCancellation(const WithoutCancellation&) = delete;
  WithoutCancellation& operator=(const WithoutCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Writes all of it, in pieces that a pipe takes whole. False if any of it was lost (errno tells why).
bool write_quietly(int descriptor, std::string_view text) noexcept;

// In one write, which a regular file takes whole or, when it is full, in part. `before` goes before the text.
bool write_at_once(int descriptor, std::string_view before, std::string_view text) noexcept;

// Blocks for that many bytes from the beginning, so that a mapping of them is safe to touch. False if there
// are none, or the process may not have so large a file (whose SIGXFSZ is taken back).
bool allocate_quietly(int descriptor, std::uint64_t bytes) noexcept;

}  // namespace gpufence::journal
