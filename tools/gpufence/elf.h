// What the kernel and the dynamic loader will make of a program file, read without running it. Files here are
// other people's: every offset and count is checked against the file, and a damaged file is an answer, not a
// crash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace gpufence::command {

struct Elf {
  bool foreign = false;     // another class, byte order or machine than ours; nothing below is filled in then
  std::string machine;      // for messages: "32-bit x86"
  std::string interpreter;  // PT_INTERP: the dynamic loader; empty in static programs and in loaders
  std::string soname;       // DT_SONAME
  std::vector<std::string> needed;    // DT_NEEDED
  std::string rpath;                  // DT_RPATH, only where no DT_RUNPATH turns it off
  std::string runpath;                // DT_RUNPATH
  bool position_independent = false;  // DF_1_PIE: a program, although ET_DYN
  bool shared_object = false;         // ET_DYN, with something to load and to link
  std::uint64_t size = 0;             // bytes of the file
  std::uint64_t extent = 0;           // bytes that its headers say it has: segments and section header table
  // Of a file that is cut off, a page that is touched behind the cut is SIGBUS, whoever maps it.
  [[nodiscard]] bool complete() const { return extent <= size; }
};

// The error is a reason: "its program headers have an impossible size"; of a file that is cut off before
// what is read here, "cut off at 5000 of 24576 bytes".
[[nodiscard]] tl::expected<Elf, std::string> read_elf(int descriptor);

struct ElfSection {
  std::string name;
  std::uint64_t offset = 0;  // bytes in the file
  std::uint64_t size = 0;    // bytes; of a section without bytes in the file (.bss) 0
};

// The sections of an ELF file of our own class, byte order and machine; none of one that was stripped of
// them. Sections that reach past the end of the file are left out.
[[nodiscard]] tl::expected<std::vector<ElfSection>, std::string> read_sections(int descriptor);

// The names of the dynamic symbols that the file takes from others; none of one that was stripped of its
// section headers.
[[nodiscard]] tl::expected<std::vector<std::string>, std::string> read_imports(int descriptor);

// Bytes of a file, all or nothing; at most 1 GiB.
[[nodiscard]] std::optional<std::string> read_bytes(int descriptor, std::uint64_t offset, std::uint64_t size);

// "cut off at 5000 of 24576 bytes"
[[nodiscard]] std::string cut_off(std::uint64_t size, std::uint64_t extent);

// The machine that this build is for: "64-bit x86-64".
[[nodiscard]] std::string own_machine();

}  // namespace gpufence::command
