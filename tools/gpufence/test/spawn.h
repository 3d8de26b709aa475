// Starts a process and waits for it: what it printed and how it ended.
#pragma once

#include <string>
#include <vector>

namespace gpufence::command::testing {

struct Ended {
  int status = -1;  // exit status, or 128 + signal
  int pid = 0;
  std::string out, err;
};

// The environment is exactly `environment`.
Ended spawn(const std::vector<std::string>& words, const std::vector<std::string>& environment);

// The command of the test's own tree, on the stand-in machine, with `extra` in an otherwise small
// environment.
// ("gpufence" need not be written.)
Ended gpufence(const std::vector<std::string>& words, const std::vector<std::string>& extra = {});

// Paths in the tree.
std::string in_tree(const std::string& path);
std::string program(const std::string& kind);  // "plain", "static", …

// A directory that is removed at the end of the scope.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  // Writes a file there and returns its path.
  [[nodiscard]] std::string file(const std::string& name, const std::string& content, int mode = 0644) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gpufence::command::testing
