// The GPU code that nvcc embeds in a program or library, as far as its headers tell: which kind, for which
// GPUs, how packed, how large. The layout is that of nvcc's output, nothing of it is documented; any bytes
// may come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/gpufence/elf.h"

namespace gpufence::command {

struct GpuCode {
  enum class Kind { ptx, cubin, other };
  Kind kind = Kind::other;
  std::uint32_t sm = 0;        // 75: compute_75 of PTX, sm_75 of a cubin
  std::string packing;         // "plain", "zstd", "lz4"
  std::uint64_t bytes = 0;     // as stored
  std::uint64_t unpacked = 0;  // bytes; as stored where it is not packed
  bool operator==(const GpuCode&) const = default;
};

struct EmbeddedCode {
  std::vector<GpuCode> entries;  // in the order of the file
  std::string problem;  // why reading ended early: "a fatbin entry is larger than its fatbin"; or empty
};

// Of relocatable code (-rdc=true): its fatbins make one program together.
inline constexpr const char* kRelocatableCode = "__nv_relfatbin";

// Where GPU code stands in an ELF file of our own machine: ".nv_fatbin", kRelocatableCode.
[[nodiscard]] std::vector<ElfSection> code_sections(int descriptor);

// Of an ELF file of our own machine; nothing is embedded in others.
[[nodiscard]] EmbeddedCode embedded_code(int descriptor);

// Of one section's stretch of a file.
void read_fatbins(int descriptor, std::uint64_t offset, std::uint64_t size, EmbeddedCode& code);

}  // namespace gpufence::command
