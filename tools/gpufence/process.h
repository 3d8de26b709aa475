// What /proc tells of a process: its program, the environment it was started with, and which of the fence's
// and CUDA's libraries are mapped. Nothing is asked of the process itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"
#include "tools/gpufence/environment.h"

namespace gpufence::command {

struct MappedFile {
  std::string path;  // without " (deleted)"
  std::uint64_t device = 0, inode = 0;
  unsigned copies = 1;    // more than one: opened again in a namespace of its own (dlmopen)
  bool replaced = false;  // the path holds another file by now, or none
};

struct Process {
  int pid = 0;
  std::string program;      // path of what runs; empty if it can't be told
  Environment environment;  // as it was at the start: what the program set or unset later doesn't show
  std::vector<MappedFile> gates, cores, drivers, runtimes, nvmls;

  [[nodiscard]] unsigned copies_of_the_driver() const;
};

// The error: there is no such process, or it is another user's.
[[nodiscard]] tl::expected<Process, policies::Error> read_process(int pid);

// "4711" → 4711; nothing for what is no process's number.
[[nodiscard]] std::optional<int> process_number(const std::string& word);

// The files of these mappings (/proc/PID/maps), sorted into `process`.
void sort_mappings(const std::string& maps, Process& process);

}  // namespace gpufence::command
