// What the subcommands share: exit codes and the one form in which the command speaks, `gpufence: what: why;
// what to do`, on stderr. stdout is never ours in `run`: it is the program's.
#pragma once

#include <string>

#include "policies/error.h"

namespace gpufence::command {

using policies::Error;

inline constexpr int kDone = 0;
inline constexpr int kNothing = 1;      // nothing found, nothing there to list
inline constexpr int kUsage = 2;        // usage of any subcommand but run
inline constexpr int kFailed = 125;     // run: gpufence itself, an option, a GPU or a policy
inline constexpr int kCannotRun = 126;  // run: can't be executed, or can't be fenced and must be
inline constexpr int kNotFound = 127;   // run: no such program

// Why a run does not start, and the exit status that says so.
struct Refusal {
  int status = kFailed;
  Error error;
};

// "gpufence: what: why; remedy". Control characters of what a user or a file brought in are shown as '?', so
// that it stays one line.
[[nodiscard]] std::string line_of(const Error& error);
void say(const Error& error);

}  // namespace gpufence::command
