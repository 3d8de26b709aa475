#include "ledger/scope_path.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "ledger/descriptor.h"
#include "ledger/scope_book.h"

namespace gpufence::ledger {
namespace {

constexpr std::size_t kLongestName = 160;

// FNV-1a: equal names must come to equal numbers in every process and version.
std::uint64_t number_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::string prefix_of(std::string_view kind, uid_t user) {
  const std::string begin = "gpufence-";
  return begin + (kind == kGroupKind ? std::string{} : std::to_string(user) + '-') + std::string(kind) + '-';
}

}  // namespace

std::string ledger_directory(const std::optional<std::string>& asked) {
  if (asked && asked->starts_with('/')) return *asked;
  if (::access("/run/gpufence", W_OK | X_OK) == 0) return "/run/gpufence";
  return "/dev/shm";
}

uid_t host_user(std::string_view map, uid_t inside) {
  // Lines of three numbers: first inside, first outside, how many.
  while (!map.empty()) {
    const std::string line(map.substr(0, map.find('\n')));
    map.remove_prefix(std::min(line.size() + 1, map.size()));
    unsigned long from = 0, to = 0, count = 0;
    if (std::sscanf(line.c_str(), "%lu %lu %lu", &from, &to, &count) != 3) continue;
    if (inside >= from && inside - from < count) return static_cast<uid_t>(to + (inside - from));
  }
  return inside;
}

uid_t host_user() {
  return host_user(read_small("/proc/self/uid_map"), ::geteuid());
}

std::uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? static_cast<std::uint64_t>(status.st_ino) : 0;
}

std::uint64_t container() {
  constexpr std::uint64_t kHost =
      0xEFFFFFFC;  // PROC_PID_INIT_INO: the kernel gives the first namespace this number
  const std::uint64_t own = pid_namespace();
  return own != kHost ? own : 0;
}

std::string scope_path(const std::string& directory, std::string_view kind, uid_t user,
                       std::string_view name) {
  std::string plain;
  bool whole = name.size() <= kLongestName;
  for (const char c : name.substr(0, kLongestName)) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.' || c == '/';
    whole = whole && fits;
    plain += c == '/' ? '+' : fits ? c : '_';
  }
  if (!whole) {
    char number[24];
    std::snprintf(number, sizeof number, "-%016llx", static_cast<unsigned long long>(number_of(name)));
    plain += number;
  }
  return directory + '/' + prefix_of(kind, user) + plain;
}

void sweep_runs(const std::string& directory, uid_t user, std::size_t most) noexcept {
  try {
    const std::string prefix = prefix_of(kRunKind, user);
    DIR* list = ::opendir(directory.c_str());
    if (list == nullptr) return;
    while (const dirent* entry = ::readdir(list)) {
      const std::string_view name = entry->d_name;
      if (!name.starts_with(prefix)) continue;
      if (most-- == 0) break;
      ScopeBook::remove_if_dead(directory + '/' + std::string(name));
    }
    ::closedir(list);
  } catch (...) {
  }
}

}  // namespace gpufence::ledger
