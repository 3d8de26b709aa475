// What a process would say at its exit, kept where it survives a SIGKILL: a mapped file in the run's
// directory, in which the counters are counted and names are written as they become known. `gpufence last`
// makes the report of it. Only on local disks (run_directory.h): elsewhere a process that is killed leaves
// its records alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "journal/report.h"

namespace gpufence::journal {

inline constexpr std::size_t kMostRows = 64;    // GPUs of a process that are kept
inline constexpr std::size_t kWorkShards = 16;  // parts in which each one's work is counted

class ProcessFile {
 public:
  // Four counters of a GPU, in bytes and calls, as the ledger lays out its rows; zero at first.
  struct alignas(64) Counters {
    std::atomic<std::uint64_t> held, peak, allocations, refusals;
  };

  // A part of the work of a GPU: calls, and threads that made them; zero at first.
  struct alignas(64) Work {
    std::atomic<std::uint64_t> launches, copies, threads;
  };

  // Null where it can't be had. Never unmapped: the counters may be counted until the process is gone.
  [[nodiscard]] static ProcessFile* create(const std::string& directory, int pid) noexcept;

  // What is known of the process by now. `counted`: the ledger counts in here; else the report's counts are
  // copied.
  void describe(const Report& report, bool counted) noexcept;
  void chosen_by(std::size_t row, const std::string& call) noexcept;
  void count(const std::string& code, std::uint64_t count) noexcept;
  // The process came to its end by itself.
  void end(std::uint64_t duration_ns) noexcept;

  // Takes the file away, and the directory if nothing else is in it, up to the state directory.
  void remove(const std::string& state, const std::string& directory) noexcept;

  [[nodiscard]] Counters* counters() noexcept;  // kMostRows of them
  // Of n GPUs those of the first shard, n cells, then those of the next; kMostRows × kWorkShards in all.
  [[nodiscard]] Work* work() noexcept;

  // Out of a directory, with the file; nothing if it is none of this version's. Texts of sizes are left
  // empty.
  [[nodiscard]] static std::optional<Report> read(const std::string& path);

 private:
  struct Code {
    std::array<char, 8> code;
    std::atomic<std::uint64_t> count;
  };
  struct Row {
    std::int32_t ordinal, host_index;
    std::uint64_t cap;
    std::uint32_t capped;
    std::array<char, 64> uuid;
    std::array<char, 32> pci;
    std::array<char, 96> name;
    std::array<char, 192> full_name;
    std::array<char, 64> cap_rule;
    std::array<char, 192> chosen_by;
  };

  std::array<char, 8> magic_;
  std::uint32_t pid_, image_, rows_count_;
  std::uint64_t began_ns_;  // since 1970
  std::atomic<std::uint64_t> duration_ns_, fenced_after_ns_;
  std::atomic<std::uint32_t> ended_, counted_, worked_;
  std::array<char, 192> run_id_;
  std::array<char, 512> program_;
  std::array<char, 192> how_;
  std::array<char, 64> reach_;
  std::array<char, 1024> notes_;  // a line each
  std::array<Code, 32> codes_;
  std::array<Row, kMostRows> rows_;
  std::array<Counters, kMostRows> counters_;
  std::array<Work, kMostRows * kWorkShards> work_;
};

}  // namespace gpufence::journal
