// One write(2) a line: two processes of a run that speak at once don't cut each other's lines.
#include "tools/gpufence/command.h"

#include <unistd.h>

#include <algorithm>

namespace gpufence::command {

std::string line_of(const Error& error) {
  std::string line = "gpufence: " + error.text();
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      '?');
  return line + '\n';
}

void say(const Error& error) {
  const std::string line = line_of(error);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace gpufence::command
