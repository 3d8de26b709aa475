// A finding as a record: one JSON object on one line, with every key of the interface; null where it does not
// apply. Written by processes of a run that know nothing of each other, read by `gpufence last` and by
// whoever collects logs: so a reader skips what it can't read, a line torn by a full disk or of a later
// schema.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "journal/journal.h"

namespace gpufence::journal {

// Who speaks, and when; what a finding itself does not know.
struct Speaker {
  std::string run_id;  // empty: none
  int pid = 0;
  std::string rank;           // of an MPI or torchrun job; empty: none
  std::uint64_t time_ns = 0;  // since 1970, UTC
};

[[nodiscard]] std::string to_json_line(const Finding& finding, const Speaker& speaker, std::uint64_t count);

// The same in at most so many bytes, if leaving out outer frames of its stacks is enough: what a pipe takes
// at once is whole, whoever else writes.
[[nodiscard]] std::string to_json_line_within(const Finding& finding, const Speaker& speaker,
                                              std::uint64_t count, std::size_t most);

// "2026-11-30T19:10:38.123456Z"
[[nodiscard]] std::string time_text(std::uint64_t ns_since_1970);

// What a reader needs of a record.
struct Record {
  std::string run_id, time, code, severity, message;
  int pid = 0;
  std::uint64_t count = 0;
  std::optional<std::uint64_t> bytes{};
  std::string key;    // equal in records of the same finding, also of several processes
  std::string stack;  // "; stack: …; python: …"; empty: it has none
  std::string line;   // as it was read, without the newline
};

// Records in the order of the text; what is no record of this schema is left out.
[[nodiscard]] std::vector<Record> read_records(std::string_view text);

// The same finding of several processes has the same key: the place and the GPUs, or where they are not
// known, what makes it one finding in its process. Addresses differ between processes and are not in it.
[[nodiscard]] std::string key_of(const Finding& finding);

}  // namespace gpufence::journal
