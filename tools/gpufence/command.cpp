// One write(2) a line: two processes of a run that speak at once don't cut each other's lines.
#include "tools/gpufence/command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gpufence::command {
namespace {

constexpr std::size_t kMostEchoed = 200;  // characters
// What we say ourselves may be longer: it lists the GPUs of a machine.
constexpr std::size_t kMostSaid = 2000;

// Bytes of the UTF-8 character at the front; 0 if there is none that may stand in a line.
std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const std::size_t length = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length == 0 || first >= 0xf5 || text.size() < length) return 0;
  unsigned long code = first & (0xffu >> (length + 1));
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  // C1 controls, line separators, and what turns the direction of writing.
  const bool controls = code < 0xa0 || code == 0x2028 || code == 0x2029 ||
                        (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return overlong || surrogate || code > 0x10ffff || controls ? 0 : length;
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// `text` is valid UTF-8; `closing` stands behind the mark: the quote of what is quoted.
std::string cut(std::string_view text, std::size_t most, std::string_view closing = {}) {
  const auto characters = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
  if (characters <= most) return std::string(text) + std::string(closing);
  std::size_t end = 0;
  for (std::size_t count = 0; end < text.size(); ++end)
    if (!is_continuation(text[end]) && ++count > most) break;
  return std::string(text.substr(0, end)) + "…" + std::string(closing) + " (" + std::to_string(characters) +
         " characters)";
}

// Our own words with others' among them: what stands in quotes, and what has no blank in it.
std::string cut_values(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const bool starts = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    if (starts && text[at] == '\'') {
      std::size_t end = at;
      do end = text.find('\'', end + 1);
      while (end != std::string_view::npos && end + 1 < text.size() &&
             std::strchr(" ,;:)", text[end + 1]) == nullptr);
      if (end != std::string_view::npos) {
        shown += '\'' + cut(text.substr(at + 1, end - at - 1), kMostEchoed, "'");
        at = end + 1;
        continue;
      }
    }
    const std::size_t end = std::min(text.find(' ', at), text.size());
    shown += cut(text.substr(at, end - at), kMostEchoed);
    at = end;
    if (at < text.size()) {
      shown += ' ';
      ++at;
    }
  }
  return cut(shown, kMostSaid);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = character_at(text);
    if (length > 0) {
      shown += text.substr(0, length);
      text.remove_prefix(length);
      continue;
    }
    const char byte = text.front();
    text.remove_prefix(1);
    if (byte == '\n') {
      shown += "\\n";
    } else if (byte == '\t') {
      shown += "\\t";
    } else if (byte == '\r') {
      shown += "\\r";
    } else {
      std::array<char, 5> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(byte)));
      shown += hex.data();
    }
  }
  return shown;
}

std::string line_of(const Error& error) {
  const Error shown{cut(escaped(error.what), kMostEchoed), cut_values(escaped(error.why)),
                    cut_values(escaped(error.remedy))};
  return "gpufence: " + shown.text() + '\n';
}

void say(const Error& error) {
  const std::string line = line_of(error);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

int print(std::string_view text, int failed) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      say({"stdout", std::string("can't be written (") + std::strerror(errno) + ')',
           "send the output to another place"});
      return failed;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return kDone;
}

void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      // The lowest that is free is this one. Its direction is the wrong one on purpose.
      (void)::open("/dev/null", (descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

}  // namespace gpufence::command
