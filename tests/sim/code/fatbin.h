// What a program hands the driver as code: fatbins as nvcc embeds them, behind their wrapper or bare, PTX
// text, cubins. Only PTX can run here; of cubins nothing is kept but for which GPUs they are, so that the
// driver can say what is missing. The layout is that of nvcc 13.0, as seen in its output; nothing else is
// documented. Any bytes may come: no input makes this read outside of what Reach vouches for, or use
// unbounded memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace gpufence::sim {

// How many bytes can be read from an address on; 0: none.
using Reach = std::function<size_t(uintptr_t)>;

// The process's memory, as its mappings are at the time of the call.
Reach process_memory();

enum class Packing { plain, zstd, lz4 };

// One PTX text of a fatbin, still as it was packed.
struct PtxImage {
  uint32_t compute = 0;  // 75: compute_75
  Packing packing = Packing::plain;
  std::vector<uint8_t> packed;
  uint64_t text_bytes = 0;  // unpacked

  // An error is a sentence.
  [[nodiscard]] tl::expected<std::string, std::string> text() const;
};

// One fatbin: the same code for several GPUs.
struct Binary {
  std::vector<PtxImage> ptx;
  std::vector<uint32_t> cubins;  // 80: sm_80
  bool is_text = false;          // bare PTX: its own .target says for which GPUs; `compute` is 0
};

// What one load call was given. Several members (-rdc=true) are one program: each is to be chosen from and
// all are to be linked.
struct CodeImage {
  std::vector<Binary> members;
};

// Bounds: bytes of one fatbin, members of one wrapper, entries of one fatbin.
constexpr uint64_t kMostBytes = uint64_t{2} << 30;
constexpr size_t kMostMembers = 65536;
constexpr size_t kMostEntries = 4096;

// Reads what lies at `image`: a wrapper, a fatbin, a cubin or PTX text that ends with NUL. Copies what it
// keeps. An error is a sentence.
[[nodiscard]] tl::expected<CodeImage, std::string> read_code(const void* image, const Reach& reach);

// The same as one piece of bytes, in a form of our own that read_code() takes: what a link makes of its
// parts.
[[nodiscard]] std::vector<uint8_t> write_code(const CodeImage& code);

// Fatbins one behind the other with zeros between, as a section of a program holds them (.nv_fatbin,
// __nv_relfatbin). What is damaged ends them.
[[nodiscard]] std::vector<Binary> read_section(const uint8_t* at, size_t bytes);

// The PTX images that a GPU of that compute capability (75: 7.5) may run, best first. A text whose .target
// asks for one architecture (sm_90a) or family (sm_100f) is told apart by target_fits() once it is unpacked.
[[nodiscard]] std::vector<const PtxImage*> candidates(const Binary& binary, uint32_t capability);

// Does the text's .target line allow that GPU?
[[nodiscard]] bool target_fits(std::string_view ptx, uint32_t capability);

// Why a binary has no PTX for a GPU of that compute capability, and what to do, as one line.
[[nodiscard]] std::string why_none(const Binary& binary, uint32_t capability);

}  // namespace gpufence::sim
