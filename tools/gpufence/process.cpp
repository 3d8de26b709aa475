// See the header. Mappings are told apart by device and inode: two paths may be one file, and one path two.
#include "tools/gpufence/process.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <tuple>

namespace gpufence::command {
namespace {

// The content, or errno.
tl::expected<std::string, int> content_of(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return tl::unexpected(errno);
  std::string content;
  std::array<char, 1 << 16> buffer{};
  errno = 0;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;)
    content.append(buffer.data(), got);
  const int failed = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (failed != 0) return tl::unexpected(failed);
  return content;
}

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

std::vector<MappedFile>* place_of(std::string_view path, Process& process) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "libgpufence.so") return &process.gates;
  if (name == "libgpufence-core.so") return &process.cores;
  // "libcuda.so.580.65.06" as well, which is what libcuda.so.1 leads to.
  if (begins(name, "libcuda.so")) return &process.drivers;
  if (begins(name, "libcudart.so")) return &process.runtimes;
  if (begins(name, "libnvidia-ml.so")) return &process.nvmls;
  return nullptr;
}

}  // namespace

unsigned Process::copies_of_the_driver() const {
  unsigned copies = 0;
  for (const MappedFile& file : drivers) copies += file.copies;
  return copies;
}

std::optional<int> process_number(const std::string& word) {
  if (word.empty() || word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoi(word);
}

void sort_mappings(const std::string& maps, Process& process) {
  // Code is mapped once a load, at one offset of the file; other parts may be cut into several mappings.
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::string>, unsigned> loads;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    unsigned major = 0, minor = 0;
    unsigned long long inode = 0;
    std::array<char, 8> rights{};
    std::array<char, 20> offset{};
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%*x-%*x %7s %19s %x:%x %llu %n", rights.data(), offset.data(), &major,
                    &minor, &inode, &path_at) != 5 ||
        path_at == 0 || static_cast<std::size_t>(path_at) >= line.size())
      continue;
    std::string path = line.substr(static_cast<std::size_t>(path_at));
    bool replaced = false;
    constexpr std::string_view kDeleted = " (deleted)";
    if (path.size() > kDeleted.size() &&
        path.compare(path.size() - kDeleted.size(), kDeleted.size(), kDeleted) == 0) {
      path.erase(path.size() - kDeleted.size());
      replaced = true;
    }
    std::vector<MappedFile>* files = path[0] == '/' ? place_of(path, process) : nullptr;
    if (files == nullptr) continue;
    const std::uint64_t device = makedev(major, minor);
    auto file = std::find_if(files->begin(), files->end(), [&](const MappedFile& known) {
      return known.device == device && known.inode == inode;
    });
    if (file == files->end()) file = files->insert(file, {path, device, inode, 1, replaced});
    if (std::strchr(rights.data(), 'x') != nullptr)
      file->copies = std::max(file->copies, ++loads[{device, inode, offset.data()}]);
  }
}

tl::expected<Process, policies::Error> read_process(int pid) {
  using policies::Error;
  const std::string what = "pid " + std::to_string(pid);
  const std::string directory = "/proc/" + std::to_string(pid);
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0)
    return tl::unexpected(Error{what, "there is no such process", "look at ps"});
  Process process;
  process.pid = pid;
  const auto maps = content_of(directory + "/maps");
  if (!maps) {
    if (maps.error() == EACCES || maps.error() == EPERM)
      return tl::unexpected(Error{what, "is another user's, or guarded: its mappings can't be read",
                                  "ask as the user who started it, or as root"});
    return tl::unexpected(Error{
        what, std::string("its mappings can't be read (") + std::strerror(maps.error()) + ')', "look at ps"});
  }
  if (maps->empty())
    return tl::unexpected(
        Error{what, "has no memory of its own: it has ended, or is the kernel's", "look at ps"});
  sort_mappings(*maps, process);
  for (std::vector<MappedFile>* files : {&process.gates, &process.cores})
    for (MappedFile& file : *files)
      // Overlay file systems show other device numbers in maps than stat does; the inode is enough here.
      file.replaced = file.replaced || ::stat(file.path.c_str(), &status) != 0 || status.st_ino != file.inode;

  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink((directory + "/exe").c_str(), path.data(), path.size());
  if (length > 0) process.program.assign(path.data(), static_cast<std::size_t>(length));
  std::vector<std::string> entries;
  std::string_view rest;
  const auto environment = content_of(directory + "/environ");
  if (environment) rest = *environment;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    if (end > 0) entries.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  process.environment = Environment(std::move(entries));
  return process;
}

}  // namespace gpufence::command
