#include "tools/gpufence/test/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpufence::command::testing {
namespace {

std::string content_of(int descriptor) {
  std::string content;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t got; (got = ::pread(descriptor, buffer, sizeof buffer, at)) > 0; at += got)
    content.append(buffer, static_cast<std::size_t>(got));
  ::close(descriptor);
  return content;
}

}  // namespace

Ended spawn(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  std::vector<char*> arguments, variables;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);

  // Files in memory rather than pipes: nothing to drain, nothing to deadlock on.
  const int out = ::memfd_create("out", MFD_CLOEXEC);
  const int err = ::memfd_create("err", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  Ended ended;
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, words.front().c_str(), &actions, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ended.pid = child;
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  ended.out = content_of(out);
  ended.err = content_of(err);
  return ended;
}

std::string in_tree(const std::string& path) {
  return COMMAND_TREE "/" + path;
}
std::string program(const std::string& kind) {
  return in_tree("programs/" + kind);
}

Ended gpufence(const std::vector<std::string>& words, const std::vector<std::string>& extra) {
  std::vector<std::string> all{in_tree("bin/gpufence")};
  all.insert(all.end(), words.begin(), words.end());
  // The first of two entries of one name is the one that counts.
  std::vector<std::string> environment = extra;
  environment.push_back("PATH=/usr/bin:/bin");
  environment.push_back("HOME=/nonexistent");
  environment.push_back("LD_LIBRARY_PATH=" + in_tree("standin"));
  environment.push_back("ASAN_OPTIONS=detect_leaks=0");
  return spawn(all, environment);
}

Scratch::Scratch() {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/gpufence-command-XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Scratch::file(const std::string& name, const std::string& content, int mode) const {
  std::string path = path_ + '/' + name;
  std::ofstream(path, std::ios::binary) << content;
  ::chmod(path.c_str(), static_cast<mode_t>(mode));
  return path;
}

}  // namespace gpufence::command::testing
