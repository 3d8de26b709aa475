// A file that many processes append records to, and that may be rotated, removed or full at any time. Each
// line is one write(2) with O_APPEND: whole, or, if the disk is full, torn and skipped by readers. Nothing is
// kept open between lines, so there is no descriptor that the program could close, inherit or count, and a
// rotated file is simply made again; findings are said once a place, so that opening costs nothing that
// matters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpufence::journal {

// Appends `line`, which ends with a newline. False if any of it was lost; errno tells why (EFBIG: the file
// would come to be larger than `most` bytes; ENXIO: a FIFO without a reader). Never blocks for longer than a
// slow reader's patience, never raises SIGPIPE. A new file is made with mode `mode`.
bool append_line(const std::string& path, std::string_view line, unsigned mode,
                 std::uint64_t most = ~std::uint64_t{0}) noexcept;

// What % stands for in the path of a log.
struct PathFacts {
  std::string pid, user, host, job, time;
};
// %p pid · %u user · %h host · %j job · %t time · %% a percent sign; any other is left as it is. A value that
// would lead to another directory has its slashes replaced.
[[nodiscard]] std::string expand_path(std::string_view pattern, const PathFacts& facts);

}  // namespace gpufence::journal
