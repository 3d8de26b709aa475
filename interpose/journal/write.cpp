// See write.h.
#include "journal/write.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace gpufence::journal {
namespace {

constexpr int kPatienceMs =
    200;  // a reader that is slow gets this long a piece; one that is stopped, no more

// For this thread and the time of a write: a SIGPIPE of ours is taken back, one that was pending stays.
class WithoutSigpipe {
 public:
  WithoutSigpipe() noexcept {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    blocked_ = pthread_sigmask(SIG_BLOCK, &pipe_, &before_) == 0;
  }
  ~WithoutSigpipe() {
    const int kept = errno;
    if (raised_ && !was_pending_) {
      const timespec now{};
      while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    if (blocked_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = kept;
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

  void raised() noexcept { raised_ = true; }

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false, blocked_ = false, raised_ = false;
};

}  // namespace

bool write_quietly(int descriptor, std::string_view text) noexcept {
  WithoutSigpipe guard;
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
    if (written < 0 && errno == EPIPE) guard.raised();
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace gpufence::journal
