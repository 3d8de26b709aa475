// See remappable.h. A shared runtime anywhere among a program's libraries is enough to let it run.
#include "tools/gpufence/remappable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/gpufence/cuda_signs.h"
#include "tools/gpufence/libraries.h"

namespace gpufence::command {
namespace {

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

bool needs(const Elf& elf, std::string_view library) {
  for (const std::string& needed : elf.needed)
    if (begins(needed, library)) return true;
  return false;
}

CudaSigns signs_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return {};
  const CudaSigns signs = cuda_signs(file);
  ::close(file);
  return signs;
}

// This command: a run inside the run. The signs that it looks for are its own constants.
bool is_this_command(const std::string& image) {
  struct stat its {
  }, ours{};
  return ::stat(image.c_str(), &its) == 0 && ::stat("/proc/self/exe", &ours) == 0 &&
         its.st_ino == ours.st_ino && its.st_dev == ours.st_dev;
}

}  // namespace

std::optional<Unfenceable> why_not_remappable(const Program& program, const Environment& environment) {
  if (!program.elf || program.elf->foreign || is_this_command(program.image)) return std::nullopt;
  const Elf& elf = *program.elf;
  if (needs(elf, "libcudart.so")) return std::nullopt;
  const CudaSigns signs = signs_of(program.image);
  const bool calls_driver = needs(elf, "libcuda.so") || signs.opens_driver;
  if (!signs.static_runtime && (!calls_driver || signs.opens_runtime)) return std::nullopt;

  for (const Library& library : libraries_of(program.image, elf, environment)) {
    if (library.path.empty()) continue;
    if (begins(library.name, "libcudart.so") || needs(library.elf, "libcudart.so")) return std::nullopt;
    if (signs.static_runtime) continue;
    const CudaSigns its = signs_of(library.path);
    if (its.opens_runtime || its.static_runtime) return std::nullopt;
  }
  if (signs.static_runtime)
    return Unfenceable{"its CUDA runtime is linked statically, and its calls have no names that could be met",
                       "link it with nvcc -cudart shared, or choose and order its GPUs with --devices"};
  return Unfenceable{
      "it calls the driver itself and has no CUDA runtime, and ordinals of the driver's calls are "
      "never remapped",
      "choose and order its GPUs with --devices"};
}

}  // namespace gpufence::command
