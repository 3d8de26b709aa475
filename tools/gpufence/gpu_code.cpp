// Only headers are read, one pread each: the sections of a library may hold gigabytes.
#include "tools/gpufence/gpu_code.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace gpufence::command {
namespace {

constexpr std::uint32_t kMagic = 0xba55ed50;
constexpr std::uint64_t kZstd = 0x8000, kLz4 = 0x2000;
constexpr std::uint16_t kPtx = 1, kElf = 2;
// Bounds against hostile files; the largest library at hand has some ten thousand entries.
constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::uint64_t kMostPadding = 4096;

struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // after the header
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;  // padded to 8
  std::uint32_t packed_bytes;
  std::uint32_t options_offset;
  std::uint16_t minor, major;
  std::uint32_t sm;
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags;
  std::uint64_t zero;
  std::uint64_t unpacked_bytes;
};
static_assert(sizeof(Header) == 16 && sizeof(Entry) == 64);

template <class T>
std::optional<T> read(int descriptor, std::uint64_t offset) {
  const auto bytes = read_bytes(descriptor, offset, sizeof(T));
  if (!bytes) return std::nullopt;
  T value;
  std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

GpuCode code_of(const Entry& entry) {
  GpuCode code;
  code.kind = entry.kind == kPtx   ? GpuCode::Kind::ptx
              : entry.kind == kElf ? GpuCode::Kind::cubin
                                   : GpuCode::Kind::other;
  code.sm = entry.sm;
  code.packing = (entry.flags & kZstd) != 0 ? "zstd" : (entry.flags & kLz4) != 0 ? "lz4" : "plain";
  const bool packed = code.packing != "plain";
  code.bytes =
      packed ? std::min<std::uint64_t>(entry.packed_bytes, entry.payload_bytes) : entry.payload_bytes;
  code.unpacked = packed ? entry.unpacked_bytes : code.bytes;
  return code;
}

}  // namespace

void read_fatbins(int descriptor, std::uint64_t offset, std::uint64_t size, EmbeddedCode& code) {
  const auto damaged = [&](const char* why) { code.problem = why; };
  std::uint64_t left = size, padding = 0;
  const auto step = [&](std::uint64_t bytes) {
    offset += bytes;
    left -= bytes;
  };
  while (left >= sizeof(Header)) {
    const auto header = read<Header>(descriptor, offset);
    if (!header) return damaged("a fatbin reaches past the end of the file");
    if (header->magic == 0 && padding < kMostPadding) {
      step(8);
      padding += 8;
      continue;
    }
    if (header->magic != kMagic) return damaged("something else stands where a fatbin should begin");
    if (header->header_bytes < sizeof(Header) || header->header_bytes > left ||
        header->bytes > left - header->header_bytes)
      return damaged("a fatbin is larger than its section");
    step(header->header_bytes);
    std::uint64_t inside = header->bytes;
    while (inside > 0) {
      if (code.entries.size() == kMostEntries) return damaged("there are more entries than can be");
      const auto entry = inside >= sizeof(Entry) ? read<Entry>(descriptor, offset) : std::nullopt;
      if (!entry) return damaged("a fatbin entry ends in its header");
      if (entry->header_bytes < sizeof(Entry) || entry->header_bytes > inside ||
          entry->payload_bytes > inside - entry->header_bytes)
        return damaged("a fatbin entry is larger than its fatbin");
      code.entries.push_back(code_of(*entry));
      inside -= entry->header_bytes + entry->payload_bytes;
      step(entry->header_bytes + entry->payload_bytes);
    }
    padding = 0;
  }
}

std::vector<ElfSection> code_sections(int descriptor) {
  std::vector<ElfSection> found;
  for (ElfSection& section : read_sections(descriptor).value_or(std::vector<ElfSection>{}))
    if (section.name == ".nv_fatbin" || section.name == kRelocatableCode) found.push_back(std::move(section));
  return found;
}

EmbeddedCode embedded_code(int descriptor) {
  EmbeddedCode code;
  for (const ElfSection& section : code_sections(descriptor))
    read_fatbins(descriptor, section.offset, section.size, code);
  return code;
}

}  // namespace gpufence::command
