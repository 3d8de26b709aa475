// The exit report: which GPUs a program used, how much it held, what was refused. As a value, and as the text
// and the JSON line that are made of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpufence::journal {

struct ReportRow {
  int ordinal = 0;
  int host_index = -1;  // -1: not known here
  std::string uuid, pci, name;
  bool counted = true;               // whether this build counted what follows
  std::string full_name;             // "CUDA 1 = host GPU 3 (H100, 0000:81:00.0)"
  std::uint64_t peak = 0;            // bytes held at most
  std::optional<std::uint64_t> cap;  // bytes
  std::string peak_text, cap_text;   // the same for people, as the command line writes sizes
  std::string cap_rule;              // "--gpu-mem"
  std::uint64_t allocations = 0, refusals = 0;
  std::optional<std::uint64_t> launches{}, copies{};  // none: not counted
  std::optional<std::uint64_t> threads{};             // that launched, copied, filled or were a finding there
  std::string chosen_by;  // "cudaSetDevice at train+0x1a2b (main)"; empty: never chosen
};

struct Report {
  std::string program, run_id, how, reach;
  int pid = 0;
  std::uint64_t began_ns = 0;         // start of the process, since 1970; 0: not known
  std::uint64_t duration_ns = 0;      // since the process started
  std::uint64_t fenced_after_ns = 0;  // from the start of the process to the first CUDA call
  bool ended = true;                  // by itself; false: by a signal or _exit, or it has not ended
  bool running = false;
  std::vector<ReportRow> rows;
  std::map<std::string, std::uint64_t> findings;  // by code
  std::vector<std::string> notes;                 // what this build does not cover, said where it matters
};

// Of all that was held on any GPU, the part that was held here at most, from 0 to 1; nothing if nothing was
// held.
[[nodiscard]] std::optional<double> memory_share(const Report& report, const ReportRow& row);

// The same for work: launches and copies, of all that were counted.
[[nodiscard]] std::optional<double> work_share(const Report& report, const ReportRow& row);

// GF208: all work on one of several GPUs. For a process that has ended, and in no other place: a program may well need
// but one.
void note_idle_gpus(Report& report);

// Several lines, each ended by a newline.
[[nodiscard]] std::string to_text(const Report& report);
// One JSON object on one line, with every key; null where it does not apply.
[[nodiscard]] std::string to_json_line(const Report& report);

}  // namespace gpufence::journal
