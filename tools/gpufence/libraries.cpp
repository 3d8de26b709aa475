// See the header. Every file here is another's and may be damaged: what can't be read is passed over, as
// ld.so does with files of another machine.
#include "tools/gpufence/libraries.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "tools/gpufence/program.h"

namespace gpufence::command {
namespace {

constexpr std::size_t kMostLibraries = 4096;
constexpr std::uint64_t kLargestCache = std::uint64_t{64} << 20;

constexpr std::array kDefaultDirectories = {
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
#else
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib"};

std::optional<Elf> read_library(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return std::nullopt;
  struct stat status {};
  std::optional<Elf> found;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    const auto elf = read_elf(file);
    if (elf && !elf->foreign) found = *elf;
  }
  ::close(file);
  return found;
}

// What an object's own paths are, and those of the objects that led to it: DT_RPATH is inherited.
struct Requester {
  std::string path;
  Elf elf;
  std::vector<std::string> rpaths;
};

class Search {
 public:
  explicit Search(const Environment& environment)
      : library_path_(environment.get("LD_LIBRARY_PATH").value_or("")) {}

  Library find(const std::string& name, const Requester& by) {
    Library library{name, {}, by.path, {}, {}};
    const auto take = [&](const std::string& path, const char* way) {
      auto elf = read_library(path);
      if (!elf) return false;
      library.path = path;
      library.found_by = way;
      library.elf = *std::move(elf);
      return true;
    };
    const auto among = [&](const std::vector<std::string>& directories, const char* way) {
      return std::any_of(directories.begin(), directories.end(),
                         [&](const std::string& directory) { return take(directory + '/' + name, way); });
    };
    if (name.find('/') != std::string::npos) {
      take(name, "its path");
      return library;
    }
    if (by.elf.runpath.empty() && among(by.rpaths, "DT_RPATH")) return library;
    if (among(search_directories(library_path_, {}, ":;"), "LD_LIBRARY_PATH")) return library;
    if (among(search_directories(by.elf.runpath, by.path), "DT_RUNPATH")) return library;
    for (const std::string& path : in_loader_cache(cache(), name))
      if (take(path, "ld.so.cache")) return library;
    (void)among({kDefaultDirectories.begin(), kDefaultDirectories.end()}, "default directories");
    return library;
  }

 private:
  const std::string& cache() {
    if (!cache_) {
      cache_.emplace();
      const int file = ::open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      struct stat status {};
      if (file >= 0 && ::fstat(file, &status) == 0 && status.st_size > 0 &&
          static_cast<std::uint64_t>(status.st_size) <= kLargestCache)
        cache_ = read_bytes(file, 0, static_cast<std::uint64_t>(status.st_size)).value_or("");
      if (file >= 0) ::close(file);
    }
    return *cache_;
  }

  std::string library_path_;
  std::optional<std::string> cache_;
};

}  // namespace

std::vector<std::string> in_loader_cache(const std::string& cache, const std::string& name) {
  // glibc's dl-cache.h: the new format, alone or behind the old one.
  struct Header {
    char magic[20];
    std::uint32_t libraries, strings;
    std::uint32_t unused[5];
  };
  struct Entry {
    std::int32_t flags;
    std::uint32_t key, value;  // offsets from the header
    std::uint32_t version;
    std::uint64_t hardware;
  };
  static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24);
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";

  std::vector<std::string> paths;
  const std::size_t start = cache.find(kMagic);
  if (start == std::string::npos) return paths;
  const std::string_view all = std::string_view(cache).substr(start);
  Header header{};
  if (all.size() < sizeof header) return paths;
  std::memcpy(&header, all.data(), sizeof header);
  const auto text = [&](std::uint32_t offset) -> std::string_view {
    if (offset >= all.size()) return {};
    const std::string_view rest = all.substr(offset);
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end);
  };
  for (std::uint32_t i = 0; i < header.libraries; ++i) {
    const std::size_t at = sizeof header + std::size_t{i} * sizeof(Entry);
    if (all.size() < sizeof(Entry) || at > all.size() - sizeof(Entry)) break;
    Entry entry{};
    std::memcpy(&entry, all.data() + at, sizeof entry);
    // Those for one kind of processor lie beside one for all.
    if (entry.hardware == 0 && text(entry.key) == name) paths.emplace_back(text(entry.value));
  }
  return paths;
}

std::vector<Library> libraries_of(const std::string& program, const Elf& elf,
                                  const Environment& environment) {
  Search search(environment);
  std::vector<Library> libraries;
  std::set<std::string> seen;
  std::vector<Requester> waiting{{program, elf, search_directories(elf.rpath, program)}};
  for (std::size_t at = 0; at < waiting.size() && libraries.size() < kMostLibraries; ++at) {
    const Requester by = waiting[at];
    for (const std::string& name : by.elf.needed) {
      if (!seen.insert(name).second) continue;
      Library library = search.find(name, by);
      if (!library.path.empty()) {
        if (!library.elf.soname.empty()) seen.insert(library.elf.soname);
        std::vector<std::string> rpaths = search_directories(library.elf.rpath, library.path);
        rpaths.insert(rpaths.end(), by.rpaths.begin(), by.rpaths.end());
        waiting.push_back({library.path, library.elf, std::move(rpaths)});
      }
      libraries.push_back(std::move(library));
    }
  }
  return libraries;
}

}  // namespace gpufence::command
