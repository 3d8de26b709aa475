// What the processes of one scope (a run, a user, a group, a job) hold together: one mapped file, shared by
// them. A column is added up twice in it: by process, in slots, and over all, in totals. The slots are the
// truth: whenever a process dies within a change, the totals are made anew from them.
//
// Changes are made under a process-shared robust mutex, some 20 ns each; nobody waits for it longer than
// `patience` unless others get their turns meanwhile. Proof of life is an open-file-description lock on the
// slot's byte, held by the mapping alone: it outlives closed descriptors, and ends with the process in any
// namespace, at exec too. Nothing here knows a thread id or trusts a pid.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace gpufence::ledger {

struct Header;  // scope_file.h

// One process of a scope, as its books say.
struct Holder {
  pid_t pid = 0;  // in its own PID namespace
  std::uint64_t pid_namespace = 0;
  std::string name;         // what /proc says that it runs, cut off
  std::uint64_t bytes = 0;  // on the row that was asked for
};

class ScopeBook {
 public:
  struct Options {
    mode_t mode = 0600;                         // of a file that is made
    std::optional<gid_t> group{};               // of a file of a group, with mode 0660: its members share it
    std::chrono::milliseconds patience{10000};  // a holder in a crowd may be off the CPU for seconds
  };

  // Opens or makes the file, and takes a slot in it. `uuids`: this process's rows. The error is a line:
  // "PATH: why; what to do". The slot is this process's until it dies or the object goes.
  [[nodiscard]] static tl::expected<std::unique_ptr<ScopeBook>, std::string> open(
      const std::string& path, const std::vector<std::string>& uuids, Options options);
  [[nodiscard]] static tl::expected<std::unique_ptr<ScopeBook>, std::string> open(
      const std::string& path, const std::vector<std::string>& uuids) {
    return open(path, uuids, Options());
  }
  ScopeBook(const ScopeBook&) = delete;
  ~ScopeBook();

  enum class Answer {
    booked,
    over,       // a limit would be passed
    no_answer,  // the file's mutex was not to be had in time: holder() has it. Nothing was changed
  };
  // Books `bytes` more on the row for this process, unless the scope would then hold more than `row_limit`
  // there or more than `total_limit` on all rows together.
  [[nodiscard]] Answer reserve(std::uint32_t row, std::uint64_t bytes, std::uint64_t row_limit,
                               std::uint64_t total_limit) noexcept;
  // Gives back what this process has booked. If the mutex is not to be had, it is done with the next change.
  void release(std::uint32_t row, std::uint64_t bytes) noexcept;

  // Of all the scope's processes, and of this one. Bytes.
  [[nodiscard]] std::uint64_t held(std::uint32_t row) noexcept;
  [[nodiscard]] std::uint64_t held_in_total() noexcept;
  [[nodiscard]] std::uint64_t mine(std::uint32_t row) noexcept;

  // Gives back what dead processes held. How many there were.
  std::size_t reap() noexcept;
  // The same if the last time is longer ago than `age`.
  void reap_if_older(std::chrono::milliseconds age) noexcept;

  // Who holds anything on the row, the most first.
  [[nodiscard]] std::vector<Holder> holders(std::uint32_t row);
  // Who had the mutex last. Of use after no_answer.
  [[nodiscard]] Holder holder();

  // Releases of more than was held, each a fault of ours (GF503).
  [[nodiscard]] std::uint64_t underflows() const noexcept {
    return underflows_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Removes a file in which nobody lives; half-made ones too that are a minute old.
  static void remove_if_dead(const std::string& path) noexcept;

  // The books as they stand, without taking part. What dead processes hold is left out.
  struct Reading {
    struct Row {
      std::string uuid;
      std::vector<Holder> holders;  // the most first
      std::uint64_t bytes = 0;
    };
    std::vector<Row> rows;
    std::vector<Holder> processes;  // all that live, with what they hold on all rows; in no order
  };
  // The error is a line, as of open(); none where no file is: then nobody holds anything.
  [[nodiscard]] static tl::expected<Reading, std::string> read(const std::string& path);

  // fork must not fall between the opening of a file and the closing of its descriptor, or the child would
  // keep the slot alive. For pthread_atfork, around every fork of the process.
  static void before_fork() noexcept;
  static void after_fork() noexcept;

 private:
  struct Map;
  ScopeBook(std::string path, std::vector<std::string> uuids, Options options);
  [[nodiscard]] tl::expected<std::unique_ptr<Map>, std::string> map_file() const;
  [[nodiscard]] tl::expected<void, std::string> take_slot(Map& map, int descriptor) const;
  [[nodiscard]] bool acquire(Header& header) const noexcept;
  [[nodiscard]] int wait_for(Header& header) const noexcept;
  void revive() noexcept;
  Map* map() noexcept;
  // Null: not in time.
  Map* lock() noexcept;
  void unlock(Map& map) noexcept;
  void move_to_new_file() noexcept;
  void look_after_file() noexcept;
  void pay_owed(Map& map) noexcept;
  void give_back(Map& map, std::uint32_t row, std::uint64_t bytes) noexcept;
  [[nodiscard]] static Holder holder_at(const Map& map, std::uint32_t index, std::uint64_t bytes);
  // Whether what lies there may be trusted; the error is a line.
  [[nodiscard]] static tl::expected<void, std::string> check_file(const std::string& path, int descriptor,
                                                                  const Options& options);
  [[nodiscard]] static tl::expected<void, std::string> check_header(const std::string& path,
                                                                    const Header& header, int descriptor);

  const std::string path_;
  const std::vector<std::string> uuids_;
  const Options options_;
  std::atomic<Map*> map_{nullptr};
  std::vector<Map*> replaced_;                          // kept as long as the object: a thread may be in one
  std::unique_ptr<std::atomic<std::uint64_t>[]> owed_;  // by row: releases that found the mutex taken
  std::atomic<bool> owes_{false};
  std::atomic<std::int64_t> looked_ms_{0}, reaped_ms_{0};
  std::atomic<std::uint64_t> underflows_{0};
  std::mutex moving_;
  unsigned char* alive_ = nullptr;  // a page that reads 0 in a forked child
};

}  // namespace gpufence::ledger
