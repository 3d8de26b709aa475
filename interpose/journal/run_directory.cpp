// See run_directory.h.
#include "journal/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "journal/write.h"

namespace gpufence::journal {
namespace {

constexpr std::size_t kMostParts = 8;
constexpr std::size_t kLongestPart = 128;
constexpr std::size_t kMostPrunedAtOnce = 8;
constexpr std::time_t kDay = 24 * 60 * 60;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* open = ::opendir(directory.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(open);
  return names;
}

bool is_ours(const std::string& name) {
  return name == kRecordsFile || name == "share" || name.ends_with(".process");
}

// The newest change of what lies in it; 0 if something lies there that is not ours.
std::time_t last_change(const std::string& directory, std::size_t depth) {
  struct stat status {};
  if (depth > kMostParts || ::lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return 0;
  std::time_t newest = status.st_mtime;
  for (const std::string& name : names_in(directory)) {
    const std::string path = directory + '/' + name;
    if (::lstat(path.c_str(), &status) != 0) continue;
    if (!S_ISDIR(status.st_mode)) {
      if (!is_ours(name)) return 0;
      newest = std::max(newest, status.st_mtime);
      continue;
    }
    const std::time_t inner = last_change(path, depth + 1);
    if (inner == 0) return 0;
    newest = std::max(newest, inner);
  }
  return newest;
}

void remove_run(const std::string& directory, std::size_t depth) {
  if (depth > kMostParts) return;
  for (const std::string& name : names_in(directory)) {
    const std::string path = directory + '/' + name;
    if (is_ours(name))
      ::unlink(path.c_str());
    else
      remove_run(path, depth + 1);
  }
  ::rmdir(directory.c_str());
}

}  // namespace

std::string state_directory(const std::optional<std::string>& xdg_state_home,
                            const std::optional<std::string>& home) {
  // The specification of XDG: a relative path is to be ignored.
  if (xdg_state_home && xdg_state_home->starts_with('/')) return *xdg_state_home + "/gpufence";
  if (home && home->starts_with('/')) return *home + "/.local/state/gpufence";
  return {};
}

bool is_run_name(std::string_view name) {
  std::size_t parts = 0;
  while (true) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part.size() > kLongestPart || part[0] == '.' || ++parts > kMostParts) return false;
    for (const char c : part) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         std::strchr("-_.+@", c) != nullptr;
      if (!plain || c == '\0') return false;
    }
    // A run of this name would take what is ours for its own.
    if (is_ours(std::string(part))) return false;
    if (part.size() == name.size()) return true;
    name.remove_prefix(part.size() + 1);
  }
}

bool make_private_directory(const std::string& path) noexcept {
  try {
    for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
      const std::string part = path.substr(0, slash);
      if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
        const int reason = errno;
        // Above what may be made here lies what may not, and is there.
        if (slash == std::string::npos || ::access(part.c_str(), F_OK) != 0) {
          errno = reason;
          return false;
        }
      }
      if (slash == std::string::npos) break;
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return false;
    if (S_ISDIR(status.st_mode) && status.st_uid == ::geteuid()) return true;
    errno = S_ISDIR(status.st_mode) ? EPERM : ENOTDIR;
    return false;
  } catch (...) {
    errno = ENOMEM;
    return false;
  }
}

void remove_if_empty(const std::string& state, const std::string& directory) noexcept {
  try {
    for (std::string part = directory; part.size() >= state.size() && ::rmdir(part.c_str()) == 0;)
      part.erase(part.rfind('/'));
  } catch (...) {
    // Then an empty directory stays.
  }
}

void prune_runs(const std::string& state, std::size_t most) noexcept {
  try {
    std::vector<std::string> runs = names_in(state);
    if (runs.size() <= most) return;
    std::vector<std::pair<std::time_t, std::string>> old;
    const std::time_t now = std::time(nullptr);
    for (const std::string& run : runs) {
      const std::time_t changed = last_change(state + '/' + run, 0);
      if (changed != 0 && now - changed > kDay) old.emplace_back(changed, run);
    }
    std::sort(old.begin(), old.end());
    const std::size_t surplus = std::min({runs.size() - most, old.size(), kMostPrunedAtOnce});
    for (std::size_t i = 0; i < surplus; ++i) remove_run(state + '/' + old[i].second, 0);
  } catch (...) {
    // Another process will.
  }
}

bool is_local_disk(int descriptor) noexcept {
  struct statfs status {};
  if (::fstatfs(descriptor, &status) != 0) return false;
  // The numbers of statfs(2): ext, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs.
  for (const unsigned long known :
       {0xEF53UL, 0x58465342UL, 0x9123683EUL, 0x01021994UL, 0x794C7630UL, 0x2FC12FC1UL, 0xF2F52010UL}) {
    if ((static_cast<unsigned long>(status.f_type) & 0xFFFFFFFFUL) == known) return true;
  }
  return false;
}

bool is_local_directory(const std::string& path) noexcept {
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  const bool local = is_local_disk(directory);
  ::close(directory);
  return local;
}

RunShare* RunShare::open(const std::string& directory) noexcept {
  try {
    const std::string path = directory + "/share";
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file < 0) return nullptr;
    struct stat status {};
    bool usable = is_local_disk(file) && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                  status.st_uid == ::geteuid();
    // Blocks, not only a size: the first touch of a hole on a full disk is SIGBUS.
    if (usable && static_cast<std::size_t>(status.st_size) < sizeof(RunShare))
      usable = allocate_quietly(file, sizeof(RunShare));
    void* mapped =
        usable ? ::mmap(nullptr, sizeof(RunShare), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    ::close(file);
    return mapped != MAP_FAILED ? static_cast<RunShare*>(mapped) : nullptr;
  } catch (...) {
    return nullptr;
  }
}

bool RunShare::first(std::uint64_t key) noexcept {
  if (key == 0) key = 1;  // 0 is a free place
  for (std::size_t probe = 0; probe < keys_.size(); ++probe) {
    std::atomic<std::uint64_t>& place = keys_[(key + probe) % keys_.size()];
    std::uint64_t there = 0;
    if (place.compare_exchange_strong(there, key)) return true;
    if (there == key) return false;
  }
  return true;
}

namespace {

// "GF203" of a severity as a number that is not 0.
std::uint32_t made_as(std::string_view code, Severity severity) noexcept {
  std::uint32_t number = 0;
  for (const char c : code)
    number = c >= '0' && c <= '9' ? number * 10 + static_cast<std::uint32_t>(c - '0') : number;
  return number << 8 | (static_cast<std::uint32_t>(severity) + 1);
}

}  // namespace

void RunShare::note(std::string_view code, Severity severity) noexcept {
  const std::uint32_t made = made_as(code, severity);
  for (auto& place : made_) {
    std::uint32_t there = 0;
    if (place.compare_exchange_strong(there, made) || there == made) return;
  }
}

std::string RunShare::made(std::string_view code, Severity least) const {
  std::string worst;
  Severity most{};
  for (const auto& place : made_) {
    const std::uint32_t there = place.load();
    if (there == 0) break;
    const auto severity = static_cast<Severity>((there & 0xff) - 1);
    const std::string name = "GF" + std::to_string(there >> 8);
    if (code.empty() ? severity < least : name != code) continue;
    if (!worst.empty() && severity <= most) continue;
    worst = name;
    most = severity;
  }
  return worst;
}

bool RunShare::take_line(std::uint32_t most) noexcept {
  std::uint32_t lines = lines_.load();
  while (lines < most) {
    if (lines_.compare_exchange_weak(lines, lines + 1)) return true;
  }
  cut_.fetch_add(1);
  return false;
}

std::uint32_t RunShare::cut_to_say() noexcept {
  const std::uint32_t cut = cut_.load();
  std::uint32_t said = cut_said_.load();
  if (cut == 0 || cut < 2 * said || cut == said) return 0;
  return cut_said_.compare_exchange_strong(said, cut) ? cut : 0;
}

}  // namespace gpufence::journal
