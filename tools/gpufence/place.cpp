// The build tree has lib/ and sim/ beside bin/; an installed tree has the configured library directory, which
// distributions call lib, lib64 or lib/<triplet>.
#include "tools/gpufence/place.h"

#include <limits.h>
#include <unistd.h>

#include <string_view>

namespace gpufence::command {
namespace {

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string parent(const std::string& directory) {
  return directory.substr(0, directory.rfind('/'));
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
    if (!exists(lib + "/libgpufence-core.so"))
      return tl::unexpected(
          Refusal{kCannotRun, {lib + "/libgpufence-core.so", "is missing", "install gpufence again"}});
    // ld.so takes LD_PRELOAD apart at both, and there is no way to quote them.
    if (gate.find_first_of(": ") != std::string::npos)
      return tl::unexpected(Refusal{kFailed,
                                    {gate, "can't be preloaded from a path with a colon or a blank in it",
                                     "install gpufence elsewhere"}});
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
