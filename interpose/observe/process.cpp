// See process.h.
#include "observe/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "journal/journal.h"

namespace gpufence::observe {

namespace {

std::uint64_t read_start_ns() {
  const std::string stat = read_file("/proc/self/stat");
  std::size_t at = stat.rfind(')');
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  const std::uint64_t ticks = std::strtoull(stat.c_str() + at, nullptr, 10);
  return ticks * (1'000'000'000ULL / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));
}

// A forked child has a start of its own.
struct Start {
  pid_t pid;
  std::uint64_t ns;
};
constinit std::atomic<const Start*> known_start{nullptr};

std::uint64_t start_ns() {
  const pid_t pid = ::getpid();
  const Start* known = known_start.load(std::memory_order_acquire);
  if (known != nullptr && known->pid == pid) return known->ns;
  auto read = std::make_unique<const Start>(Start{pid, read_start_ns()});
  const std::uint64_t ns = read->ns;
  if (known_start.compare_exchange_strong(known, read.get(), std::memory_order_acq_rel)) read.release();
  return ns;
}

}  // namespace

std::string read_file(const char* path) {
  std::string all;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return all;
  for (std::size_t step = 4096;; step *= 2) {
    const std::size_t had = all.size();
    all.resize(had + step);
    ssize_t got = 0;
    do got = ::read(file, all.data() + had, step);
    while (got < 0 && errno == EINTR);
    all.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
  }
  ::close(file);
  return all;
}

void each_mapping(bool (*visit)(const Mapping& mapping, void* data), void* data) {
  const std::string maps = read_file("/proc/self/maps");
  for (std::size_t at = 0, end = 0; at < maps.size(); at = end + 1) {
    end = std::min(maps.find('\n', at), maps.size());
    // 7f0123456000-7f0123567000 r-xp 00001000 fe:00 1234   /usr/lib/libfoo.so
    const std::string_view line = std::string_view(maps).substr(at, end - at);
    char* rest = nullptr;
    Mapping mapping;
    mapping.begin = std::strtoull(line.data(), &rest, 16);
    mapping.end = std::strtoull(rest + 1, &rest, 16);
    const auto rights = static_cast<std::size_t>(rest - line.data()) + 1;
    mapping.executable = rights + 2 < line.size() && line[rights + 2] == 'x';
    if (const std::size_t path = line.find('/'); path != std::string_view::npos)
      mapping.path = line.substr(path);
    if (visit(mapping, data)) return;
  }
}

InitialEnvironment::InitialEnvironment(const std::string& pid)
    : all_(read_file(("/proc/" + pid + "/environ").c_str())) {
  for (std::size_t at = 0; at < all_.size();) {
    const std::size_t end = std::min(all_.find('\0', at), all_.size());
    entries_.emplace_back(all_.data() + at, end - at);
    at = end + 1;
  }
}

std::optional<std::string> InitialEnvironment::get(std::string_view name) const {
  for (const std::string_view entry : entries_) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
      return std::string(entry.substr(name.size() + 1));
  }
  return std::nullopt;
}

const InitialEnvironment& own_initial_environment() {
  static constinit std::atomic<const InitialEnvironment*> known{nullptr};
  if (const InitialEnvironment* read = known.load(std::memory_order_acquire); read != nullptr) return *read;
  auto read = std::make_unique<const InitialEnvironment>("self");
  const InitialEnvironment* first = nullptr;
  if (known.compare_exchange_strong(first, read.get(), std::memory_order_acq_rel)) return *read.release();
  return *first;
}

std::uint64_t process_age_ns() {
  const std::uint64_t start = start_ns();
  if (start == 0) return 0;
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

namespace {

std::string as_quoted(std::string name) {
  name = journal::on_one_line(std::move(name));
  std::replace(name.begin(), name.end(), '"', '?');
  return name;
}

}  // namespace

std::string thread_name() {
  char name[17] = "";
  prctl(PR_GET_NAME, name);
  return as_quoted(name);
}

std::string thread_name(int id) {
  std::string name = read_file(("/proc/self/task/" + std::to_string(id) + "/comm").c_str());
  if (name.ends_with('\n')) name.pop_back();
  return as_quoted(name);
}

int thread_id() {
  return static_cast<int>(syscall(SYS_gettid));
}

}  // namespace gpufence::observe
