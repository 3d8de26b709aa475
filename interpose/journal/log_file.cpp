// See log_file.h.
#include "journal/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "journal/write.h"

namespace gpufence::journal {

bool append_line(const std::string& path, std::string_view line, unsigned mode, std::uint64_t most) noexcept {
  // Not blocking: a FIFO may have no reader. Not as the controlling terminal. Opened for reading as well, to
  // look at the last byte; a FIFO opened so would be its own reader.
  constexpr int kFlags = O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  struct stat status {};
  const bool regular = ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  int file = regular ? ::open(path.c_str(), O_RDWR | O_CREAT | kFlags, mode) : -1;
  const bool readable = file >= 0;
  if (file < 0) file = ::open(path.c_str(), O_WRONLY | (regular ? O_CREAT : 0) | kFlags, mode);
  if (file < 0) return false;
  bool written = false;
  if (regular && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    const auto size = static_cast<std::uint64_t>(status.st_size);
    // Whoever ran into a full disk has left a line without an end: it ends here, so that this one is whole.
    // What others are just writing looks like that too, for a moment.
    char last = '\n';
    for (int look = 0; look < 3; ++look) {
      if (look > 0) {
        const timespec moment{0, 2'000'000};
        ::nanosleep(&moment, nullptr);
        if (::fstat(file, &status) != 0) break;
      }
      last = '\n';
      if (readable && status.st_size > 0) (void)!::pread(file, &last, 1, status.st_size - 1);
      if (last == '\n') break;
    }
    if (most < line.size() || size > most - line.size()) {
      errno = EFBIG;
    } else {
      written = write_at_once(file, last == '\n' ? "" : "\n", line);
    }
  } else {
    written = write_quietly(file, line);
  }
  const int reason = errno;
  ::close(file);
  errno = reason;
  return written;
}

std::string expand_path(std::string_view pattern, const PathFacts& facts) {
  const auto as_name = [](std::string value) {
    std::replace(value.begin(), value.end(), '/', '_');
    return value.empty() || value == "." || value == ".." ? std::string("_") : value;
  };
  std::string path;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char letter = pattern[at] == '%' && at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    switch (letter) {
      case 'p':
        path += as_name(facts.pid);
        break;
      case 'u':
        path += as_name(facts.user);
        break;
      case 'h':
        path += as_name(facts.host);
        break;
      case 'j':
        path += as_name(facts.job);
        break;
      case 't':
        path += as_name(facts.time);
        break;
      case '%':
        path += '%';
        break;
      default:
        path += pattern[at];
        continue;
    }
    ++at;
  }
  return path;
}

}  // namespace gpufence::journal
