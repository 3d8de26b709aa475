// PROGRAM, from the word that was typed to the file whose loader decides whether a preload will hold: found
// as execvp finds it, `#!` and `/usr/bin/env` followed, and the ELF file at the end looked into.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "tools/gpufence/command.h"
#include "tools/gpufence/elf.h"
#include "tools/gpufence/environment.h"

namespace gpufence::command {

// Why the fence would not hold in a program, in the words of an error.
struct Unfenceable {
  std::string why;  // a clause: "it is statically linked"
  std::string remedy;
  bool preload_harms = false;  // the program's loader would complain of the preload, or die of it
};

struct Program {
  std::string path;                  // what to exec
  std::vector<std::string> words;    // argv, the program's name first
  std::vector<std::string> scripts;  // `#!` files on the way to the image, the program first
  std::string image;                 // the ELF file that runs in the end; empty if it can't be told
  std::optional<Elf> elf;            // of the image; empty if it is damaged
  std::optional<Unfenceable> unfenceable;
  std::string sanitizer;  // the runtime that must stand first in LD_PRELOAD: "libasan.so.8", or nothing
  std::optional<Unfenceable> unsimulable;  // only looked for when a simulation directory is given
};

// PATH is taken from `environment`. The refusal has status 126 or 127. `simulation` is the directory of the
// simulated libraries, or empty.
[[nodiscard]] tl::expected<Program, Refusal> find_program(const std::vector<std::string>& words,
                                                          const Environment& environment,
                                                          const std::string& simulation);

// What find_program() finds behind a path, whether or not the file at that path may be executed.
[[nodiscard]] tl::expected<Program, Refusal> read_program(const std::string& path,
                                                          const std::vector<std::string>& words,
                                                          const Environment& environment,
                                                          const std::string& simulation);

// Why a program or library would not meet the simulated libraries under --sim.
[[nodiscard]] std::optional<Unfenceable> why_unsimulable(const Elf& elf, const std::string& image,
                                                         const std::string& simulation);

// As execvp: a name with a slash is a path; others are looked for in PATH.
[[nodiscard]] tl::expected<std::string, Refusal> resolve(const std::string& name,
                                                         const Environment& environment);

// The directories of DT_RPATH, DT_RUNPATH or LD_LIBRARY_PATH, with $ORIGIN filled in for the file that says
// so.
[[nodiscard]] std::vector<std::string> search_directories(std::string_view path, const std::string& file,
                                                          std::string_view separators = ":");

// "libasan.so.8" if the file needs a sanitizer's runtime that insists on standing first.
[[nodiscard]] std::string sanitizer_of(const std::string& file);

}  // namespace gpufence::command
