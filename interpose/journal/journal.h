// What we say: findings as records, one a line. The text on stderr is limited, because a tool that floods the
// terminal is switched off; every finding is counted all the same, and its record goes to the directory of
// the run and to the log. spdlog stands behind it and does not show. Lines are whole or absent: each is one
// write(2). stdout is never touched.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpufence::journal {

struct Report;
class ProcessFile;

enum class Severity { info, warning, error, off };

[[nodiscard]] std::string_view text(Severity severity);

// A line of the journal stays a line, whatever files, threads and programs are called: control characters
// become '?'.
[[nodiscard]] std::string on_one_line(std::string text);

// A GPU as records name it; no uuid: it does not apply.
struct Gpu {
  int ordinal = -1;
  int host_index = -1;  // what nvidia-smi shows; -1: not known in this process
  std::string uuid{}, pci{}, name{};
};

// A place in the program; no object: not known.
struct Site {
  std::string object{};    // file name: "libfoo.so"
  std::string build_id{};  // hexadecimal
  std::string symbol{};    // demangled; the nearest exported one before it
  std::uint64_t offset = 0;
};

// A call in Python.
struct PythonFrame {
  std::string file{}, function{};
  int line = 0;  // 0: not known
};

struct Finding {
  const char* code = "";  // "GF401"
  Severity severity = Severity::warning;
  std::string message{};  // without the "gpufence[pid] GF401 warning: " that stands before it
  std::string once{};     // findings of one code and one `once` (a call site, a GPU) are said once

  // What its record has besides the words; empty where it does not apply.
  std::string api{};  // as the programmer wrote it: "cudaMalloc"
  Site site{};
  // With --backtrace, innermost first; a last one without an object is an address that belongs to none.
  std::vector<Site> stack{};
  std::vector<PythonFrame> python{};
  int tid = 0;
  std::string thread{};  // its name
  Gpu device{}, other_device{};
  std::optional<std::uint64_t> bytes{}, held{}, cap{};
  std::string scope{}, rule{};
};

struct Settings {
  Severity stderr_level = Severity::warning;  // least severity that is said
  unsigned stderr_lines = 10;                 // a run; what goes beyond is counted
  int descriptor = 2;                         // where "stderr" is
  bool json = false;                          // there, records instead of text
  bool color = false;                         // there
  std::string run_id{};                       // empty: none
  std::string rank{};                         // empty: none
  // Absolute paths; empty: none. The run's lies below the state directory and is made when there is something
  // to say.
  std::string state_directory{}, run_directory{};
  std::string log{};                // every record as a JSON line as well
  std::set<std::string> ignored{};  // codes that are counted and not said

  // The report as it would be now, for the file that keeps it (process_file.h); none: it is not kept. Asked
  // under no lock.
  std::function<Report()> report{};
  // Called with the file's cells for work (process_file.h), once there is one and whenever it is written:
  // what was counted elsewhere belongs there.
  std::function<void(void* work)> keep_work{};
  // The file is made before there is something to say, the ledger counts in it, and it stays.
  bool must_keep = false;  // somebody counts on findings being kept: it is said where they can't be
  bool report_wanted = false;
};

class Journal {
 public:
  explicit Journal(const Settings& settings);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Says or counts; from any thread.
  void say(const Finding& finding);
  // Counts one more of a code, and of what was said of it once, without building its words.
  void count(const char* code, const std::string& once = {});
  // Whether such a finding was said before; then it is counted, and its words need not be built.
  [[nodiscard]] bool counted_again(const char* code, const std::string& once);
  // Where the counters of this process's GPUs are to be counted, so that they outlive it: zero, 64 bytes a
  // GPU. Null: anywhere. Asked before there are any.
  [[nodiscard]] void* counters(std::size_t gpus) noexcept;
  // The report has changed: the GPUs became known, and their counters are those of counters(), or not.
  void refresh(bool counters_kept) noexcept;
  void chosen_by(std::size_t row, const std::function<std::string()>& call) noexcept;
  // At exit: what was found more than once is recorded again with its count; "N more …" if the limit cut any.
  void close();

  [[nodiscard]] std::map<std::string, std::uint64_t> counts() const;

  // In the child after fork: a lock that a thread of the parent held would never be given back.
  void reset_after_fork();

 private:
  struct State;
  void record(const Finding& finding, std::uint64_t count);
  void print(const Finding& finding, std::uint64_t count);
  void count_one(const char* code);
  void look_for_directory();
  void keep_report() noexcept;
  void describe(ProcessFile& file);

  std::unique_ptr<State> state_;
  Settings settings_;
};

}  // namespace gpufence::journal
