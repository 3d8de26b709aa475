// See write.h.
#include "journal/write.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace gpufence::journal {
namespace {

constexpr int kPatienceMs =
    200;  // a reader that is slow gets this long a piece; one that is stopped, no more

// For this thread and the time of a write: a SIGPIPE or SIGXFSZ of ours is taken back, one that was pending
// stays.
class WithoutSignals {
 public:
  WithoutSignals() noexcept {
    sigemptyset(&ours_);
    sigaddset(&ours_, SIGPIPE);
    sigaddset(&ours_, SIGXFSZ);
    sigemptyset(&pending_);
    known_ = sigpending(&pending_) == 0;
    blocked_ = pthread_sigmask(SIG_BLOCK, &ours_, &before_) == 0;
  }
  ~WithoutSignals() {
    const int kept = errno;
    if (raised_ != 0 && known_ && sigismember(&pending_, raised_) == 0) {
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, raised_);
      const timespec now{};
      while (sigtimedwait(&one, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    if (blocked_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = kept;
  }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

  void failed() noexcept { raised_ = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0; }

 private:
  sigset_t ours_{}, pending_{}, before_{};
  bool known_ = false, blocked_ = false;
  int raised_ = 0;
};

}  // namespace

bool write_quietly(int descriptor, std::string_view text) noexcept {
  WithoutSignals guard;
  while (!text.empty()) {
    pollfd ready{descriptor, POLLOUT, 0};
    const int polled = poll(&ready, 1, kPatienceMs);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) {
      errno = EAGAIN;
      return false;
    }
    // A pipe that polls as writable takes PIPE_BUF bytes without blocking.
    const ssize_t written = ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) guard.failed();
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool allocate_quietly(int descriptor, std::uint64_t bytes) noexcept {
  WithoutSignals guard;
  if (::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0) return true;
  guard.failed();
  return false;
}

bool write_at_once(int descriptor, std::string_view before, std::string_view text) noexcept {
  WithoutSignals guard;
  const iovec parts[] = {{const_cast<char*>(before.data()), before.size()},
                         {const_cast<char*>(text.data()), text.size()}};
  ssize_t written = 0;
  do written = ::writev(descriptor, parts, 2);
  while (written < 0 && errno == EINTR);
  if (written < 0) {
    guard.failed();
    return false;
  }
  if (static_cast<std::size_t>(written) == before.size() + text.size()) return true;
  errno = ENOSPC;
  return false;
}

}  // namespace gpufence::journal
