// The directory of a run, $XDG_STATE_HOME/gpufence/<run>/: its records, and what its processes share. Made as
// soon as one of them has something to say, for its user alone. It is no more than a place for words: where
// it can't be made, or lies on a network, findings are said all the same, and limits count a process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "journal/journal.h"

namespace gpufence::journal {

inline constexpr const char* kRecordsFile = "records.jsonl";
inline constexpr std::uint64_t kMostRecordBytes = 8 << 20;  // of a run; what comes later is counted only

// "/home/ada/.local/state/gpufence"; empty: neither variable names an absolute path.
[[nodiscard]] std::string state_directory(const std::optional<std::string>& xdg_state_home,
                                          const std::optional<std::string>& home);

// Whether it may name a directory below that one: parts of letters, digits and -_.+@, divided by slashes (a
// run in a run), none of which begins with a dot.
[[nodiscard]] bool is_run_name(std::string_view name);

// Makes the directory and those above it, with mode 0700; false if it is not there then, or is another
// user's; errno tells why.
bool make_private_directory(const std::string& path) noexcept;

// Takes a run's directory away if nothing is in it, and those above it likewise, up to the state directory.
void remove_if_empty(const std::string& state, const std::string& directory) noexcept;

// Of a state directory that holds more runs than `most`, removes the oldest; only what this file would have
// put there, only runs that are older than a day, and at most a few a call.
void prune_runs(const std::string& state, std::size_t most) noexcept;

// Whether mapped files are as safe there as memory: on a network another machine can take the pages away,
// which is SIGBUS in the program.
[[nodiscard]] bool is_local_disk(int descriptor) noexcept;
[[nodiscard]] bool is_local_directory(const std::string& path) noexcept;

// What the processes of a run share, in one mapped file. All zero at first; processes of one user write it.
class RunShare {
 public:
  // Null where it can't be had. Never unmapped: hooks of a program that exits may still speak.
  [[nodiscard]] static RunShare* open(const std::string& directory) noexcept;

  // Whether this finding is the first of its kind in this run. When too many are known, every one is.
  bool first(std::uint64_t key) noexcept;

  // That a finding was made at all, kept where no full disk can lose it.
  void note(std::string_view code, Severity severity) noexcept;
  // The worst that was made of that code, or, where none is given, of at least that severity; empty: none.
  [[nodiscard]] std::string made(std::string_view code, Severity least) const;

  // One more line that may go to stderr: false if there were `most` before it, then it is counted as cut.
  bool take_line(std::uint32_t most) noexcept;
  // How many were cut, if that is worth a line: for the first that asks, and then when they have doubled.
  std::uint32_t cut_to_say() noexcept;

 private:
  std::atomic<std::uint32_t> lines_{0}, cut_{0}, cut_said_{0};
  std::array<std::atomic<std::uint64_t>, 1000> keys_{};
  std::array<std::atomic<std::uint32_t>, 128> made_{};
};

}  // namespace gpufence::journal
