// The libraries that a program brings along, found as ld.so would find them, without running anything:
// DT_RPATH of the file and of those that needed it, LD_LIBRARY_PATH, DT_RUNPATH, ld.so's cache, the default
// directories. Not looked into: glibc-hwcaps directories, $LIB and $PLATFORM, LD_PRELOAD; and what a program
// opens later nobody can tell.
#pragma once

#include <string>
#include <vector>

#include "tools/gpufence/elf.h"
#include "tools/gpufence/environment.h"

namespace gpufence::command {

struct Library {
  std::string name;       // as it was needed: "libcudart.so.13"
  std::string path;       // empty: not found
  std::string needed_by;  // path of the program or library
  std::string found_by;   // "DT_RPATH", "LD_LIBRARY_PATH", "DT_RUNPATH", "ld.so.cache", "default directories"
  Elf elf;
};

// In the order in which ld.so loads them: breadth first, each name once.
[[nodiscard]] std::vector<Library> libraries_of(const std::string& program, const Elf& elf,
                                                const Environment& environment);

// The library of this name in a file of the form of /etc/ld.so.cache; empty if there is none.
[[nodiscard]] std::vector<std::string> in_loader_cache(const std::string& cache, const std::string& name);

}  // namespace gpufence::command
