// The parent that `run` leaves behind with --fail-on, which has to see how the program ended. It stays in the
// program's process group, so that a terminal's Ctrl-C and Ctrl-Z reach both and the shell's job control
// works on it; what is sent to it alone it passes on.
#pragma once

#include <functional>

namespace gpufence::command {

struct Ended {
  int status = 0;  // exit status
  int signal = 0;  // that ended it; 0: none
};

// Runs `child` in a child process, which ends with what it returns (it is meant to exec), and waits for it.
[[nodiscard]] Ended wait_for_child(const std::function<int()>& child);

// Ends this process as the child ended. Returns only for an exit status.
int end_as(const Ended& ended);

}  // namespace gpufence::command
