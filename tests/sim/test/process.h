// A child process for each machine under test. The driver reads GPUFENCE_SIM and CUDA_VISIBLE_DEVICES once,
// so a test that wants its own forks; the parent never calls CUDA. Everything shared lies in a directory of
// the parent's own, so tests can run side by side.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gpufence::sim {

using Environment = std::vector<std::pair<std::string, std::string>>;

inline const std::string& private_directory() {
  static const struct Directory {
    std::string path;
    pid_t owner = getpid();
    Directory() {
      std::string name = (std::filesystem::temp_directory_path() / "gpufence-test-XXXXXX").string();
      path = mkdtemp(name.data()) == nullptr ? "/tmp" : name;
    }
    ~Directory() {
      std::error_code ignored;
      if (getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
  } directory;
  return directory.path;
}

// Starts body in a child. The exit status is 1 if an expectation failed there; its messages go to stdout.
inline pid_t start(const Environment& environment, const std::function<void()>& body) {
  const std::string directory = private_directory();
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setenv("GPUFENCE_SIM_DIR", directory.c_str(), 1);
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUFENCE_SIM", "GPUFENCE_SIM_CALLS"})
    unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  body();
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

inline int finish(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

inline void in_child(const Environment& environment, const std::function<void()>& body) {
  const int status = finish(start(environment, body));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child failed, wait status " << status;
}

// One byte from one process to another, to put their steps in order.
class Signal {
 public:
  Signal() {
    if (pipe(ends_) != 0) abort();
  }
  void send() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void wait() const {
    char c;
    EXPECT_EQ(read(ends_[0], &c, 1), 1);
  }

 private:
  int ends_[2];
};

// What a child wrote to stderr.
inline std::string stderr_of(const Environment& environment, const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const pid_t pid = start(environment, [&] {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    body();
  });
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  EXPECT_EQ(finish(pid), 0);
  return text;
}

}  // namespace gpufence::sim
