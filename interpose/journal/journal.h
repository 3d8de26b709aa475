// What we say: findings as records, one a line. The text on stderr is limited, because a tool that floods the
// terminal is switched off; every finding is counted all the same. spdlog stands behind it and does not show.
// Lines are whole or absent: each is one write(2). stdout is never touched.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace gpufence::journal {

enum class Severity { info, warning, error, off };

[[nodiscard]] std::string_view text(Severity severity);

struct Finding {
  const char* code = "";  // "GF401"
  Severity severity = Severity::warning;
  std::string message;  // without the "gpufence[pid] GF401 warning: " that stands before it
  std::string once;     // findings of one code and one `once` (a call site, a GPU) are said once
};

struct Settings {
  Severity stderr_level = Severity::warning;  // least severity that is said
  unsigned stderr_lines = 10;                 // a process; what goes beyond is counted
  int descriptor = 2;                         // where "stderr" is
};

class Journal {
 public:
  explicit Journal(const Settings& settings);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Says or counts; from any thread.
  void say(const Finding& finding);
  // Counts one more of a code without building its words.
  void count(const char* code);
  // At exit: "N more …" if the limit cut any.
  void close();

  [[nodiscard]] std::map<std::string, std::uint64_t> counts() const;

  // In the child after fork: a lock that a thread of the parent held would never be given back.
  void reset_after_fork();

 private:
  struct State;
  std::unique_ptr<State> state_;
  Settings settings_;
};

}  // namespace gpufence::journal
