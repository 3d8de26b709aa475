// What a program is made of, as far as CUDA is concerned: itself and those of its libraries that come to
// CUDA, bring GPU code or call it; and how each does. Read from the files, nothing is started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/gpufence/cuda_signs.h"
#include "tools/gpufence/elf.h"
#include "tools/gpufence/environment.h"
#include "tools/gpufence/gpu_code.h"
#include "tools/gpufence/libraries.h"
#include "tools/gpufence/program.h"

namespace gpufence::command {

struct Part {
  std::string name;  // "the program", "the library" that was asked about, "libfoo.so.1"
  std::string path;
  Elf elf;
  CudaSigns signs;
  EmbeddedCode code;
  std::vector<ElfSection> code_sections;  // where that code stands
  std::vector<std::string> calls;         // functions of CUDA that it imports
  std::vector<std::string> ways;          // how it comes to CUDA, for a reader
};

struct Parts {
  std::vector<Part> parts;  // the program first; then those of its libraries that have to do with CUDA
  std::vector<Library> missing;
  // CUDA's own libraries that a DT_RPATH leads to, of whichever file: LD_LIBRARY_PATH comes behind it.
  std::vector<Library> fixed;
};

// Of the image of a program that was found (program.h); none if it is of another machine. `name`: of the
// first part.
[[nodiscard]] Parts parts_of(const Program& program, const std::string& name, const Environment& environment);

// NVIDIA's libraries whose code is for real GPUs. (NVRTC and nvJitLink compile, and need none.)
[[nodiscard]] bool needs_real_gpu(const std::string& library);
// The three that gpufence itself stands before, or in the place of.
[[nodiscard]] bool is_cuda_itself(const std::string& library);

}  // namespace gpufence::command
