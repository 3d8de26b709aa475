// Options of a subcommand, read strictly left to right: they end at `--` or at the first word that is not an
// option, and whatever follows is the program's, whatever it looks like (`gpufence run -d 1 prog -d 4`).
// A table a subcommand is the single source for reading and for help.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"

namespace gpufence::command {

struct OptionSpec {
  char letter = 0;         // 0: no short form
  std::string_view name;   // without dashes
  std::string_view value;  // what the value is called in help; empty: a flag; "[=N]": it may be left out
  std::string_view help;   // one line; lines after the first are indented
  bool repeatable = false;
  std::string_view heading{};  // starts a group in help
};

// A value that may be left out is never the next word: `--backtrace 8` would leave open what 8 is.
struct GivenOption {
  const OptionSpec* spec = nullptr;
  std::string written;  // "-d", "--devices": as errors name it
  std::string value;
};

struct ReadOptions {
  std::vector<GivenOption> given;
  std::size_t end = 0;  // index of the first word that is not ours
};

// `-d 2,0` `-d2,0` `-d=2,0` `-d -3` `--devices 2,0` `--devices=-3` `-qv`. A value that is its own word may
// begin with one dash but not with two: `-d --dry-run` is a forgotten value. `see` ends the remedy of usage
// errors.
[[nodiscard]] tl::expected<ReadOptions, policies::Error> read_options(std::span<const OptionSpec> specs,
                                                                      std::span<const std::string> words,
                                                                      std::string_view see);

[[nodiscard]] std::string help_of(std::span<const OptionSpec> specs);

}  // namespace gpufence::command
