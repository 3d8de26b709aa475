// Searches the sections of constants, or all of a file that has no section headers; GPU code is left out.
#include "tools/gpufence/cuda_signs.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/gpufence/elf.h"

namespace gpufence::command {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostSearched = std::uint64_t{1} << 30;  // bytes; no constants are larger
constexpr std::uint64_t kLongestSign = 64;

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// The name as dlopen takes it: at the end of a path or alone, ended by NUL or by a version.
bool names_library(std::string_view chunk, std::string_view name) {
  for (std::size_t at = chunk.find(name); at != std::string_view::npos; at = chunk.find(name, at + 1)) {
    if (at > 0 && chunk[at - 1] != '\0' && chunk[at - 1] != '/') continue;
    std::size_t end = at + name.size();
    while (end < chunk.size() && (chunk[end] == '.' || (chunk[end] >= '0' && chunk[end] <= '9'))) ++end;
    if (end == chunk.size() || chunk[end] == '\0') return true;
  }
  return false;
}

}  // namespace

CudaSigns cuda_signs(int descriptor) {
  std::vector<ElfSection> places;
  if (const auto sections = read_sections(descriptor)) {
    for (const ElfSection& section : *sections)
      if (begins(section.name, ".rodata") || begins(section.name, ".data") || section.name == ".lrodata" ||
          section.name == ".ldata")
        places.push_back(section);
    struct stat status {};
    if (sections->empty() && ::fstat(descriptor, &status) == 0 && status.st_size > 0)
      places.push_back({"", 0, static_cast<std::uint64_t>(status.st_size)});
  }
  CudaSigns signs;
  // Each runtime, also a stand-in, has CUDA's table of error names; of NVIDIA's nothing but its shared
  // memory's name is its own. Programs that carry the table themselves exist (NVIDIA's samples of old),
  // without the name.
  bool error_names = false, genuine = false, ours = false;
  std::uint64_t searched = 0;
  for (const ElfSection& place : places)
    for (std::uint64_t at = 0; at < place.size && searched < kMostSearched; at += kChunk) {
      // Signs may lie across the border of two chunks.
      const std::uint64_t size = std::min(kChunk + kLongestSign, place.size - at);
      const auto chunk = read_bytes(descriptor, place.offset + at, size);
      if (!chunk) break;
      searched += size;
      const auto holds = [&](const char* text) { return chunk->find(text) != std::string::npos; };
      signs.opens_driver = signs.opens_driver || names_library(*chunk, "libcuda.so");
      signs.opens_runtime = signs.opens_runtime || names_library(*chunk, "libcudart.so");
      signs.opens_nvml = signs.opens_nvml || names_library(*chunk, "libnvidia-ml.so");
      error_names = error_names || holds("cudaErrorCudartUnloading");
      genuine = genuine || holds("/cudart.shm.");
      ours = ours || holds("gpufence-simtru1");  // by which the stand-in asks its driver (tests/sim)
    }
  signs.our_runtime = error_names && ours;
  signs.static_runtime = error_names && (ours || genuine);
  return signs;
}

}  // namespace gpufence::command
