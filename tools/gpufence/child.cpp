// A child that dies or hangs costs an answer, not the run.
#include "tools/gpufence/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace gpufence::command {
namespace {

constexpr std::size_t kLongestAnswer = 1 << 20;

// Children that end while this lives leave no trace in getrusage(RUSAGE_CHILDREN), which goes with the
// process through exec: the fence takes what stands there for children of the program (GF102).
class Untraced {
 public:
  Untraced() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGCHLD, &ignore, &before_);
  }
  Untraced(const Untraced&) = delete;
  ~Untraced() { ::sigaction(SIGCHLD, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// Everything the child writes; nothing if it doesn't come to an end in time, or not to an end at all.
std::optional<std::string> read_all(int from, std::chrono::milliseconds patience) {
  std::string answer;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (answer.size() < kLongestAnswer) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting{.fd = from, .events = POLLIN, .revents = 0};
    const int ready = left.count() > 0 ? ::poll(&waiting, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> buffer{};
    const ssize_t length = ::read(from, buffer.data(), buffer.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return answer;
    answer.append(buffer.data(), static_cast<std::size_t>(length));
  }
  return std::nullopt;
}

}  // namespace

tl::expected<std::string, std::string> answer_of(const std::string& path, std::vector<std::string> words,
                                                 Environment environment,
                                                 std::chrono::milliseconds patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return tl::unexpected(std::string("pipe: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Untraced untraced;
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, path.c_str(), &actions, nullptr, arguments.data(), environment.pointers().data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    return tl::unexpected(std::string("can't start a child: ") + std::strerror(failed));
  }
  const auto answer = read_all(ends[0], patience);
  ::close(ends[0]);
  if (!answer) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return answer.value_or("");
}

}  // namespace gpufence::command
