#include "tools/gpufence/parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

namespace gpufence::command {
namespace {

std::string found_text(const std::vector<Library>& libraries, const std::string& name) {
  for (const Library& library : libraries)
    if (library.name == name)
      return library.path.empty() ? name + ", which is not found"
                                  : name + " → " + library.path + " by " + library.found_by;
  return name;
}

void look_for_ways(Part& part, const std::vector<Library>& libraries) {
  bool shared_runtime = false;
  for (const std::string& needed : part.elf.needed) {
    if (needed.starts_with("libcudart.so")) {
      shared_runtime = true;
      part.ways.push_back("shared runtime: " + found_text(libraries, needed));
    }
    if (needed.starts_with("libcuda.so"))
      part.ways.push_back("driver, linked: " + found_text(libraries, needed));
    if (needed.starts_with("libnvidia-ml.so"))
      part.ways.push_back("NVML, linked: " + found_text(libraries, needed));
  }
  if (part.signs.static_runtime)
    part.ways.push_back(part.signs.our_runtime ? "static runtime: gpufence's stand-in"
                                               : "static runtime: NVIDIA's");
  // A static runtime opens the driver itself; its name says no more.
  if (part.signs.opens_driver && !part.signs.static_runtime)
    part.ways.push_back("driver, opened by name: libcuda.so.1");
  if (part.signs.opens_runtime && !shared_runtime)
    part.ways.push_back("runtime, opened by name: libcudart.so");
  if (part.signs.opens_nvml) part.ways.push_back("NVML, opened by name: libnvidia-ml.so.1");
}

// "cuMemAlloc_v2", "cudaMalloc", and what nvcc's own code calls: "__cudaRegisterFatBinary".
bool is_call_of_cuda(std::string_view name) {
  while (name.starts_with("_")) name.remove_prefix(1);
  const std::size_t stem = name.starts_with("cuda") ? 4 : 2;
  return name.starts_with("cu") && name.size() > stem &&
         std::isupper(static_cast<unsigned char>(name[stem])) != 0;
}

void read_file(Part& part) {
  const int file = ::open(part.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return;
  part.signs = cuda_signs(file);
  part.code_sections = code_sections(file);
  part.code = embedded_code(file);
  for (std::string& name : read_imports(file).value_or(std::vector<std::string>{}))
    if (is_call_of_cuda(name)) part.calls.push_back(std::move(name));
  ::close(file);
}

}  // namespace

bool needs_real_gpu(const std::string& library) {
  static constexpr const char* kNames[] = {"libcublas",   "libcudnn",    "libcufft",    "libcurand",
                                           "libcusolver", "libcusparse", "libnccl",     "libnpp",
                                           "libnvjpeg",   "libcupti",    "libcutensor", "libnvshmem"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return library.starts_with(name); });
}

bool is_cuda_itself(const std::string& library) {
  return library.starts_with("libcuda.so") || library.starts_with("libcudart.so") ||
         library.starts_with("libnvidia-ml.so");
}

Parts parts_of(const Program& program, const std::string& name, const Environment& environment) {
  Parts all;
  if (!program.elf || program.elf->foreign) return all;
  const std::vector<Library> libraries = libraries_of(program.image, *program.elf, environment);
  Part first{name, program.image, *program.elf, {}, {}, {}, {}, {}};
  read_file(first);
  look_for_ways(first, libraries);
  all.parts.push_back(std::move(first));
  for (const Library& library : libraries) {
    if (library.path.empty()) {
      all.missing.push_back(library);
      continue;
    }
    if (is_cuda_itself(library.name)) {
      if (library.found_by == "DT_RPATH") all.fixed.push_back(library);
      continue;
    }
    Part part{library.name, library.path, library.elf, {}, {}, {}, {}, {}};
    read_file(part);
    look_for_ways(part, libraries);
    if (!part.ways.empty() || !part.code.entries.empty() || !part.code.problem.empty() ||
        !part.calls.empty() || needs_real_gpu(library.name))
      all.parts.push_back(std::move(part));
  }
  return all;
}

}  // namespace gpufence::command
