// See process.h.
#include "observe/process.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>

#include "journal/journal.h"

namespace gpufence::observe {

std::uint64_t process_age_ns() {
  std::ifstream file("/proc/self/stat", std::ios::binary);
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = stat.rfind(')');
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  const std::uint64_t ticks = std::strtoull(stat.c_str() + at, nullptr, 10);
  const std::uint64_t start = ticks * (1'000'000'000ULL / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::uint64_t since_boot =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<std::uint64_t>(now.tv_nsec);
  return since_boot > start ? since_boot - start : 0;
}

std::string age_text(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "+%.1f s", static_cast<double>(ns) / 1e9);
  return text;
}

std::string thread_name() {
  char name[17] = "";
  prctl(PR_GET_NAME, name);
  std::string text = journal::on_one_line(name);
  std::replace(text.begin(), text.end(), '"', '?');  // it is quoted
  return text;
}

int thread_id() {
  return static_cast<int>(syscall(SYS_gettid));
}

}  // namespace gpufence::observe
