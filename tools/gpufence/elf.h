// What the kernel and the dynamic loader will make of a program file, read without running it. Files here are
// other people's: every offset and count is checked against the file, and a damaged file is an answer, not a
// crash.
#pragma once

#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace gpufence::command {

struct Elf {
  bool foreign = false;     // another class, byte order or machine than ours; nothing below is filled in then
  std::string machine;      // for messages: "32-bit x86"
  std::string interpreter;  // PT_INTERP: the dynamic loader; empty in static programs and in loaders
  std::string soname;       // DT_SONAME
  std::vector<std::string> needed;  // DT_NEEDED
  std::string rpath;                // DT_RPATH, only where no DT_RUNPATH turns it off
  bool executable_type = false;     // ET_EXEC or ET_DYN
};

// The error is a reason: "the program headers reach past the end of the file".
[[nodiscard]] tl::expected<Elf, std::string> read_elf(int descriptor);

// The machine that this build is for: "64-bit x86-64".
[[nodiscard]] std::string own_machine();

}  // namespace gpufence::command
