// What a run left behind: the directory that the journals of its processes wrote (interface: "Journal and
// findings"), read while they may still write.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "journal/record.h"
#include "journal/report.h"
#include "tools/gpufence/environment.h"

namespace gpufence::command {

// One finding, of all the processes that made it.
struct FoundOnce {
  journal::Record first;
  std::uint64_t count = 0;
  std::set<int> pids;
  // What they cost together, where each process pays by itself: GF202, the contexts of a job's ranks.
  std::optional<std::uint64_t> bytes{};
};

struct PastRun {
  std::string name;                      // as GPUFENCE_RUN had it
  std::vector<FoundOnce> findings;       // in the order in which they were made
  std::vector<journal::Report> reports;  // a process each, in the order in which they started
};

// Where the runs of this user stand; empty: nowhere.
[[nodiscard]] std::string runs_directory(const Environment& environment);

// Names of runs, the one that spoke last first; of a run in a run the outer one's.
[[nodiscard]] std::vector<std::string> past_runs(const std::string& directory);

// A run with those that it holds.
[[nodiscard]] PastRun read_run(const std::string& directory, const std::string& name);

// The newest of these runs that has a process of this number.
[[nodiscard]] std::optional<std::string> run_of_process(const std::string& directory,
                                                        const std::vector<std::string>& runs, int pid);

}  // namespace gpufence::command
