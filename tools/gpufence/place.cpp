// The build tree has lib/ and sim/ beside bin/; an installed tree has the configured library directory, which
// distributions call lib, lib64 or lib/<triplet>.
#include "tools/gpufence/place.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/gpufence/elf.h"

namespace gpufence::command {
namespace {

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string parent(const std::string& directory) {
  return directory.substr(0, directory.rfind('/'));
}

// Why ld.so would not load this library of ours, as a clause; or nothing. Of a preload that it can't load it
// says "ignored" and starts the program all the same, and one that is cut off kills every program.
std::optional<std::string> why_not_loadable(const std::string& path, std::string_view soname) {
  // Opening a FIFO must not wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return "can't be read (" + std::string(std::strerror(errno)) + ')';
  struct stat status {};
  struct statvfs mount {};
  const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool executes = ::fstatvfs(file, &mount) != 0 || (mount.f_flag & ST_NOEXEC) == 0;
  const auto elf =
      regular ? read_elf(file) : tl::expected<Elf, std::string>(tl::unexpected(std::string("not read")));
  ::close(file);
  if (!regular) return "is no regular file";
  if (!elf) return "is damaged: " + elf.error();
  if (elf->foreign) return "is for " + elf->machine + ", and this machine is " + own_machine();
  if (!elf->complete()) return "is damaged: " + cut_off(elf->size, elf->extent);
  if (!elf->shared_object) return "is damaged: it is no shared library";
  if (elf->soname != soname)
    return elf->soname.empty() ? "is another library: it has no name of its own"
                               : "is another library: it calls itself " + elf->soname;
  if (!executes) return "is on a file system that is mounted noexec";
  return std::nullopt;
}

}  // namespace

std::string own_directory() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || static_cast<std::size_t>(length) >= sizeof path) return {};
  const std::string executable(path, static_cast<std::size_t>(length));
  return executable.substr(0, executable.rfind('/'));
}

tl::expected<std::string, Refusal> find_gate(const std::string& bin) {
  const std::string root = parent(bin);
  std::string tried;
  for (const std::string& lib : {root + "/lib", root + "/" GPUFENCE_LIBDIR}) {
    const std::string gate = lib + "/libgpufence.so";
    if (!exists(gate)) {
      if (tried.find(gate) == std::string::npos) tried += (tried.empty() ? "" : " and ") + gate;
      continue;
    }
    // ld.so takes LD_PRELOAD apart at the first two and expands what begins with the third, and there is no
    // way to quote them.
    if (gate.find_first_of(": $") != std::string::npos)
      return tl::unexpected(
          Refusal{kFailed,
                  {gate, "can't be preloaded from a path with a colon, a blank or a $ in it",
                   "install gpufence elsewhere"}});
    if (!exists(lib + "/libgpufence-core.so"))
      return tl::unexpected(
          Refusal{kCannotRun, {lib + "/libgpufence-core.so", "is missing", "install gpufence again"}});
    for (const char* library : {"libgpufence.so", "libgpufence-core.so"})
      if (auto why = why_not_loadable(lib + '/' + library, library))
        return tl::unexpected(
            Refusal{kCannotRun, {lib + '/' + library, *std::move(why), "install gpufence again"}});
    return gate;
  }
  return tl::unexpected(
      Refusal{kCannotRun, {"libgpufence.so", "is not at " + tried, "install gpufence again"}});
}

std::optional<std::string> find_simulation(const std::string& bin) {
  const std::string root = parent(bin);
  for (const std::string& directory :
       {root + "/sim", root + "/" GPUFENCE_LIBDIR "/gpufence/sim", root + "/lib/gpufence/sim"})
    if (exists(directory + "/libnvidia-ml.so.1")) return directory;
  return std::nullopt;
}

}  // namespace gpufence::command
