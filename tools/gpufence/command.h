// What the subcommands share: exit codes and the one form in which the command speaks, `gpufence: what: why;
// what to do`, on stderr. stdout is never ours in `run`: it is the program's.
#pragma once

#include <string>
#include <string_view>

#include "policies/error.h"

namespace gpufence::command {

using policies::Error;

inline constexpr int kDone = 0;
inline constexpr int kNothing = 1;      // nothing found, nothing there to list, stdout not to be written
inline constexpr int kUsage = 2;        // usage of any subcommand but run
inline constexpr int kFound = 99;       // run --fail-on: such a finding was made
inline constexpr int kFailed = 125;     // run: gpufence itself, an option, a GPU or a policy
inline constexpr int kCannotRun = 126;  // run: can't be executed, or can't be fenced and must be
inline constexpr int kNotFound = 127;   // run: no such program

// Why a run does not start, and the exit status that says so.
struct Refusal {
  int status = kFailed;
  Error error;
};

// "gpufence: what: why; remedy\n", whatever a user or a file brought in: control characters and what is no
// UTF-8 are shown escaped (\n, \x1b), and what was echoed is cut at about 200 characters, with its length.
[[nodiscard]] std::string line_of(const Error& error);
void say(const Error& error);

// Text of others (a file's, an environment's) for a terminal: control characters and what is no UTF-8
// escaped.
[[nodiscard]] std::string escaped(std::string_view text);

// All of it to stdout. If that can't be (a full disk, a closed stdout), says so and answers `failed`;
// else kDone.
[[nodiscard]] int print(std::string_view text, int failed = kNothing);

// At the start of main: what is closed of stdin, stdout and stderr is filled with descriptors that fail, and
// that close again at exec, so that no file of ours comes to stand where output goes.
void fill_standard_descriptors();

}  // namespace gpufence::command
